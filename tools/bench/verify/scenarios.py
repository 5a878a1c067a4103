"""What is measured: a scenario lets one side do one thing, and returns figures; it knows of no rounds."""

import time
from dataclasses import dataclass
from itertools import pairwise

import psycopg

from duly.verify import INVARIANTS, check
from duly.verify.contract import CONTRACTS
from tools.bench.report import Figures
from tools.bench.run import Scenario
from tools.bench.verify.ground import Ground

OURS = "duly"
SIDES = (OURS,)
SCHEMAS = tuple(schema for several in CONTRACTS.values() for schema in several)


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    events: int = 10_000_000


def check_all(ground: Ground, side: str, sizes: Sizes) -> Figures:  # noqa: ARG001
    """Look at everything; a database in order has no offence."""
    filled = ground.filled(sizes.events)
    with psycopg.connect(filled.dsn, autocommit=True) as connection:
        times: list[float] = []
        used = ground.cpu_seconds()
        offences = check(connection, SCHEMAS, on_progress=lambda _: times.append(time.monotonic()))
        used = ground.cpu_seconds() - used
    assert offences == [], offences
    each = {law.name: later - before for law, (before, later) in zip(INVARIANTS, pairwise(times), strict=True)}
    ground.say("slowest: " + ", ".join(f"{name} {took:.1f} s" for name, took in by_time(each)[:10]))
    whole = times[-1] - times[0]
    return {
        "check_s": whole,
        "slowest_s": max(each.values()),
        "server_s": used,
        "per_second": filled.events / whole,
    }


def by_time(each: dict[str, float]) -> list[tuple[str, float]]:
    """The slowest first."""
    return sorted(each.items(), key=lambda law: -law[1])


SCENARIOS: dict[str, Scenario[Ground, Sizes]] = {
    "check": Scenario("check", "every law over all events", check_all, SIDES),
}
CHOICES = {"check": ("check",)}
