"""What was measured, and what is needed of it."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

Figures = dict[str, float]

LIKE = 2.0  # commits that cost less than so many times as much as each other were written to the same disk
UNITS = {
    "per_second": "{:,.0f}/s",
    "handled_per_second": "begun {:,.0f}/s",
    "p50_ms": "p50 {:.1f} ms",
    "p95_ms": "p95 {:.1f} ms",
    "p99_ms": "p99 {:.1f} ms",
    "lag_p50_s": "lag p50 {:.2f} s",
    "lag_p95_s": "p95 {:.2f} s",
    "lag_max_s": "most {:.2f} s",
    "worker_us": "worker {:.0f} µs",
    "process_us": "process {:.0f} µs",
    "client_us": "client {:.0f} µs",
    "server_us": "server {:.0f} µs",
    "peak_mb": "peak {:.0f} MB",
    "check_s": "all laws {:.1f} s",
    "slowest_s": "the slowest {:.1f} s",
    "server_s": "server {:.1f} s of a processor",
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
    """A figure of one side against one of the same round: a peer's, its own in another scenario, or a fixed number."""

    scenario: str
    words: str
    side: str
    least: float | None = None
    limit: float | None = None
    figure: str = "per_second"
    peer: str | None = None  # the side compared with; the same one by default
    base: str | None = None  # the scenario compared with; the same one by default
    absolute: bool = False

    @property
    def limits(self) -> str:
        """What is enough, in signs."""
        signs = {"≥": self.least, "≤": self.limit}
        return ", ".join(f"{sign} {limit:g}" for sign, limit in signs.items() if limit is not None)

    def is_met_by(self, value: float) -> bool:
        """Is it enough?"""
        return (self.least is None or value >= self.least) and (self.limit is None or value <= self.limit)


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
        return self.need.is_met_by(self.median)


def verdicts_of(measures: Iterable[Measure], needs: Iterable[Need]) -> list[Verdict]:
    """Every need that was measured."""
    found = {(each.round, each.scenario, each.side): each for each in measures}
    rounds = sorted({number for number, _, _ in found})
    verdicts: list[Verdict] = []
    for need in needs:
        values: list[float] = []
        alike: list[float] = []
        for number in rounds:
            ours = found.get((number, need.scenario, need.side))
            base = found.get((number, need.base or need.scenario, need.peer or need.side))
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


def table_of(
    measures: Sequence[Measure], scenarios: Mapping[str, str], sides: Sequence[str], needs: Sequence[Need]
) -> str:
    """Medians of every side, then what is needed and what we got, as Markdown; scenarios by name, in words."""
    lines = [f"| median of {len({each.round for each in measures})} rounds | {' | '.join(sides)} |"]
    lines.append("|---|" + "---|" * len(sides))
    for scenario, words in scenarios.items():
        of_scenario = [each for each in measures if each.scenario == scenario]
        for figure in dict.fromkeys(name for each in of_scenario for name in each.figures):
            cells = [cell_of([m.figures[figure] for m in of_scenario if m.side == side], figure) for side in sides]
            lines.append(f"| {words}: {figure.replace('_', ' ')} | {' | '.join(cells)} |")
    lines += ["", "| ours, round by round | needed | got | | rounds alike |", "|---|---|---|---|---|"]
    for verdict in verdicts_of(measures, needs):
        got = f"{verdict.median:.2f} [{min(verdict.values):.2f}-{max(verdict.values):.2f}]"
        what = f"{scenarios[verdict.need.scenario]}, {verdict.need.words}"
        alike = "none" if verdict.median_alike is None else f"{verdict.median_alike:.2f} of {len(verdict.alike)}"
        met = "pass" if verdict.is_met else "MISS"
        lines.append(f"| {what} | {verdict.need.limits} | {got} | {met} | {alike} |")
    return "\n".join(lines)


def cell_of(values: Sequence[float], figure: str) -> str:
    """The middle, and how far apart the rounds are."""
    if not values:
        return ""
    digits = "{:.2f}" if figure.endswith(("_ms", "_s")) else "{:,.0f}"
    return " ".join((digits.format(statistics.median(values)), f"[{digits}-{digits}]".format(min(values), max(values))))


def as_json(measures: Sequence[Measure], about: Mapping[str, object], needs: Sequence[Need]) -> dict[str, object]:
    """Everything, for programs."""
    verdicts = [
        {
            **asdict(verdict.need),
            "values": list(verdict.values),
            "median": verdict.median,
            "is_met": verdict.is_met,
            "alike": list(verdict.alike),
            "median_alike": verdict.median_alike,
        }
        for verdict in verdicts_of(measures, needs)
    ]
    return {**about, "measures": [asdict(each) for each in measures], "needs": verdicts}
