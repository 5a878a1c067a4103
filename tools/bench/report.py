"""Measures and goals: what was measured, what is wanted of it, and whether a plan of the server changed meanwhile."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

Figures = dict[str, float]
Key = tuple[int, str, str]  # round, scenario, variant

SAME_DISK_FACTOR = 2.0  # probes within this factor of each other were written to a disk of the same speed
FLIP_FACTOR = 2.0  # a round that costs the server this many times the cheapest round had another plan
FLIP_FIGURE = "server_us"
UNITS = {
    "per_second": "{:,.0f}/s",
    "started_per_second": "started {:,.0f}/s",
    "p50_ms": "p50 {:.1f} ms",
    "p95_ms": "p95 {:.1f} ms",
    "p99_ms": "p99 {:.1f} ms",
    "lag_p50_s": "lag p50 {:.2f} s",
    "lag_p95_s": "p95 {:.2f} s",
    "lag_max_s": "max {:.2f} s",
    "worker_us": "worker {:.0f} µs",
    "process_us": "process {:.0f} µs",
    "client_us": "client {:.0f} µs",
    "server_us": "server {:.0f} µs",
    "total_us": "together {:.0f} µs",
    "heap_bytes": "heap {:,.0f} B",
    "index_bytes": "indexes {:,.0f} B",
    "wal_bytes": "WAL {:,.0f} B",
    "wal_records": "in {:.1f} records",
    "buffers": "{:.1f} buffers",
    "statements": "{:.3f} statements",
    "peak_mb": "peak {:.0f} MB",
    "check_s": "all invariants {:.1f} s",
    "slowest_s": "the slowest {:.1f} s",
    "server_s": "server CPU {:.1f} s",
}


@dataclass(frozen=True)
class Measure:
    """The figures of one variant in one scenario of one round, and the price of a small commit before and after."""

    round: int
    scenario: str
    variant: str
    figures: Figures
    probe_before_ms: float
    probe_after_ms: float
    slow_plans: list[str] = field(
        default_factory=list[str]
    )  # of statements that took long meanwhile, as the server logged them

    @property
    def key(self) -> Key:
        """Identify it within a run."""
        return (self.round, self.scenario, self.variant)


@dataclass(frozen=True)
class Goal:
    """A figure compared within one round: with a peer's, with the same variant's in another scenario, or by itself."""

    scenario: str
    label: str
    variant: str
    minimum: float | None = None
    maximum: float | None = None
    figure: str = "per_second"
    peer: str | None = None  # the variant compared with; the same one by default
    base: str | None = None  # the scenario compared with; the same one by default
    absolute: bool = False

    @property
    def limits(self) -> str:
        """Format what is wanted."""
        signs = {"≥": self.minimum, "≤": self.maximum}
        return ", ".join(f"{sign} {limit:g}" for sign, limit in signs.items() if limit is not None)

    def is_met_by(self, value: float) -> bool:
        """Check a value against the limits."""
        return (self.minimum is None or value >= self.minimum) and (self.maximum is None or value <= self.maximum)


@dataclass(frozen=True)
class Verdict:
    """What became of a goal: the ratio (or figure) of every round in which no plan flipped."""

    goal: Goal
    values: Sequence[float]
    same_disk: Sequence[float]  # of the rounds in which both variants met a disk of the same speed
    flipped: Sequence[float] = ()  # of the rounds left out, because a plan of either variant flipped
    own_flips: int = 0  # rounds in which it was our own plan

    @property
    def median(self) -> float:
        """Return the value that counts; where every round flipped, those rounds are all there is."""
        return statistics.median(self.values or self.flipped)

    @property
    def same_disk_median(self) -> float | None:
        """Return the median of the rounds with one disk speed: look at it when the disk varied."""
        return statistics.median(self.same_disk) if self.same_disk else None

    @property
    def is_met(self) -> bool:
        """Check the median against the goal; a plan of our own that flips is a miss, whatever the other rounds say."""
        return not self.own_flips and bool(self.values) and self.goal.is_met_by(self.median)


def find_flips(measures: Iterable[Measure]) -> dict[Key, float]:
    """Find measures in which a plan flipped, and by how much it multiplied the server's CPU time per job.

    Two signs together: this figure is a multiple of the cheapest round's, which load and disk do not do, and the server
    logged the plan of a slow statement. One round alone has nothing to be compared with.
    """
    found: dict[tuple[str, str], list[Measure]] = {}
    for each in measures:
        if each.figures.get(FLIP_FIGURE):
            found.setdefault((each.scenario, each.variant), []).append(each)
    flips: dict[Key, float] = {}
    for rounds in found.values():
        cheapest = min(each.figures[FLIP_FIGURE] for each in rounds)
        for each in rounds:
            multiple = each.figures[FLIP_FIGURE] / cheapest
            if each.slow_plans and multiple >= FLIP_FACTOR:
                flips[each.key] = multiple
    return flips


def evaluate_goals(measures: Iterable[Measure], goals: Iterable[Goal]) -> list[Verdict]:
    """Evaluate every goal that was measured."""
    found = {each.key: each for each in measures}
    flips = find_flips(found.values())
    rounds = sorted({number for number, _, _ in found})
    verdicts: list[Verdict] = []
    for goal in goals:
        values: list[float] = []
        same_disk: list[float] = []
        flipped: list[float] = []
        own_flips = 0
        for number in rounds:
            ours = found.get((number, goal.scenario, goal.variant))
            base = found.get((number, goal.base or goal.scenario, goal.peer or goal.variant))
            if not ours or not base:
                continue
            value = ours.figures[goal.figure] / (1.0 if goal.absolute else base.figures[goal.figure])
            if ours.key in flips or base.key in flips:
                flipped.append(value)
                own_flips += ours.key in flips
                continue
            values.append(value)
            if had_same_disk_speed(ours, base):
                same_disk.append(value)
        if values or flipped:
            verdicts.append(Verdict(goal, values, same_disk, flipped, own_flips))
    return verdicts


def had_same_disk_speed(one: Measure, other: Measure) -> bool:
    """Check that a small commit cost about the same before and after both."""
    probes = [one.probe_before_ms, one.probe_after_ms, other.probe_before_ms, other.probe_after_ms]
    return max(probes) < SAME_DISK_FACTOR * min(probes)


def format_measure(measure: Measure) -> str:
    """Format one measure as one line."""
    figures = ", ".join(UNITS[name].format(value) for name, value in measure.figures.items())
    probes = f"{measure.probe_before_ms:.2f} and {measure.probe_after_ms:.2f} ms"
    return f"round {measure.round}  {measure.scenario:9} {measure.variant:14} {figures}; a commit {probes}"


def format_table(
    measures: Sequence[Measure], scenarios: Mapping[str, str], variants: Sequence[str], goals: Sequence[Goal]
) -> str:
    """Format medians, flips of plans and goals as Markdown tables; scenarios by name, with their titles."""
    flips = find_flips(measures)
    steady = [each for each in measures if each.key not in flips]
    lines = [f"| median of {len({each.round for each in measures})} rounds | {' | '.join(variants)} |"]
    lines.append("|---|" + "---|" * len(variants))
    for scenario, title in scenarios.items():
        of_scenario = [each for each in steady if each.scenario == scenario]
        for figure in dict.fromkeys(name for each in of_scenario for name in each.figures):
            cells = [
                format_cell(
                    [m.figures[figure] for m in of_scenario if m.variant == variant and figure in m.figures], figure
                )
                for variant in variants
            ]
            lines.append(f"| {title}: {figure.replace('_', ' ')} | {' | '.join(cells)} |")
    lines += format_flips(measures, scenarios)
    lines += ["", "| ours, round by round | needed | got | | rounds with one disk speed |", "|---|---|---|---|---|"]
    for verdict in evaluate_goals(measures, goals):
        values = verdict.values or verdict.flipped
        got = f"{verdict.median:.2f} [{min(values):.2f}-{max(values):.2f}]"
        got += f"; {len(verdict.flipped)} of {len(verdict.values) + len(verdict.flipped)} left out" * bool(
            verdict.flipped
        )
        what = f"{scenarios[verdict.goal.scenario]}, {verdict.goal.label}"
        median = verdict.same_disk_median
        same_disk = "none" if median is None else f"{median:.2f} of {len(verdict.same_disk)}"
        is_met = "pass" if verdict.is_met else "MISS"
        lines.append(f"| {what} | {verdict.goal.limits} | {got} | {is_met} | {same_disk} |")
    return "\n".join(lines)


def format_flips(measures: Sequence[Measure], scenarios: Mapping[str, str]) -> list[str]:
    """Format the measures that are left out of medians because a plan flipped: nothing of them is averaged away."""
    flips = find_flips(measures)
    if not flips:
        return []
    lines = ["", "| a plan flipped: left out above | round | server, µs | times the cheapest round | rate |"]
    lines.append("|---|---|---|---|---|")
    for each in measures:
        if each.key in flips:
            figures = each.figures
            rate = f"{figures['per_second']:,.0f}/s" if "per_second" in figures else ""
            title = f"{scenarios.get(each.scenario, each.scenario)}: {each.variant}"
            lines.append(f"| {title} | {each.round} | {figures[FLIP_FIGURE]:,.0f} | {flips[each.key]:.1f} | {rate} |")
    return lines


def format_cell(values: Sequence[float], figure: str) -> str:
    """Format the median of the rounds and their range."""
    if not values:
        return ""
    digits = "{:.2f}" if figure.endswith(("_ms", "_s")) else "{:.3f}" if figure == "statements" else "{:,.0f}"
    return " ".join((digits.format(statistics.median(values)), f"[{digits}-{digits}]".format(min(values), max(values))))


def as_json(measures: Sequence[Measure], about: Mapping[str, object], goals: Sequence[Goal]) -> dict[str, object]:
    """Return everything, for programs."""
    verdicts = [
        {
            **asdict(verdict.goal),
            "values": list(verdict.values),
            "median": verdict.median,
            "is_met": verdict.is_met,
            "same_disk": list(verdict.same_disk),
            "same_disk_median": verdict.same_disk_median,
            "flipped": list(verdict.flipped),
        }
        for verdict in evaluate_goals(measures, goals)
    ]
    flips = [
        {"round": number, "scenario": scenario, "variant": variant, "times": round(times, 1)}
        for (number, scenario, variant), times in find_flips(measures).items()
    ]
    return {**about, "measures": [asdict(each) for each in measures], "goals": verdicts, "flips": flips}
