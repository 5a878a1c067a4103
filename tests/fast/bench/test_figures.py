"""What was measured is kept, drawn and put on a page, again and again alike; what people wrote is left alone."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tools.bench.figures.__main__ import chosen, write_figures
from tools.bench.figures.charts import draw_charts
from tools.bench.figures.page import render_page
from tools.bench.figures.plans import NAMES, Extent, list_options
from tools.bench.figures.record import Record, commit_here, machine_here, versions_here
from tools.bench.ingest import __main__ as ingest_bench
from tools.bench.ledger import scenarios as ledger_scenarios
from tools.bench.posts import __main__ as posts_bench
from tools.bench.report import Goal, Measure, as_json
from tools.bench.scheduler import __main__ as scheduler_bench
from tools.bench.verify import __main__ as verify_bench

GOALS = (
    Goal("drain", "of pgqueuer's", "duly", minimum=1.0, peer="pgqueuer"),
    Goal("backlog", "of our drain", "duly", minimum=0.75, base="drain"),
)
GROWN = (Goal("grown", "many, of the rate with few", "many days", minimum=0.8, maximum=1.2, peer="few days"),)


def record_of(name: str, measures: list[Measure], goals: tuple[Goal, ...], **about: object) -> Record:
    text = {"server": "PostgreSQL 18.6, fsync=on", "sizes": {"days": 1000}, "setting": "one worker", **about}
    return Record(
        name,
        f"duly bench {name} --rounds 2",
        "2026-11-16T18:00+00:00",
        12.3,
        "0123456789ab",
        {"processors": 2, "architecture": "x86_64", "memory_gb": 8.0, "kernel": "Linux 6"},
        {"duly": "0.1.0", "Python": "3.11.7", "PostgreSQL": "18.6"},
        [1.0, 2.0],
        as_json(measures, text, goals),
    )


def ledger() -> Record:
    measures: list[Measure] = []
    for number, (ours, theirs) in enumerate([(100.0, 200.0), (300.0, 200.0)], 1):
        measures.append(Measure(number, "drain", "pgqueuer", {"per_second": theirs}, 0.3, 0.3))
        measures.append(Measure(number, "drain", "duly", {"per_second": ours}, 0.3, 0.3))
        measures.append(Measure(number, "backlog", "duly", {"per_second": ours * 0.8}, 0.3, 0.3))
        waits = {"p50_ms": 2.4, "p95_ms": 4.2, "p99_ms": 9.9}
        measures.append(Measure(number, "pickup", "duly", waits, 0.3, 0.3))
    labels = {"drain": "drain, one worker", "pickup": "pick-up, p95", "backlog": "drain beside a backlog"}
    return record_of("ledger", measures, GOALS, scenarios=labels, columns=["duly", "pgqueuer"], seed=20000)


def ingest() -> Record:
    rates = {"few days": 1000.0, "many days": 900.0}
    measures = [Measure(1, "grown", variant, {"per_second": rate}, 0.3, 0.3) for variant, rate in rates.items()]
    return record_of("ingest", measures, GROWN, scenarios={"grown": "beside days"})


def test_record_round_trips_through_its_file(tmp_path: Path) -> None:
    file = tmp_path / "ledger.data.json"
    file.write_text(ledger().text())
    assert Record.read(file) == ledger()
    assert "generated" in file.read_text().splitlines()[0]
    assert (ledger().variants, ledger().rounds) == (["duly", "pgqueuer"], 2)
    assert list(ledger().scenarios) == ["drain", "pickup", "backlog"]


def test_every_kind_of_figure_is_drawn() -> None:
    assert set(draw_charts(ledger())) == {"ledger-throughput.svg", "ledger-latency.svg", "ledger-beside.svg"}
    assert set(draw_charts(ingest())) == {"ingest-growth.svg"}
    for picture in {**draw_charts(ledger()), **draw_charts(ingest())}.values():
        ElementTree.fromstring(picture)  # noqa: S314 (ours)


def test_ratios_are_computed_per_round_and_their_median_is_shown() -> None:
    charts = draw_charts(ledger())
    assert "200 /s (duly: 1.00 times)" in charts["ledger-throughput.svg"]  # of 0.5 and 1.5
    assert "0.80 (needed ≥ 0.75)" in charts["ledger-beside.svg"]


def test_growth_is_shown_by_the_number_of_rows() -> None:
    text = draw_charts(ingest())["ingest-growth.svg"]
    assert "1 at 10, 0.90 at 1,000" in text
    assert "Needed: 0.80 to 1.20." in text


def test_page_states_date_commit_machine_and_versions(tmp_path: Path) -> None:
    page = render_page([ledger(), ingest()], {"ledger": ["ledger-throughput.svg"], "ingest": []}, tmp_path)
    for labels in (
        "2026-11-16 18:00 UTC",
        "0123456789ab",
        "2 processors (x86_64), 8.0 GB of memory, Linux 6",
        "PostgreSQL 18.6",
        "duly 0.1.0",
        "Seed: 20000",
        "load before, after",
        "| 1.0, 2.0 | 2 of 2 |",
        "](ledger-throughput.svg)",
        "(#the-ledger-beside-its-peers)",
        "## The ledger beside its peers",
    ):
        assert labels in page


def test_page_warns_of_a_busy_machine_and_too_few_rounds(tmp_path: Path) -> None:
    busy = replace(ledger(), load=[9.0, 9.5])
    page = render_page([busy], {"ledger": []}, tmp_path)
    assert "**The machine was busy with other work** when it measured ledger" in page
    assert "**Fewer than 3 rounds** of ledger" in page
    assert "busy with other work" not in render_page([ledger()], {"ledger": []}, tmp_path)
    assert all("2 processors, load 9 before and 9.5 after, 2026-11-16" in each for each in draw_charts(busy).values())


def test_page_links_other_pages_and_their_pictures(tmp_path: Path) -> None:
    (tmp_path / "chaos.md").write_text("# Kills survived\n")
    (tmp_path / "chaos-kills.svg").write_text("<svg/>")
    (tmp_path / "ledger.md").write_text("# The ledger\n")
    page = render_page([ledger()], {"ledger": []}, tmp_path)
    assert "[Kills survived](chaos.md)" in page
    assert "](chaos-kills.svg)" in page
    assert page.count("[The ledger](ledger.md)") == 2


def test_write_figures_is_idempotent_and_deletes_obsolete_generated_pictures(tmp_path: Path) -> None:
    (tmp_path / "ledger-lag.svg").write_text("<!-- Generated by another program -->\n<svg/>")
    (tmp_path / "ledger-mine.svg").write_text("<svg/>")
    first = {file: file.read_bytes() for file in write_figures([ledger()], tmp_path)}
    assert {file: file.read_bytes() for file in write_figures([ledger()], tmp_path)} == first
    assert not (tmp_path / "ledger-lag.svg").exists()
    assert (tmp_path / "ledger-mine.svg").exists()
    for file in first:
        if file.suffix == ".svg":
            ElementTree.parse(file)  # noqa: S314 (ours)


@pytest.mark.parametrize("name", ["README.md", "ledger-throughput.svg"])
def test_write_figures_refuses_to_overwrite_a_file_it_did_not_generate(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine\n")
    with pytest.raises(SystemExit) as ended:
        write_figures([ledger()], tmp_path)
    assert ended.value.code == 2
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_record_without_labels_or_seed_is_shown(tmp_path: Path) -> None:
    answer = {key: value for key, value in ledger().answer.items() if key not in ("scenarios", "columns", "seed")}
    bare = replace(ledger(), answer=answer)
    assert bare.scenarios["drain"] == "drain"
    assert "Seed" not in render_page([bare], {"ledger": []}, tmp_path)


def faults_of_plan(name: str, extent: Extent) -> Iterator[str]:
    """List what is wrong with the options of a benchmark."""
    try:
        labels, five = list_options(name, extent, None), list_options(name, extent, 5)
    except KeyError as missing:
        yield f"{name}, {extent}: no plan: KeyError {missing}"
        return
    if labels[0] != "--rounds" or len(labels) % 2:
        yield f"{name}, {extent}: expected --rounds and further options with a value each, found {labels}"
    if five[:2] != ["--rounds", "5"]:
        yield f"{name}, {extent}: expected --rounds 5 when asked, found {five}"


def test_every_benchmark_has_a_plan() -> None:
    offenders = [fault for name, extent in product(NAMES, Extent) for fault in faults_of_plan(name, extent)]
    assert not offenders, "\n".join(offenders)


def test_every_benchmark_names_its_seed() -> None:
    assert all(bench.BENCH.seed for bench in (ingest_bench, posts_bench, scheduler_bench, verify_bench))
    assert ledger_scenarios.SEED


def test_verify_benchmark_covers_ten_million_events_in_the_full_extent() -> None:
    assert list_options("verify", Extent.FULL, None) == ["--rounds", "1", "--events", "10000000"]


def test_chosen_benchmarks_run_in_the_fixed_order() -> None:
    assert chosen("verify,ledger") == ["ledger", "verify"]
    assert chosen("") == list(NAMES)
    with pytest.raises(SystemExit):
        chosen("ledger,sprint")


def test_commit_machine_and_versions_can_be_determined() -> None:
    assert re.match(r"[0-9a-f]{12}\b|unknown", commit_here())
    assert machine_here()["processors"]
    assert re.fullmatch(r"\w+ \d+\.\d+", str(machine_here()["kernel"]))
    assert versions_here()["duly"]
