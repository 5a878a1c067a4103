"""Which pictures are made of a record: against peers, what the slow ones waited, and as things grow."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tools.bench.figures.record import Record
from tools.bench.plot import Bar, Point, bars, curves, percentiles
from tools.bench.report import Figures, Need

OURS = "duly"
RATE = "per_second"
WAITS = {"p50_ms": "p50", "p95_ms": "p95", "p99_ms": "p99"}
LAGS = {"lag_p50_s": "p50", "lag_p95_s": "p95", "lag_max_s": "most"}


@dataclass(frozen=True)
class Growth:
    """One thing that is measured beside less and beside more: which size that is, and what part of it each side has."""

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


def pictures_of(record: Record) -> dict[str, str]:
    """Every picture that this record has figures for, by the end of its name."""
    made = {
        "throughput": throughput_of(record),
        "latency": latency_of(record, WAITS, "ms"),
        "lag": latency_of(record, LAGS, "s"),
        "beside": beside_of(record),
        "growth": growth_of(record),
    }
    return {f"{record.name}-{kind}.svg": drawn for kind, drawn in made.items() if drawn}


def throughput_of(record: Record) -> str | None:
    """Every rate that was measured by us and by somebody else, with the ratios of the rounds."""
    grown = {growth.scenario for growth in GROWTHS.get(record.name, ())}
    rows: list[Bar] = []
    for scenario, words in record.scenarios.items():
        sides = [side for side in record.sides if values_of(record, scenario, side, RATE)]
        if scenario in grown or OURS not in sides or (len(sides) == 1 and scenario in standing_of(record)):
            continue
        rows += [rate_row(record, scenario, words, side) for side in sides]
    return bars(f"{record.name}: how many in a second", rows, "/s", foot=foot_of(record)) if rows else None


def rate_row(record: Record, scenario: str, words: str, side: str) -> Bar:
    """The median of one side, with our ratio to it where it is not us."""
    values = values_of(record, scenario, side, RATE)
    ratio = None if side == OURS else ratio_of(record, scenario, OURS, scenario, side)
    note = "" if ratio is None else f"{OURS}: {ratio:.2f} times"
    return Bar(side, statistics.median(values), note, words, min(values), max(values), is_ours=side == OURS)


def latency_of(record: Record, figures: Mapping[str, str], unit: str) -> str | None:
    """What was waited, by the median of the rounds, wherever more than the middle of it was measured."""
    told = [
        scenario
        for scenario in record.scenarios
        if all(any(values_of(record, scenario, side, figure) for side in record.sides) for figure in figures)
    ]
    rows: dict[str, Figures] = {}
    ours: set[str] = set()
    for scenario in told:
        for side in (each for each in record.sides if values_of(record, scenario, each, next(iter(figures)))):
            name = side if len(told) == 1 else f"{record.scenarios[scenario]}: {side}"
            waits = {words: values_of(record, scenario, side, figure) for figure, words in figures.items()}
            rows[name] = {words: statistics.median(values) for words, values in waits.items()}
            if side == OURS or not values_of(record, scenario, OURS, next(iter(figures))):
                ours.add(name)
    if not rows:
        return None
    words = record.scenarios[told[0]].removesuffix(", p95") if len(told) == 1 else "how long it took"
    return percentiles(f"{record.name}: {words}", rows, unit, ours=ours, foot=foot_of(record))


def beside_of(record: Record) -> str | None:
    """Our own rate beside what is in its way, as part of the rate without it."""
    rows = [
        Bar(record.scenarios[need.scenario], statistics.median(ratios), f"needed {need.limits}", "", *ends_of(ratios))
        for need in standing_of(record).values()
        if (ratios := ratios_of(record, need.scenario, need.side, need.base or need.scenario, need.side))
    ]
    plain = record.scenarios.get("drain", "drain")
    return bars(f"{record.name}: part of the rate of “{plain}”", rows, "", foot=foot_of(record)) if rows else None


def growth_of(record: Record) -> str | None:
    """Rates as tables grow, as part of the rate beside the fewest: one line for each thing that was measured."""
    series: dict[str, Sequence[Point]] = {}
    for growth in GROWTHS.get(record.name, ()):
        least = max(growth.shares, key=lambda side: growth.shares[side])
        line = [
            (max(1.0, record.sizes[growth.size] // share), ratio)
            for side, share in growth.shares.items()
            if growth.scenario in record.scenarios
            and (ratio := ratio_of(record, growth.scenario, side, growth.scenario, least)) is not None
        ]
        if line:
            series[f"{record.scenarios[growth.scenario]} ({growth.size})"] = line
    if not series:
        return None
    limits = [
        (need.least, need.limit)
        for need in record.needs
        if need.scenario in {each.scenario for each in GROWTHS[record.name]}
    ]
    least, limit = limits[0] if limits else (None, None)
    band = (least, limit) if least is not None and limit is not None else None
    title = f"{record.name}: the rate as tables grow"
    words = ("rows that are there already", "part of the rate beside the fewest")
    return curves(title, series, *words, needed=band, foot=foot_of(record))


def foot_of(record: Record) -> str:
    """What a picture must not be seen without."""
    rounds = "1 round" if record.rounds == 1 else f"median of {record.rounds} rounds"
    processors, (before, after) = record.machine["processors"], record.load
    load = f"load {before:g} before and {after:g} after"
    return f"{rounds}, {processors} processors, {load}, {record.measured_at[:10]}"


def standing_of(record: Record) -> dict[str, Need]:
    """What is compared with a scenario of our own, by the scenario that is."""
    return {need.scenario: need for need in record.needs if need.base}


def values_of(record: Record, scenario: str, side: str, figure: str) -> list[float]:
    """A figure, round by round."""
    return [
        each.figures[figure]
        for each in record.measures
        if (each.scenario, each.side) == (scenario, side) and figure in each.figures
    ]


def ratios_of(record: Record, scenario: str, side: str, base: str, peer: str) -> list[float]:
    """A rate against another of the same round."""
    found = {(each.round, each.scenario, each.side): each.figures.get(RATE) for each in record.measures}
    pairs = [
        (found.get((number, scenario, side)), found.get((number, base, peer)))
        for number in sorted({number for number, _, _ in found})
    ]
    return [one / other for one, other in pairs if one is not None and other]


def ratio_of(record: Record, scenario: str, side: str, base: str, peer: str) -> float | None:
    """The middle of these, if there is any."""
    ratios = ratios_of(record, scenario, side, base, peer)
    return statistics.median(ratios) if ratios else None


def ends_of(values: Sequence[float]) -> tuple[float, float]:
    """The least and the most."""
    return min(values), max(values)
