"""What a worker counts, for Prometheus to read; docs/metrics.md lists it all.

Each worker has a registry of its own, so two in one process do not add up to a third. Labels are kinds of work and
names of outcomes, never ids: there are as many series as a worker has handlers, however much it does.
"""

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

import duly

__all__ = ["OUTCOMES", "Metrics"]

OUTCOMES = {"Done": "done", "Later": "later", "GiveUp": "gave_up", "Failed": "failed", "Cancelled": "cancelled"}
RUN_SECONDS = (0.001, 0.01, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600)
DATABASE_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30)
ROWS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
KIND = ("kind",)

M = TypeVar("M", bound=MetricWrapperBase)


class Metrics:
    """The figures of one worker. A method is named for what happened, and may be called from any thread."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._claimed = self.counter("claimed", "Rows claimed.")
        self._settled = self.counter("settled", "Rows settled, by what came of the work.", "kind", "outcome")
        self._lost = self.counter("leases_lost", "Rows that somebody else held before they were settled.")
        self._handed_back = self.counter("handed_back", "Rows given back unfinished and unblamed.")
        self._swept = self.counter("swept", "Rows whose holder was gone, made claimable again.")
        self._wakeups = self.counter("wakeups", "Times a notification said that there is work.")
        self._database_errors = self.counter("database_errors", "Turns that failed for a reason of the database's.")
        self._busy = self.gauge("busy", "Rows being worked on.", *KIND)
        self._slots = self.gauge("slots", "Rows that may be worked on at once.", *KIND)
        self._children = self.gauge("children", "Child processes kept for work that asks for isolation.")
        self._last_beat = self.gauge("last_beat_timestamp_seconds", "When leases were last renewed; 0 before that.")
        self._ran = self.histogram("run_seconds", "How long the work of one row took.", RUN_SECONDS)
        self._claim_took = self.histogram("claim_seconds", "How long one claim took.", DATABASE_SECONDS)
        self._settle_took = self.histogram("settle_seconds", "How long one settling took.", DATABASE_SECONDS)
        self._batch = self.histogram("batch_rows", "Rows that one claim brought.", ROWS)
        self._settle_batch = self.histogram("settle_rows", "Rows that one settling was about.", ROWS)
        self.gauge("build_info", "Always 1; the label tells the version.", "version")[duly.__version__,].set(1)

    def counter(self, name: str, meaning: str, *labels: str) -> "ByLabels[Counter]":
        """A figure that only grows; its name ends in `_total`."""
        return ByLabels(Counter(f"duly_{name}", meaning, labels or KIND, registry=self.registry))

    def gauge(self, name: str, meaning: str, *labels: str) -> "ByLabels[Gauge]":
        """A figure of the moment."""
        return ByLabels(Gauge(f"duly_{name}", meaning, labels, registry=self.registry))

    def histogram(self, name: str, meaning: str, buckets: Sequence[float]) -> "ByLabels[Histogram]":
        """A spread of figures."""
        return ByLabels(Histogram(f"duly_{name}", meaning, KIND, buckets=buckets, registry=self.registry))

    def begin(self, kind: str, slots: int) -> None:
        """This kind is worked on from now on: its series begin at zero, so that the first of anything is a rise."""
        for counter in (
            self._claimed,
            self._lost,
            self._handed_back,
            self._swept,
            self._wakeups,
            self._database_errors,
        ):
            _ = counter[kind,]
        for histogram in (self._ran, self._claim_took, self._settle_took, self._batch, self._settle_batch):
            _ = histogram[kind,]
        for outcome in OUTCOMES:
            _ = self._settled[kind, outcome]
        self._busy[kind,].set(0)
        self._slots[kind,].set(slots)

    def claimed(self, kind: str, rows: int, seconds: float | None = None) -> None:
        """One claim brought so many rows, and took so long."""
        self._claimed[kind,].inc(rows)
        self._batch[kind,].observe(rows)
        if seconds is not None:
            self._claim_took[kind,].observe(seconds)

    def ran(self, kind: str, seconds: float) -> None:
        """The work of one row took so long, whatever came of it."""
        self._ran[kind,].observe(seconds)

    def settled(self, kind: str, outcome: str, rows: int = 1) -> None:
        """So many rows came to this outcome, which is given by its name or the name of its class."""
        self._settled[kind, outcome].inc(rows)

    def settled_in(self, kind: str, rows: int, seconds: float) -> None:
        """One settling, of so many rows, took so long."""
        self._settle_batch[kind,].observe(rows)
        self._settle_took[kind,].observe(seconds)

    def lost(self, kind: str, rows: int = 1) -> None:
        """Somebody else held the row before we settled it."""
        self._lost[kind,].inc(rows)

    def handed_back(self, kind: str, rows: int = 1) -> None:
        """Rows were given back unfinished."""
        self._handed_back[kind,].inc(rows)

    def swept(self, kind: str, rows: int) -> None:
        """Rows whose holder was gone can be claimed again."""
        self._swept[kind,].inc(rows)

    def wakeup(self, kind: str) -> None:
        """Somebody said that there is work."""
        self._wakeups[kind,].inc()

    def database_error(self, kind: str) -> None:
        """A turn failed for a reason of the database's, and is tried again."""
        self._database_errors[kind,].inc()

    def set_busy(self, kind: str, rows: int) -> None:
        """So many rows are being worked on now."""
        self._busy[kind,].set(rows)

    def set_children(self, count: int) -> None:
        """So many child processes are kept now."""
        self._children[()].set(count)

    def beat(self) -> None:
        """Leases were renewed just now."""
        self._last_beat[()].set_to_current_time()

    def render(self) -> bytes:
        """Everything in the Prometheus text format."""
        return generate_latest(WithoutBirthdays(self.registry))


class ByLabels(dict[tuple[str, ...], M], Generic[M]):
    """The series of a metric by their labels, each resolved once: asking the metric at every call costs more."""

    def __init__(self, metric: M) -> None:
        super().__init__()
        self.metric = metric

    def __missing__(self, labels: tuple[str, ...]) -> M:
        names = [label_of(value) for value in labels]
        self[labels] = series = self.metric.labels(*names) if names else self.metric
        return series


def label_of(name: str) -> str:
    """The label for a name; an outcome's class has the word that our tables use."""
    return OUTCOMES.get(name, name)


class WithoutBirthdays(Collector):
    """A registry without the `_created` series, which double the page and which nobody reads in this format."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry

    def collect(self) -> Iterable[Metric]:
        """Every family, made anew at each reading, less its birthdays."""
        for family in self.registry.collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family
