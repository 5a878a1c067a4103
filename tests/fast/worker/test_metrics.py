"""Metrics of a worker: counted where they belong, in the format of Prometheus, and all documented."""

import re
import threading
import time
import timeit
from collections.abc import Callable

import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

import duly
from duly.apps.posts.http.metrics import METRICS, render_metrics
from duly.apps.posts.slo import Objective
from duly.launcher import ROOT
from duly.outcomes import RAISABLE, Cancelled, Stopped
from duly.worker.metrics import OUTCOMES, Metrics

METRIC_CASES: dict[str, tuple[Callable[[Metrics], None], float]] = {
    'duly_claimed_total{work_type="mail"}': (lambda m: m.claimed("mail", 20, 0.004), 20),
    'duly_batch_rows_sum{work_type="mail"}': (lambda m: m.claimed("mail", 20, 0.004), 20),
    'duly_claim_seconds_sum{work_type="mail"}': (lambda m: m.claimed("mail", 20, 0.25), 0.25),
    'duly_settled_total{outcome="done",work_type="mail"}': (lambda m: m.settled("mail", "done", 3), 3),
    'duly_settled_total{outcome="gave_up",work_type="mail"}': (lambda m: m.settled("mail", "gave_up"), 1),
    'duly_settled_total{outcome="bounced",work_type="mail"}': (lambda m: m.settled("mail", "bounced"), 1),
    'duly_settle_seconds_sum{work_type="mail"}': (lambda m: m.settled_in("mail", 5, 0.5), 0.5),
    'duly_settle_rows_sum{work_type="mail"}': (lambda m: m.settled_in("mail", 5, 0.5), 5),
    'duly_run_seconds_sum{work_type="mail"}': (lambda m: m.ran("mail", 1.5), 1.5),
    'duly_run_seconds_bucket{le="1.0",work_type="mail"}': (lambda m: m.ran("mail", 1.5), 0),
    'duly_run_seconds_bucket{le="5.0",work_type="mail"}': (lambda m: m.ran("mail", 1.5), 1),
    'duly_leases_lost_total{work_type="mail"}': (lambda m: m.lost("mail"), 1),
    'duly_released_total{work_type="mail"}': (lambda m: m.released("mail", 4), 4),
    'duly_swept_total{work_type="mail"}': (lambda m: m.swept("mail", 2), 2),
    'duly_wakeups_total{work_type="mail"}': (lambda m: m.wakeup("mail"), 1),
    'duly_database_errors_total{work_type="mail"}': (lambda m: m.database_error("mail"), 1),
    'duly_running{work_type="mail"}': (lambda m: m.set_running("mail", 7), 7),
    'duly_slots{work_type="mail"}': (lambda m: m.begin("mail", 50), 50),
    "duly_children": (lambda m: m.set_processes(2), 2),
    f'duly_build_info{{version="{duly.__version__}"}}': (lambda _: None, 1),
}


def everything() -> Metrics:
    """Return metrics in which every event was counted."""
    metrics = Metrics()
    for happen, _ in METRIC_CASES.values():
        happen(metrics)
    metrics.beat()
    return metrics


def value_of(metrics: Metrics, series: str) -> float | None:
    """Return the value of a series."""
    found = re.search(rf"^{re.escape(series)} (\S+)$", metrics.render().decode(), re.MULTILINE)
    return float(found[1]) if found else None


@pytest.mark.parametrize("series", METRIC_CASES)
def test_each_event_increments_its_metric(series: str) -> None:
    happen, expected = METRIC_CASES[series]
    metrics = Metrics()
    happen(metrics)
    assert value_of(metrics, series) == expected


def test_last_beat_metric_is_a_unix_timestamp() -> None:
    metrics = Metrics()
    assert value_of(metrics, "duly_last_beat_timestamp_seconds") == 0
    metrics.beat()
    assert abs((value_of(metrics, "duly_last_beat_timestamp_seconds") or 0) - time.time()) < 60


