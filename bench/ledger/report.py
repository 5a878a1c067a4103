"""What was measured, and what is needed of it."""

import operator
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

from bench.ledger.scenarios import SCENARIOS, Figures
from bench.ledger.side import NAMES, OURS

__all__ = ["NEEDS", "Measure", "Need", "Verdict", "as_json", "line_of", "table_of", "verdicts_of"]

LIKE = 2.0  # commits that cost less than so many times as much as each other were written to the same disk
UNITS = {
    "per_second": "{:,.0f}/s",
    "handled_per_second": "begun {:,.0f}/s",
    "p50_ms": "p50 {:.1f} ms",
    "p95_ms": "p95 {:.1f} ms",
    "p99_ms": "p99 {:.1f} ms",
    "worker_us": "worker {:.0f} µs",
    "client_us": "client {:.0f} µs",
    "server_us": "server {:.0f} µs",
    "peak_mb": "peak {:.0f} MB",
}


@dataclass(frozen=True)
class Measure:
    """What one side did in one scenario of one round, and what a small commit cost just before and after."""

    round: int
    scenario: str
    side: str
    figures: Figures
    probe_before_ms: float
    probe_after_ms: float


@dataclass(frozen=True)
class Need:
    """A figure of ours against one of the same round: a peer's, our own in another scenario, or a fixed number."""

    scenario: str
    words: str
    limit: float
    figure: str = "per_second"
    at_most: bool = False
    peer: str = OURS
    base: str | None = None  # the scenario compared with; the same one by default
    absolute: bool = False


@dataclass(frozen=True)
class Verdict:
    """What came of a need: the ratio of every round, or the figure itself, and the median that counts."""

    need: Need
    values: Sequence[float]
    alike: Sequence[float]  # of the rounds in which both sides met about the same disk

    @property
    def median(self) -> float:
        """The middle round: what counts."""
        return statistics.median(self.values)

    @property
    def median_alike(self) -> float | None:
        """The middle of the rounds alike: what to look at when the disk was not the same for everybody."""
        return statistics.median(self.alike) if self.alike else None

    @property
    def is_met(self) -> bool:
        """Is it enough?"""
        enough: Callable[[float, float], bool] = operator.le if self.need.at_most else operator.ge
        return enough(self.median, self.need.limit)


NEEDS = (
    Need("drain", "of pgqueuer's", 1.0, peer="pgqueuer"),
    Need("drain", "of procrastinate's", 25.0, peer="procrastinate"),
    Need("drain2", "of pgqueuer's", 1.3, peer="pgqueuer"),
    Need("bulk", "of pgqueuer's", 1.0, peer="pgqueuer"),
    Need("single", "of pgqueuer's", 1.0, peer="pgqueuer"),
    Need("single16", "of pgqueuer's", 1.0, peer="pgqueuer"),
    Need("pickup", "of pgqueuer's", 1.2, figure="p95_ms", at_most=True, peer="pgqueuer"),
    Need("backlog", "of our drain", 0.75, base="drain"),
    Need("finished", "of our drain", 0.75, base="drain"),
    Need("snapshot", "of our drain", 0.60, base="drain"),
    Need("drain", "MB in a worker", 120.0, figure="peak_mb", at_most=True, absolute=True),
)


def verdicts_of(measures: Iterable[Measure]) -> list[Verdict]:
    """Every need that was measured."""
    found = {(each.round, each.scenario, each.side): each for each in measures}
    rounds = sorted({number for number, _, _ in found})
    verdicts: list[Verdict] = []
    for need in NEEDS:
        values: list[float] = []
        alike: list[float] = []
        for number in rounds:
            ours = found.get((number, need.scenario, OURS))
            base = found.get((number, need.base or need.scenario, need.peer))
            if ours and base:
                values.append(ours.figures[need.figure] / (1.0 if need.absolute else base.figures[need.figure]))
                if met_the_same_disk(ours, base):
                    alike.append(values[-1])
        if values:
            verdicts.append(Verdict(need, values, alike))
    return verdicts


def met_the_same_disk(one: Measure, other: Measure) -> bool:
    """Did a small commit cost about the same before and after both? Disks change their speed between two breaths."""
    probes = [one.probe_before_ms, one.probe_after_ms, other.probe_before_ms, other.probe_after_ms]
    return max(probes) < LIKE * min(probes)


def line_of(measure: Measure) -> str:
    """One measurement on one line."""
    figures = ", ".join(UNITS[name].format(value) for name, value in measure.figures.items())
    probes = f"{measure.probe_before_ms:.2f} and {measure.probe_after_ms:.2f} ms"
    return f"round {measure.round}  {measure.scenario:9} {measure.side:14} {figures}; a commit {probes}"


def table_of(measures: Sequence[Measure]) -> str:
    """Medians of every side, then what is needed and what we got, as Markdown."""
    lines = [f"| median of {len({each.round for each in measures})} rounds | {' | '.join(NAMES)} |"]
    lines.append("|---|" + "---|" * len(NAMES))
    for scenario in SCENARIOS.values():
        of_scenario = [each for each in measures if each.scenario == scenario.name]
        for figure in dict.fromkeys(name for each in of_scenario for name in each.figures):
            cells = [cell_of([m.figures[figure] for m in of_scenario if m.side == side], figure) for side in NAMES]
            lines.append(f"| {scenario.what}: {figure} | {' | '.join(cells)} |")
    lines += ["", "| ours, round by round | needed | got | | rounds alike |", "|---|---|---|---|---|"]
    for verdict in verdicts_of(measures):
        need, sign = verdict.need, "≤" if verdict.need.at_most else "≥"
        got = f"{verdict.median:.2f} [{min(verdict.values):.2f}-{max(verdict.values):.2f}]"
        what = f"{SCENARIOS[need.scenario].what}, {need.words}"
        alike = "none" if verdict.median_alike is None else f"{verdict.median_alike:.2f} of {len(verdict.alike)}"
        met = "pass" if verdict.is_met else "MISS"
        lines.append(f"| {what} | {sign} {need.limit:g} | {got} | {met} | {alike} |")
    return "\n".join(lines)


def cell_of(values: Sequence[float], figure: str) -> str:
    """The middle, and how far apart the rounds are."""
    if not values:
        return ""
    digits = "{:.2f}" if figure.endswith("_ms") else "{:,.0f}"
    return " ".join((digits.format(statistics.median(values)), f"[{digits}-{digits}]".format(min(values), max(values))))


def as_json(measures: Sequence[Measure], about: dict[str, object]) -> dict[str, object]:
    """Everything, for programs."""
    needs = [
        {
            **asdict(verdict.need),
            "values": list(verdict.values),
            "median": verdict.median,
            "is_met": verdict.is_met,
            "alike": list(verdict.alike),
            "median_alike": verdict.median_alike,
        }
        for verdict in verdicts_of(measures)
    ]
    return {**about, "measures": [asdict(each) for each in measures], "needs": needs}
