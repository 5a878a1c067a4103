"""The scenarios: each lets one variant do one thing, and returns figures; it knows of no rounds."""

import time
from dataclasses import dataclass
from itertools import pairwise

import psycopg

from duly.verify import INVARIANTS, check
from duly.verify.contract import CONTRACTS
from tools.bench.report import Figures
from tools.bench.run import Scenario
from tools.bench.verify.server import VerifyServer

DULY = "duly"
VARIANTS = (DULY,)
SCHEMAS = tuple(schema for several in CONTRACTS.values() for schema in several)


@dataclass(frozen=True)
class Sizes:
    """The sizes of a run."""

    events: int = 10_000_000


def check_all(server: VerifyServer, variant: str, sizes: Sizes) -> Figures:  # noqa: ARG001
    """Check every invariant; a database in order violates none."""
    filled = server.filled(sizes.events)
    with psycopg.connect(filled.dsn, autocommit=True) as connection:
        times: list[float] = []
        server_cpu = server.read_cpu()
        violations = check(connection, SCHEMAS, on_progress=lambda _: times.append(time.monotonic()))
        used = server.cpu_seconds_since(server_cpu)
    assert violations == [], violations
    seconds = (later - before for before, later in pairwise(times))
    each = dict(zip((invariant.name for invariant in INVARIANTS), seconds, strict=True))
    server.log("slowest: " + ", ".join(f"{name} {took:.1f} s" for name, took in slowest_first(each)[:10]))
    whole = times[-1] - times[0]
    return {
        "check_s": whole,
        "slowest_s": max(each.values()),
        "server_s": used,
        "per_second": filled.events / whole,
    }


def slowest_first(each: dict[str, float]) -> list[tuple[str, float]]:
    """Sort by time, the slowest first."""
    return sorted(each.items(), key=lambda entry: -entry[1])


SCENARIOS: dict[str, Scenario[VerifyServer, Sizes]] = {
    "check": Scenario("check", "every invariant over all events", check_all, VARIANTS),
}
CHOICES = {"check": ("check",)}