def test_all_series_of_a_work_type_start_at_zero() -> None:
    metrics = Metrics()
    metrics.begin("mail", 50)
    initial_series = {
        line.rsplit(" ", 1)[0] for line in metrics.render().decode().splitlines() if 'work_type="mail"' in line
    }
    assert {
        series for series in METRIC_CASES if 'work_type="mail"' in series and "bounced" not in series
    } <= initial_series
    for series in initial_series - {'duly_slots{work_type="mail"}'}:
        assert value_of(metrics, series) == 0


def test_every_outcome_has_a_label() -> None:
    assert set(OUTCOMES) == {*RAISABLE, Cancelled} - {Stopped}


def test_metrics_of_two_workers_in_one_process_are_separate() -> None:
    one, other = Metrics(), Metrics()
    one.claimed("mail", 3, 0.1)
    other.claimed("mail", 4, 0.1)
    assert value_of(one, 'duly_claimed_total{work_type="mail"}') == 3
    assert value_of(other, 'duly_claimed_total{work_type="mail"}') == 4
    assert not [family.name for family in REGISTRY.collect() if family.name.startswith("duly")]


def test_prometheus_parses_the_metrics_text() -> None:
    families = {family.name: family for family in text_string_to_metric_families(everything().render().decode())}
    assert {family.type for family in families.values()} == {"counter", "gauge", "histogram"}
    assert families["duly_claimed"].type == "counter"
    assert all(family.documentation for family in families.values())


def test_there_are_no_created_series() -> None:
    assert b"_created" not in everything().render()


def test_labels_are_work_types_and_outcomes_and_never_ids() -> None:
    labels = {name for family in everything().registry.collect() for sample in family.samples for name in sample.labels}
    assert labels == {"work_type", "outcome", "version", "le"}


def test_counts_of_many_threads_add_up() -> None:
    metrics = Metrics()

    def count() -> None:
        for _ in range(1000):
            metrics.claimed("mail", 2, 0.001)
            metrics.settled("mail", "done")

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert value_of(metrics, 'duly_claimed_total{work_type="mail"}') == 16_000
    assert value_of(metrics, 'duly_claim_seconds_count{work_type="mail"}') == 8_000
    assert value_of(metrics, 'duly_settled_total{outcome="done",work_type="mail"}') == 8_000


@pytest.mark.parametrize("call", ["settled('mail', 'Done')", "ran('mail', 0.004)", "claimed('mail', 20, 0.004)"])
def test_metric_updates_are_cheap(call: str) -> None:
    calls = 10_000
    names = {"metrics": everything()}
    seconds = min(timeit.repeat(f"metrics.{call}", timer=time.thread_time, globals=names, number=calls))
    assert seconds / calls < 20e-6  # measured: 0.5, 0.9 and 2.9 µs


def rows_of_the_page() -> set[tuple[str, str, str, str]]:
    """Return the lines of the table in docs/metrics.md: name, type, labels, help."""
    page = (ROOT / "docs" / "metrics.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if "| `duly_" in line]
    return {(name.strip("`"), kind, labels.replace("`", ""), meaning) for name, kind, labels, meaning in rows}


def test_docs_list_every_metric_with_its_type_and_labels() -> None:
    listed: set[tuple[str, str, str, str]] = set()
    for family in everything().registry.collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        listed.add((name, family.type, ", ".join(sorted(labels)), family.documentation))
    api_metrics = {(name, "gauge", labels_of(name), description) for name, description in METRICS.items()}  # by the API
    assert rows_of_the_page() == listed | api_metrics


def labels_of(name: str) -> str:
    """Return the labels of a metric of the API."""
    return "objective, window" if name == "duly_slo_burn_rate" else "objective"


def test_objectives_are_exported_as_metrics() -> None:
    kept = Objective("intents", "", 0.995, 0.999, True, 1000, 1, 0.8, {"1h": 0.2, "6h": None})
    broken = Objective("stuck", "", 900, 1000.0, False, 3, 1)
    text = render_metrics([kept, broken]).decode()
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found["duly_slo_met", "intents"] == 1
    assert found["duly_slo_met", "stuck"] == 0
    assert found["duly_slo_burn_rate", "intents", "1h"] == 0.2
    assert ("duly_slo_burn_rate", "intents", "6h") not in found
    assert ("duly_slo_budget_left", "stuck") not in found
    assert found["duly_slo_bad", "stuck"] == 1
