"""The charts of a record: rates beside peers, percentiles, and rates as tables grow."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tools.bench.figures.record import Record
from tools.bench.plot import Bar, Point, bars, curves, percentiles
from tools.bench.report import Figures, Goal

DULY = "duly"
RATE = "per_second"
WAITS = {"p50_ms": "p50", "p95_ms": "p95", "p99_ms": "p99"}
LAGS = {"lag_p50_s": "p50", "lag_p95_s": "p95", "lag_max_s": "max"}


@dataclass(frozen=True)
class Growth:
    """A scenario beside few and many rows: the size that differs, and by what each variant divides it."""

    scenario: str
    size: str
    shares: Mapping[str, int]


TWO_OF_POSTS = {"few stored": 100, "many stored": 1}
GROWTHS: Mapping[str, Sequence[Growth]] = {
    "ingest": (Growth("grown", "days", {"few days": 100, "many days": 1}),),
    "posts": (Growth("grown-release", "stored", TWO_OF_POSTS), Growth("grown-intents", "stored", TWO_OF_POSTS)),
    "scheduler": (
        Growth("pass", "schedules", {"few": 100, "some": 10, "many": 1}),
        Growth("due", "runs", {"few": 100, "many": 1}),
    ),
}


def draw_charts(record: Record) -> dict[str, str]:
    """Draw every chart that this record has figures for, by file name."""
    made = {
        "throughput": draw_throughput(record),
        "latency": draw_latency(record, WAITS, "ms"),
        "lag": draw_latency(record, LAGS, "s"),
        "beside": draw_comparison(record),
        "growth": draw_growth(record),
    }
    return {f"{record.name}-{kind}.svg": drawn for kind, drawn in made.items() if drawn}


def draw_throughput(record: Record) -> str | None:
    """Draw our rates beside those of peers, with the ratios of the rounds."""
    grown = {growth.scenario for growth in GROWTHS.get(record.name, ())}
    rows: list[Bar] = []
    for scenario, words in record.scenarios.items():
        variants = [variant for variant in record.variants if find_values(record, scenario, variant, RATE)]
        if (
            scenario in grown
            or DULY not in variants
            or (len(variants) == 1 and scenario in find_baseline_goals(record))
        ):
            continue
        rows += [rate_row(record, scenario, words, variant) for variant in variants]
    return bars(f"{record.name}: how many in a second", rows, "/s", foot=make_footer(record)) if rows else None


def rate_row(record: Record, scenario: str, words: str, variant: str) -> Bar:
    """Build the bar of one variant, with our ratio to a peer."""
    values = find_values(record, scenario, variant, RATE)
    ratio = None if variant == DULY else compute_median_ratio(record, scenario, DULY, scenario, variant)
    note = "" if ratio is None else f"{DULY}: {ratio:.2f} times"
    return Bar(variant, statistics.median(values), note, words, min(values), max(values), is_ours=variant == DULY)


def draw_latency(record: Record, figures: Mapping[str, str], unit: str) -> str | None:
    """Draw percentiles of waiting times, medians of the rounds."""
    text = [
        scenario
        for scenario in record.scenarios
        if all(any(find_values(record, scenario, variant, figure) for variant in record.variants) for figure in figures)
    ]
    rows: dict[str, Figures] = {}
    ours: set[str] = set()
    for scenario in text:
        for variant in (each for each in record.variants if find_values(record, scenario, each, next(iter(figures)))):
            name = variant if len(text) == 1 else f"{record.scenarios[scenario]}: {variant}"
            waits = {words: find_values(record, scenario, variant, figure) for figure, words in figures.items()}
            rows[name] = {words: statistics.median(values) for words, values in waits.items()}
            if variant == DULY or not find_values(record, scenario, DULY, next(iter(figures))):
                ours.add(name)
    if not rows:
        return None
    words = record.scenarios[text[0]].removesuffix(", p95") if len(text) == 1 else "how long it took"
    return percentiles(f"{record.name}: {words}", rows, unit, ours=ours, foot=make_footer(record))


def draw_comparison(record: Record) -> str | None:
    """Draw our rates under a load as shares of the plain rate."""
    rows = [
        Bar(record.scenarios[goal.scenario], statistics.median(ratios), f"needed {goal.limits}", "", *get_range(ratios))
        for goal in find_baseline_goals(record).values()
        if (ratios := compute_ratios(record, goal.scenario, goal.variant, goal.base or goal.scenario, goal.variant))
    ]
    plain = record.scenarios.get("drain", "drain")
    return bars(f"{record.name}: part of the rate of “{plain}”", rows, "", foot=make_footer(record)) if rows else None


def draw_growth(record: Record) -> str | None:
    """Draw rates as tables grow, as shares of the rate beside the fewest rows."""
    series: dict[str, Sequence[Point]] = {}
    for growth in GROWTHS.get(record.name, ()):
        minimum = max(growth.shares, key=lambda variant: growth.shares[variant])
        line = [
            (max(1.0, record.sizes[growth.size] // share), ratio)
            for variant, share in growth.shares.items()
            if growth.scenario in record.scenarios
            and (ratio := compute_median_ratio(record, growth.scenario, variant, growth.scenario, minimum)) is not None
        ]
        if line:
            series[f"{record.scenarios[growth.scenario]} ({growth.size})"] = line
    if not series:
        return None
    limits = [
        (goal.minimum, goal.maximum)
        for goal in record.goals
        if goal.scenario in {each.scenario for each in GROWTHS[record.name]}
    ]
    minimum, maximum = limits[0] if limits else (None, None)
    band = (minimum, maximum) if minimum is not None and maximum is not None else None
    title = f"{record.name}: the rate as tables grow"
    words = ("rows that are there already", "part of the rate beside the fewest")
    return curves(title, series, *words, needed=band, foot=make_footer(record))


def make_footer(record: Record) -> str:
    """Build the footer: rounds, processors, load and date."""
    rounds = "1 round" if record.rounds == 1 else f"median of {record.rounds} rounds"
    processors, (before, after) = record.machine["processors"], record.load
    load = f"load {before:g} before and {after:g} after"
    return f"{rounds}, {processors} processors, {load}, {record.measured_at[:10]}"


def find_baseline_goals(record: Record) -> dict[str, Goal]:
    """Return the goals that compare with another scenario of ours, by scenario."""
    return {goal.scenario: goal for goal in record.goals if goal.base}


def find_values(record: Record, scenario: str, variant: str, figure: str) -> list[float]:
    """Return a figure, round by round."""
    return [
        each.figures[figure]
        for each in record.steady_measures
        if (each.scenario, each.variant) == (scenario, variant) and figure in each.figures
    ]


def compute_ratios(record: Record, scenario: str, variant: str, base: str, peer: str) -> list[float]:
    """Compute the ratios of two rates, round by round."""
    found = {(each.round, each.scenario, each.variant): each.figures.get(RATE) for each in record.steady_measures}
    pairs = [
        (found.get((number, scenario, variant)), found.get((number, base, peer)))
        for number in sorted({number for number, _, _ in found})
    ]
    return [one / other for one, other in pairs if one is not None and other]


def compute_median_ratio(record: Record, scenario: str, variant: str, base: str, peer: str) -> float | None:
    """Compute the median ratio; None without any."""
    ratios = compute_ratios(record, scenario, variant, base, peer)
    return statistics.median(ratios) if ratios else None


def get_range(values: Sequence[float]) -> tuple[float, float]:
    """Return minimum and maximum."""
    return min(values), max(values)
