"""Service level objectives of the contract, over 30 days, with error budget and burn rates.

    intents   more than 99.5 % of requests for a post succeed
    lag       95 % of posts are released less than two minutes after their release time; one that is overdue by more
              and not released yet is late already; imported documents of the first version never count
    stuck     no post is in PROCESSING for longer than fifteen minutes

A request succeeds when it creates a post or returns the one it created before. Client errors, such as an invalid field,
a missing key or a second post of the day, count neither way; server errors, such as an unavailable database, count as
bad.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from duly.db.pool import Pool
from duly.db.queries import load_queries
from duly.db.rows import Connection, Row, get_row, get_rows
from duly.errors import Unavailable, Unexpected

SQL = load_queries(__file__, "slo.sql")
SERVER_ERROR_CODES = (Unexpected.code, Unavailable.code)
HOUR = 3600
WINDOWS = {"1h": HOUR, "6h": 6 * HOUR, "3d": 72 * HOUR, "30d": 720 * HOUR}
BUDGET_WINDOW = "30d"
INTENT_TARGET, LAG_TARGET = 0.995, 0.95
LATE_SECONDS, STUCK_SECONDS = 120, 900


@dataclass(frozen=True, slots=True)
class Objective:
    """An objective and its measured state."""

    name: str
    promise: str
    target: float
    measured: float | None  # None when there was nothing to measure
    is_met: bool
    events: int
    bad: int
    budget_left: float | None = None  # 1: unused, 0: used up, below 0: overspent
    burn_rates: Mapping[str, float | None] = field(default_factory=dict[str, float | None])


async def measure(pool: Pool) -> list[Objective]:
    """Measure every objective now."""
    async with pool.transaction() as connection:
        return await measure_objectives(connection)


async def measure_objectives(connection: Connection) -> list[Objective]:
    """Measure every objective in the current transaction."""
    return [
        intents_objective(await count_by_window(connection)),
        lag_objective(await lag_by_window(connection)),
        stuck_objective(await count_stuck(connection)),
    ]


async def count_by_window(connection: Connection) -> Sequence[Row]:
    """Return good and bad intents of each window."""
    return await get_rows(
        connection, SQL.count_by_window, windows=list(WINDOWS.values()), server_error_codes=list(SERVER_ERROR_CODES)
    )


async def lag_by_window(connection: Connection) -> Sequence[Row]:
    """Return the number and lag of released and overdue posts of each window."""
    return await get_rows(connection, SQL.lag_by_window, windows=list(WINDOWS.values()), late_seconds=LATE_SECONDS)


async def count_stuck(connection: Connection) -> Row:
    """Return how many posts are in PROCESSING for too long."""
    return await get_row(connection, SQL.count_stuck, stuck_seconds=STUCK_SECONDS)


def intents_objective(rows: Sequence[Row]) -> Objective:
    """Return the objective on successful intents."""
    counts = {row["seconds"]: (row["good"] + row["bad"], row["bad"]) for row in rows}
    events, bad = counts[WINDOWS[BUDGET_WINDOW]]
    measured = 1 - bad / events if events else None
    return Objective(
        name="intents",
        promise="more than 99.5 % of intents succeed",
        target=INTENT_TARGET,
        measured=measured,
        is_met=measured is None or measured > INTENT_TARGET,
        events=events,
        bad=bad,
        **error_budget(counts, INTENT_TARGET),
    )


def lag_objective(rows: Sequence[Row]) -> Objective:
    """Return the objective on the release lag."""
    counts = {row["seconds"]: (row["posts"], row["late"]) for row in rows}
    events, late = counts[WINDOWS[BUDGET_WINDOW]]
    p95 = next(row["p95_seconds"] for row in rows if row["seconds"] == WINDOWS[BUDGET_WINDOW])
    return Objective(
        name="lag",
        promise="95 % of posts are released within 2 minutes of their time",
        target=LATE_SECONDS,
        measured=p95,
        is_met=p95 is None or p95 < LATE_SECONDS,
        events=events,
        bad=late,
        **error_budget(counts, LAG_TARGET),
    )


def stuck_objective(row: Row) -> Objective:
    """Return the objective on stuck posts."""
    return Objective(
        name="stuck",
        promise="no post is in PROCESSING for longer than 15 minutes",
        target=STUCK_SECONDS,
        measured=row["max_seconds"],
        is_met=row["stuck"] == 0,
        events=row["held"],
        bad=row["stuck"],
    )


def error_budget(counts: Mapping[int, tuple[int, int]], target: float) -> dict[str, Any]:
    """Return the error budget left in 30 days, and its burn rate in each window."""
    allowed = 1 - target
    events, bad = counts[WINDOWS[BUDGET_WINDOW]]
    rates = {
        name: round(counts[seconds][1] / counts[seconds][0] / allowed, 3) if counts[seconds][0] else None
        for name, seconds in WINDOWS.items()
    }
    return {"budget_left": round(1 - bad / (events * allowed), 4) if events else None, "burn_rates": rates}
