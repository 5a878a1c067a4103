"""Prometheus metrics of a worker; docs/metrics.md lists them.

Each worker has a registry of its own, so that two in one process are not added up. Labels are work types and names of
outcomes, never ids, so that the number of series stays small.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

import duly
from duly.outcomes import Cancelled, Done, Failed, GiveUp, Later

OUTCOMES: Mapping[type, str] = {  # the label of each outcome; those of other work types count as done
    Done: "done",
    Later: "later",
    GiveUp: "gave_up",
    Failed: "failed",
    Cancelled: "cancelled",
}
RUN_SECONDS = (0.001, 0.01, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600)
DATABASE_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30)
ROWS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
WORK_TYPE = ("work_type",)

M = TypeVar("M", bound=MetricWrapperBase)


class Metrics:
    """The metrics of one worker. A method is named for what happened, and may be called from any thread."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._claimed = self.counter("claimed", "Rows claimed.")
        self._settled = self.counter("settled", "Rows settled, by outcome.", *WORK_TYPE, "outcome")
        self._lost = self.counter("leases_lost", "Leases lost, or not renewed in time, before their row was settled.")
        self._released = self.counter("released", "Rows released unfinished, without counting the start.")
        self._swept = self.counter(
            "swept",
            "Rows that a sweep changed: expired ones returned to the queue, failed or quarantined; "
            "messages resent or failed.",
        )
        self._wakeups = self.counter("wakeups", "Notifications that there is work.")
        self._database_errors = self.counter("database_errors", "Steps that failed and were retried.")
        self._running = self.gauge("running", "Slots in use: rows whose handler has not ended.", *WORK_TYPE)
        self._slots = self.gauge(
            "slots", "Rows that may run at once; one more where expired rows are claimed.", *WORK_TYPE
        )
        self._children = self.gauge("children", "Child processes for isolated handlers.")
        self._last_beat = self.gauge("last_beat_timestamp_seconds", "When leases were last renewed; 0 before that.")
        self._ran = self.histogram("run_seconds", "Duration of one run.", RUN_SECONDS)
        self._claim_took = self.histogram("claim_seconds", "Duration of one claim.", DATABASE_SECONDS)
        self._settle_took = self.histogram("settle_seconds", "Duration of one settle.", DATABASE_SECONDS)
        self._batch = self.histogram("batch_rows", "Rows of one claim.", ROWS)
        self._settle_batch = self.histogram("settle_rows", "Rows of one settle.", ROWS)
        self.gauge("build_info", "Always 1; the version is in the label.", "version")[duly.__version__,].set(1)

    def counter(self, name: str, meaning: str, *labels: str) -> "ByLabels[Counter]":
        """Create a counter; its exported name ends in `_total`."""
        return ByLabels(Counter(f"duly_{name}", meaning, labels or WORK_TYPE, registry=self.registry))

    def gauge(self, name: str, meaning: str, *labels: str) -> "ByLabels[Gauge]":
        """Create a gauge."""
        return ByLabels(Gauge(f"duly_{name}", meaning, labels, registry=self.registry))

    def histogram(self, name: str, meaning: str, buckets: Sequence[float]) -> "ByLabels[Histogram]":
        """Create a histogram."""
        return ByLabels(Histogram(f"duly_{name}", meaning, WORK_TYPE, buckets=buckets, registry=self.registry))

    def begin(self, work_type: str, slots: int) -> None:
        """Create all series of a work type at zero, so that the first event is an increase."""
        for counter in (
            self._claimed,
            self._lost,
            self._released,
            self._swept,
            self._wakeups,
            self._database_errors,
        ):
            _ = counter[work_type,]
        for histogram in (self._ran, self._claim_took, self._settle_took, self._batch, self._settle_batch):
            _ = histogram[work_type,]
        for outcome in OUTCOMES.values():
            _ = self._settled[work_type, outcome]
        self._running[work_type,].set(0)
        self._slots[work_type,].set(slots)

    def claimed(self, work_type: str, rows: int, seconds: float) -> None:
        """Count the rows of one claim, and observe its duration."""
        self._claimed[work_type,].inc(rows)
        self._batch[work_type,].observe(rows)
        self._claim_took[work_type,].observe(seconds)

    def ran(self, work_type: str, seconds: float) -> None:
        """Observe the duration of one run, whatever its outcome."""
        self._ran[work_type,].observe(seconds)

    def settled(self, work_type: str, outcome: str, rows: int = 1) -> None:
        """Count settled rows by outcome, one of the labels in OUTCOMES."""
        self._settled[work_type, outcome].inc(rows)

    def settled_in(self, work_type: str, rows: int, seconds: float) -> None:
        """Observe the rows and the duration of one settle."""
        self._settle_batch[work_type,].observe(rows)
        self._settle_took[work_type,].observe(seconds)

    def lost(self, work_type: str) -> None:
        """Count leases that were lost, or not renewed in time, before their row was settled."""
        self._lost[work_type,].inc()

    def released(self, work_type: str, rows: int) -> None:
        """Count rows that were released unfinished and were still ours."""
        self._released[work_type,].inc(rows)

    def swept(self, work_type: str, rows: int) -> None:
        """Count rows that a sweep changed."""
        self._swept[work_type,].inc(rows)

    def wakeup(self, work_type: str) -> None:
        """Count a notification."""
        self._wakeups[work_type,].inc()

    def database_error(self, work_type: str) -> None:
        """Count a step that failed and is retried."""
        self._database_errors[work_type,].inc()

    def set_running(self, work_type: str, rows: int) -> None:
        """Set how many slots are in use now."""
        self._running[work_type,].set(rows)

    def set_processes(self, count: int) -> None:
        """Set how many child processes there are now."""
        self._children[()].set(count)

    def beat(self) -> None:
        """Note that leases were renewed just now."""
        self._last_beat[()].set_to_current_time()

    def render(self) -> bytes:
        """Render all metrics in the Prometheus text format."""
        return generate_latest(WithoutCreatedSeries(self.registry))


class ByLabels(dict[tuple[str, ...], M], Generic[M]):
    """The series of a metric by their labels, cached because resolving labels at every call is slower."""

    def __init__(self, metric: M) -> None:
        super().__init__()
        self.metric = metric

    def __missing__(self, labels: tuple[str, ...]) -> M:
        self[labels] = series = self.metric.labels(*labels) if labels else self.metric
        return series


class WithoutCreatedSeries(Collector):
    """A registry without the `_created` series, which double the page and are not used in this format."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry

    def collect(self) -> Iterable[Metric]:
        """Yield every metric family without its `_created` samples."""
        for family in self.registry.collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family
