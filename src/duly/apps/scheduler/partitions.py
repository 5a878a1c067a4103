"""Months: the partitions of the runs, made ahead, written to a file when they are over, and dropped.

    create ----> month that comes ----> month that is ----> month that is over ----> archive ----> drop

A month can go when it is over and nothing in it is open. What is dropped are the runs; their keys stay, so that a
period which had its run never gets another. Whoever changes the table waits three seconds for others, and no longer.
"""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime

import orjson
from psycopg.errors import DeadlockDetected, LockNotAvailable

from duly.db.pool import Pool
from duly.db.queries import load_queries
from duly.db.rows import Connection, Row, change, find_row, get_row, get_rows, get_value
from duly.errors import Conflict, InvalidArgument, Misconfigured, NotFound, Unavailable

__all__ = [
    "MAX_AHEAD",
    "Month",
    "Part",
    "archive_month",
    "create_ahead",
    "create_month",
    "detach",
    "drop_month",
    "drop_part",
    "find_foreign_owner",
    "find_month",
    "hold_part",
    "hold_table",
    "list_months",
    "list_parts",
    "list_runs",
    "make_ahead",
    "make_partition",
    "measure_part",
    "read_month",
    "speak_utc",
    "take_snapshot",
    "wait_shortly",
]

SQL = load_queries(__file__, "partitions.sql")
MAX_AHEAD = 120
COUNTED = 1_000_000  # larger partitions are estimated
PAGE = 1000
PATIENCE_SECONDS, PAUSE_SECONDS = 3.0, 0.1
BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
MONTH = re.compile(r"(2[01][0-9]{2})-(0[1-9]|1[0-2])")
BOUNDS = re.compile(r"FROM \('(.+?)'\) TO \('(.+?)'\)")


