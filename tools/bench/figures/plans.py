"""The sizes of each benchmark under `duly bench all`: --quick, the usual ones, --full."""

from collections.abc import Mapping, Sequence
from enum import StrEnum


class Extent(StrEnum):
    """A set of sizes."""

    QUICK = "quick"  # does it run? the figures mean nothing
    USUAL = "usual"  # all scenarios, a tenth of the rows
    FULL = "full"  # each benchmark's own sizes


QUICK: Mapping[str, Mapping[str, object]] = {
    "ledger": {
        "only": "drain,pickup",
        "systems": "duly",
        "jobs": 60,
        "pickups": 10,
        "warm-waves": 1,
    },
    "ingest": {"sessions": 80, "days": 10_000, "warm-waves": 1},
    "posts": {"posts": 40, "stored": 200, "intents": 10, "clients": 2, "minute-seconds": 0.5, "warm-waves": 1},
    "scheduler": {"schedules": 2_000, "due": 10, "runs": 1_000, "messages": 100},
    "verify": {"events": 2_000},
}
USUAL: Mapping[str, Mapping[str, object]] = {
    "ledger": {
        "jobs": 10_000,
        "few-jobs": 500,
        "singles": 500,
        "pickups": 300,
        "path-jobs": 1_000,
        "waiting-rows": 100_000,
        "finished-rows": 100_000,
        "many-finished-rows": 1_000_000,
        "snapshot-jobs": 40_000,
    },
    "ingest": {"sessions": 4_000, "days": 20_000},
    "posts": {"posts": 10_000, "stored": 100_000, "intents": 400, "minute-seconds": 10},
    "scheduler": {"schedules": 100_000, "runs": 1_000_000, "messages": 5_000},
    "verify": {"events": 1_000_000},
}
FULL: Mapping[str, Mapping[str, object]] = {**{name: {} for name in USUAL}, "verify": {"events": 10_000_000}}
SIZES = {Extent.QUICK: QUICK, Extent.USUAL: USUAL, Extent.FULL: FULL}
NAMES = tuple(USUAL)
ROUNDS = {Extent.QUICK: 1, Extent.USUAL: 3, Extent.FULL: 3}
ONCE = {"verify": 1}  # a long walk over a large database: once is enough unless an option says otherwise


def list_options(name: str, extent: Extent, rounds: int | None) -> Sequence[str]:
    """List the options that a benchmark is run with."""
    times = rounds or ONCE.get(name, ROUNDS[extent])
    options = {"rounds": times, **SIZES[extent][name]}
    return [word for option, value in options.items() for word in (f"--{option}", str(value))]
