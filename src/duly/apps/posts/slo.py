"""The contract's promises and how they stand, over 30 days, with what may still go wrong and how fast that is used up.

    intents   more than 99.5 of 100 requests for a post succeed
    lag       95 of 100 posts are released less than two minutes after their time; one that is overdue by more and
              not released yet is late already; imported documents of the first version never count
    stuck     none is being prepared for longer than fifteen minutes

A request succeeds when it makes a post or finds the one it had made. One that breaks a rule, comes without a key, or
asks for a second post of the day is answered as it should be and counts neither way; what we failed at, or did not
answer for want of a database, counts against us.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from duly.db.pool import Pool
from duly.db.queries import load_queries
from duly.db.rows import Connection, Row, get_row, get_rows
from duly.errors import Unavailable, Unexpected

__all__ = ["Objective", "measure", "objectives_now"]

SQL = load_queries(__file__, "slo.sql")
OURS = (Unexpected.code, Unavailable.code)
HOUR = 3600
WINDOWS = {"1h": HOUR, "6h": 6 * HOUR, "3d": 72 * HOUR, "30d": 720 * HOUR}
BUDGET = "30d"
INTENT_TARGET, LAG_TARGET = 0.995, 0.95
LATE_SECONDS, STUCK_SECONDS = 120, 900


@dataclass(frozen=True, slots=True)
class Objective:
    """What was promised, and how it stands."""

    name: str
    promise: str
    target: float
    measured: float | None  # None when there was nothing to measure
    is_met: bool
    events: int
    bad: int
    budget_left: float | None = None  # 1 all of it, 0 none, below 0 overdrawn
    burn_rates: Mapping[str, float | None] = field(default_factory=dict[str, float | None])


async def measure(pool: Pool) -> list[Objective]:
    """Each promise, as it stands now."""
    async with pool.transaction() as connection:
        return await objectives_now(connection)


async def objectives_now(connection: Connection) -> list[Objective]:
    """The same, in the transaction that is open."""
    return [
        intents_of(await count_by_window(connection)),
        lag_of(await lag_by_window(connection)),
        stuck_of(await count_stuck(connection)),
    ]


async def count_by_window(connection: Connection) -> Sequence[Row]:
    """Good and bad intents of each window."""
    return await get_rows(connection, SQL.count_by_window, windows=list(WINDOWS.values()), ours=list(OURS))


async def lag_by_window(connection: Connection) -> Sequence[Row]:
    """Posts that were released or are overdue, and how late, in each window."""
    return await get_rows(connection, SQL.lag_by_window, windows=list(WINDOWS.values()), late_seconds=LATE_SECONDS)


async def count_stuck(connection: Connection) -> Row:
    """What is being prepared for too long."""
    return await get_row(connection, SQL.count_stuck, stuck_seconds=STUCK_SECONDS)


def intents_of(rows: Sequence[Row]) -> Objective:
    """Do requests for a post succeed?"""
    seen = {row["seconds"]: (row["good"] + row["bad"], row["bad"]) for row in rows}
    events, bad = seen[WINDOWS[BUDGET]]
    measured = 1 - bad / events if events else None
    return Objective(
        name="intents",
        promise="more than 99.5 % of intents succeed",
        target=INTENT_TARGET,
        measured=measured,
        is_met=measured is None or measured > INTENT_TARGET,
        events=events,
        bad=bad,
        **budget_of(seen, INTENT_TARGET),
    )


def lag_of(rows: Sequence[Row]) -> Objective:
    """Do posts appear in time?"""
    seen = {row["seconds"]: (row["posts"], row["late"]) for row in rows}
    events, late = seen[WINDOWS[BUDGET]]
    p95 = next(row["p95_seconds"] for row in rows if row["seconds"] == WINDOWS[BUDGET])
    return Objective(
        name="lag",
        promise="95 % of posts are released within 2 minutes of their time",
        target=LATE_SECONDS,
        measured=p95,
        is_met=p95 is None or p95 < LATE_SECONDS,
        events=events,
        bad=late,
        **budget_of(seen, LAG_TARGET),
    )


def stuck_of(row: Row) -> Objective:
    """Is nothing stuck?"""
    return Objective(
        name="stuck",
        promise="no post is in PROCESSING for longer than 15 minutes",
        target=STUCK_SECONDS,
        measured=row["max_seconds"],
        is_met=row["stuck"] == 0,
        events=row["held"],
        bad=row["stuck"],
    )


def budget_of(seen: Mapping[int, tuple[int, int]], target: float) -> dict[str, Any]:
    """What may still go wrong in 30 days, and how fast that is being used up in each window."""
    allowed = 1 - target
    events, bad = seen[WINDOWS[BUDGET]]
    rates = {
        name: round(seen[seconds][1] / seen[seconds][0] / allowed, 3) if seen[seconds][0] else None
        for name, seconds in WINDOWS.items()
    }
    return {"budget_left": round(1 - bad / (events * allowed), 4) if events else None, "burn_rates": rates}