@dataclass(frozen=True)
class Month:
    """A month of UTC."""

    year: int
    month: int

    def __str__(self) -> str:
        return f"{self.year:04}-{self.month:02}"

    @property
    def first_at(self) -> datetime:
        """Its first instant."""
        return datetime(self.year, self.month, 1, tzinfo=UTC)

    @property
    def end_at(self) -> datetime:
        """The first instant after it."""
        return datetime(self.year + self.month // 12, self.month % 12 + 1, 1, tzinfo=UTC)

    @property
    def part(self) -> str:
        """The name of its partition."""
        return f"job_runs_{self.year:04}_{self.month:02}"


@dataclass(frozen=True)
class Part:
    """A partition, and what lies in it."""

    part: str
    first_at: datetime | None  # None: the default partition, for whatever has no month
    end_at: datetime | None
    runs: int
    is_estimate: bool
    open_runs: int


def read_month(text: str) -> Month:
    """A month as it is written: 2025-01."""
    if not (found := MONTH.fullmatch(text)):
        raise InvalidArgument(f"a month is written as in 2025-01, in the years 2000 to 2199; not {text[:40]!r}")
    return Month(int(found[1]), int(found[2]))


# The verbs ------------------------------------------------------------------------------------------------------------


async def list_months(pool: Pool) -> Sequence[Part]:
    """Every partition with what lies in it, the earliest first."""
    async with pool.transaction() as connection:
        await speak_utc(connection)
        return [
            Part(row["part"], *bounds_of(row["bounds"]), **await measure_part(connection, row["part"]))
            for row in await list_parts(connection)
        ]


async def create_ahead(pool: Pool, ahead: int) -> int:
    """Make this month and so many to come; how many were not there."""
    if not 0 <= ahead <= MAX_AHEAD:
        raise InvalidArgument(f"months are made 0 to {MAX_AHEAD} ahead, not {ahead}")
    async with without_waiting(), pool.transaction() as connection:
        await wait_shortly(connection)
        return await make_ahead(connection, ahead)


async def create_month(pool: Pool, month: Month) -> bool:
    """Make one month; False when it was there. One that was dropped stays so, for its keys have no runs any more."""
    async with without_waiting(), pool.transaction() as connection:
        await wait_shortly(connection)
        if (await find_month(connection, month))["was_dropped"]:
            raise Conflict(f"{month} was dropped: the keys of its runs are kept, and it is not made a second time")
        return await make_partition(connection, month.first_at.date())


async def archive_month(pool: Pool, month: Month) -> AsyncGenerator[tuple[bytes, int, int], None]:
    """The runs of a month that is done as lines of JSON, page by page, with how many so far and of how many."""
    done, after = 0, (BEGINNING, 0)
    async with pool.transaction() as connection:
        await take_snapshot(connection)
        await speak_utc(connection)
        whole = (await get_done(connection, month, "archived"))["runs"]
        while page := await list_runs(connection, month.part, after):
            done, after = done + len(page), (page[-1]["scheduled_at"], page[-1]["id"])
            yield b"".join(orjson.dumps(row["run"], option=LINE) for row in page), done, whole


async def drop_month(pool: Pool, month: Month) -> int:
    """Drop a month that is done; how many runs went with it."""
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    async with without_waiting():
        while True:
            try:
                return await try_to_drop(pool, month)
            except LockNotAvailable:
                if time.monotonic() > give_up_at:
                    raise
                await asyncio.sleep(PAUSE_SECONDS)


async def try_to_drop(pool: Pool, month: Month) -> int:
    """Drop it in one transaction, unless somebody is in the way."""
    async with pool.transaction() as connection:
        await wait_shortly(connection)
        await get_done(connection, month, "dropped")  # before anybody has to wait for us
        await hold_table(connection)
        await hold_part(connection, month.part)
        runs = (await get_done(connection, month, "dropped"))["runs"]
        await detach(connection, month.part)
        await drop_part(connection, month.part)
        return runs


# Statements -----------------------------------------------------------------------------------------------------------


async def list_parts(connection: Connection) -> Sequence[Row]:
    """The partitions there are, each with its name and bounds."""
    return await get_rows(connection, SQL.list_parts)


async def measure_part(connection: Connection, part: str) -> Row:
    """How many runs lie in a partition, whether that is estimated, and how many are open."""
    if found := await find_foreign_owner(connection, part):
        raise Misconfigured(
            f"scheduler.{part} belongs to {found['owner']}; give it to the owner of the other months: "
            f"alter table scheduler.{part} owner to {found['ours']}"
        )
    return await get_row(connection, SQL.using(part=part).measure_part, part=f"scheduler.{part}", limit=COUNTED)


async def find_foreign_owner(connection: Connection, part: str) -> Row | None:
    """Who owns a partition that is none of ours, and who ours; None when it is ours, or not there."""
    return await find_row(connection, SQL.find_foreign_owner, part=f"scheduler.{part}")


async def find_month(connection: Connection, month: Month) -> Row:
    """Whether a month is over, is there, and was dropped."""
    return await get_row(
        connection,
        SQL.find_month,
        part=f"scheduler.{month.part}",
        first_at=month.first_at,
        end_at=month.end_at,
    )


async def make_partition(connection: Connection, day: date) -> bool:
    """Make the month of a day; False when it is there."""
    return await get_value(connection, SQL.make_partition, day=day)


async def make_ahead(connection: Connection, ahead: int) -> int:
    """Make the months to come; how many were missing."""
    return await get_value(connection, SQL.make_ahead, ahead=ahead)


async def wait_shortly(connection: Connection) -> None:
    """Wait three seconds for a lock, for the rest of this transaction."""
    await get_value(connection, SQL.wait_shortly)


async def take_snapshot(connection: Connection) -> None:
    """See for the rest of this transaction what is there now."""
    await change(connection, SQL.take_snapshot)


async def speak_utc(connection: Connection) -> None:
    """Have times told in UTC, for the rest of this transaction."""
    await get_value(connection, SQL.speak_utc)


async def list_runs(connection: Connection, part: str, after: tuple[datetime, int], limit: int = PAGE) -> Sequence[Row]:
    """A page of a month's runs, whole."""
    return await get_rows(connection, SQL.using(part=part).list_runs, after_at=after[0], after_id=after[1], limit=limit)


async def hold_table(connection: Connection) -> None:
    """Keep everybody from the table."""
    await change(connection, SQL.hold_table)


async def hold_part(connection: Connection, part: str) -> None:
    """Keep everybody from a partition and from the schedules it refers to, or be refused at once."""
    await change(connection, SQL.using(part=part).hold_part)


async def detach(connection: Connection, part: str) -> None:
    """Take a partition out of the table."""
    await change(connection, SQL.using(part=part).detach)


async def drop_part(connection: Connection, part: str) -> None:
    """Drop what was a partition."""
    await change(connection, SQL.using(part=part).drop_part)


# Within ---------------------------------------------------------------------------------------------------------------

LINE = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SORT_KEYS


async def get_done(connection: Connection, month: Month, what: str) -> Row:
    """What lies in a month that can be archived or dropped, or a refusal that says why it cannot."""
    found = await find_month(connection, month)
    if not found["is_here"]:
        raise NotFound(f"there is no partition for {month}; see: duly partitions list")
    if not found["is_over"]:
        raise Conflict(f"{month} is not over: it can be {what} from {month.end_at:%Y-%m-%dT%H:%MZ} on")
    measured = await measure_part(connection, month.part)
    if several := measured["open_runs"]:
        raise Conflict(
            f"{month} cannot be {what}: of its runs {several} {'is' if several == 1 else 'are'} open (pending, sent or "
            "snoozed); answer them, or archive their schedules; see: duly schedule runs --status sent"
        )
    return measured


def bounds_of(text: str) -> tuple[datetime | None, datetime | None]:
    """The bounds of a partition, as the server tells them in UTC."""
    found = BOUNDS.search(text)
    return (datetime.fromisoformat(found[1]), datetime.fromisoformat(found[2])) if found else (None, None)


@asynccontextmanager
async def without_waiting() -> AsyncGenerator[None, None]:
    """Somebody who holds the table is left alone, and it is said so."""
    try:
        yield
    except (LockNotAvailable, DeadlockDetected):
        raise Unavailable(
            "somebody holds scheduler.job_runs or scheduler.jobs, and did not let go within 3 s, a dump perhaps; "
            "nothing was changed: try again when it is over"
        ) from None
