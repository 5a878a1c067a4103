"""The monthly partitions of the runs: created ahead, archived to a file when they are over, and dropped.

    past | month | ... | this month | ... | month | future

Months are split off the open-ended partitions and follow each other without a gap, so that a run of any time has a
partition. A month can be archived when it is over and none of its runs is open, and dropped when it is also the first.
Dropping removes the runs; their keys stay, so that a period never gets a second run. Changes of the table give up after
waiting five seconds for locks.
"""

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime

import orjson
from psycopg.errors import DeadlockDetected, InvalidParameterValue, LockNotAvailable

from duly.apps.scheduler.model import BEGINNING
from duly.db.pool import Pool
from duly.db.queries import load_queries
from duly.db.rows import Connection, Row, execute, find_row, get_row, get_rows, get_value
from duly.errors import Conflict, InvalidArgument, Misconfigured, NotFound, Unavailable

SQL = load_queries(__file__, "partitions.sql")
MAX_AHEAD = 120
MAX_COUNTED_RUNS = 1_000_000  # of larger partitions the number is estimated
PAGE_SIZE = 1000
MONTH = re.compile(r"(2[01][0-9]{2})-(0[1-9]|1[0-2])")


@dataclass(frozen=True)
class Month:
    """A calendar month in UTC."""

    year: int
    month: int

    def __str__(self) -> str:
        return f"{self.year:04}-{self.month:02}"

    @property
    def first_at(self) -> datetime:
        """The first instant of the month."""
        return datetime(self.year, self.month, 1, tzinfo=UTC)

    @property
    def end_at(self) -> datetime:
        """The first instant after the month."""
        return datetime(self.year + self.month // 12, self.month % 12 + 1, 1, tzinfo=UTC)

    @property
    def partition_name(self) -> str:
        """The name of its partition."""
        return f"job_runs_{self.year:04}_{self.month:02}"


@dataclass(frozen=True)
class Partition:
    """A partition, and how many runs it has."""

    name: str
    first_at: datetime | None  # None for the past partition
    end_at: datetime | None  # None for the future partition
    runs: int
    is_estimate: bool
    open_runs: int


def parse_month(text: str) -> Month:
    """Parse a month, for example 2025-01."""
    if not (found := MONTH.fullmatch(text)):
        raise InvalidArgument(f"month: must be written like 2025-01, in the years 2000 to 2199, not {text[:40]!r}")
    return Month(int(found[1]), int(found[2]))


# Operations -----------------------------------------------------------------------------------------------------------


async def list_months(pool: Pool) -> Sequence[Partition]:
    """Return every partition with its number of runs, the earliest first."""
    async with pool.transaction() as connection:
        await set_utc_timezone(connection)
        return [
            Partition(**row, **await measure_partition(connection, row["name"]))
            for row in await list_partitions(connection)
        ]


async def create_ahead(pool: Pool, ahead: int) -> int:
    """Create the partitions of this month and of the next `ahead` months; return how many were missing."""
    if not 0 <= ahead <= MAX_AHEAD:
        raise InvalidArgument(f"ahead: must be 0 to {MAX_AHEAD} months, not {ahead}")
    async with lock_errors_as_unavailable(), pool.transaction() as connection:
        return await create_partitions_ahead(connection, ahead)


async def create_month(pool: Pool, month: Month) -> int:
    """Create a month, and those between it and the existing ones; return how many. Conflict when one was dropped."""
    async with lock_errors_as_unavailable(), pool.transaction() as connection:
        try:
            return await create_months(connection, month.first_at.date())
        except InvalidParameterValue as error:
            raise Conflict(f"{month} cannot be created: {error.diag.message_primary}") from None


async def archive_month(pool: Pool, month: Month) -> AsyncGenerator[tuple[bytes, int, int], None]:
    """Yield the runs of a finished month as JSON lines, page by page, with the number so far and in total."""
    done, after = 0, (BEGINNING, 0)
    async with pool.transaction() as connection:
        await use_snapshot(connection)
        await set_utc_timezone(connection)
        total = (await get_finished_month(connection, month, "archived"))["runs"]
        while page := await list_runs(connection, month.partition_name, after):
            done, after = done + len(page), (page[-1]["scheduled_at"], page[-1]["id"])
            yield b"".join(orjson.dumps(row["run"], option=JSON_LINE) for row in page), done, total


async def drop_month(pool: Pool, month: Month) -> int:
    """Drop a finished month, the first; return how many runs it had."""
    async with pool.transaction() as connection:
        await get_finished_month(connection, month, "dropped")  # before other sessions wait for our lock
    async with lock_errors_as_unavailable(), pool.transaction() as connection:
        await lock_partitions(connection)
        await get_finished_month(connection, month, "dropped")
        return await drop_partition(connection, month.first_at.date())


# Statements -----------------------------------------------------------------------------------------------------------


async def list_partitions(connection: Connection) -> Sequence[Row]:
    """Return the partitions in order, each with its name and bounds."""
    return await get_rows(connection, SQL.list_partitions)


async def measure_partition(connection: Connection, partition: str) -> Row:
    """Return how many runs a partition has, whether that is estimated, and how many are open."""
    if found := await find_foreign_owner(connection, partition):
        raise Misconfigured(
            f"scheduler.{partition} belongs to {found['owner']}; change its owner to that of the other months: "
            f"alter table scheduler.{partition} owner to {found['ours']}"
        )
    return await get_row(
        connection,
        SQL.using(partition=partition).measure_partition,
        partition=f"scheduler.{partition}",
        limit=MAX_COUNTED_RUNS,
    )


async def find_foreign_owner(connection: Connection, partition: str) -> Row | None:
    """Return the owner of a partition that is not ours, and our role; None when it is ours or does not exist."""
    return await find_row(connection, SQL.find_foreign_owner, partition=f"scheduler.{partition}")


async def find_month(connection: Connection, month: Month) -> Row:
    """Return whether a month is over, and whether it exists; and the first month."""
    return await get_row(
        connection,
        SQL.find_month,
        partition=f"scheduler.{month.partition_name}",
        end_at=month.end_at,
    )


async def create_months(connection: Connection, day: date) -> int:
    """Create the month of a day and those between it and the existing ones; return how many."""
    return await get_value(connection, SQL.create_months, day=day)


async def create_partitions_ahead(connection: Connection, ahead: int) -> int:
    """Create the partitions of the coming months; return how many were missing."""
    return await get_value(connection, SQL.create_partitions_ahead, ahead=ahead)


async def use_snapshot(connection: Connection) -> None:
    """Read from one snapshot for the rest of this transaction."""
    await execute(connection, SQL.use_snapshot)


async def set_utc_timezone(connection: Connection) -> None:
    """Return times in UTC for the rest of this transaction."""
    await get_value(connection, SQL.set_utc_timezone)


async def list_runs(
    connection: Connection, partition: str, after: tuple[datetime, int], limit: int = PAGE_SIZE
) -> Sequence[Row]:
    """Return a page of a month's runs, with all their columns."""
    return await get_rows(
        connection, SQL.using(partition=partition).list_runs, after_at=after[0], after_id=after[1], limit=limit
    )


async def lock_partitions(connection: Connection) -> None:
    """Lock the partitions for a change."""
    await execute(connection, SQL.lock_partitions)


async def drop_partition(connection: Connection, day: date) -> int:
    """Drop the month of a day, the first, and return how many runs it had."""
    return await get_value(connection, SQL.drop_partition, day=day)


# Helpers --------------------------------------------------------------------------------------------------------------

JSON_LINE = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SORT_KEYS


async def get_finished_month(connection: Connection, month: Month, operation: str) -> Row:
    """Measure a month that can be archived or dropped; Conflict or NotFound, with the reason, when it cannot."""
    found = await find_month(connection, month)
    if not found["is_present"]:
        raise NotFound(f"there is no partition for {month}; see: duly partitions list")
    if not found["is_over"]:
        raise Conflict(f"{month} is not over: it can be {operation} from {month.end_at:%Y-%m-%dT%H:%MZ} on")
    measured = await measure_partition(connection, month.partition_name)
    if open_runs := measured["open_runs"]:
        raise Conflict(
            f"{month} cannot be {operation}: {open_runs} of its runs {'is' if open_runs == 1 else 'are'} open "
            "(pending, sent or snoozed); answer them, or archive their schedules; see: duly schedule runs --status sent"
        )
    if operation == "dropped" and found["first_partition"] != month.partition_name:
        first = found["first_partition"].removeprefix("job_runs_").replace("_", "-")
        raise Conflict(f"{month} is not the first month: drop {first} before it")
    return measured


@asynccontextmanager
async def lock_errors_as_unavailable() -> AsyncGenerator[None, None]:
    """Raise Unavailable when a lock was not granted in time."""
    try:
        yield
    except (LockNotAvailable, DeadlockDetected):
        raise Unavailable(
            "could not lock scheduler.job_runs and scheduler.jobs within 5 s: another session, for example pg_dump, "
            "has a lock on them; nothing was changed, retry when it has ended"
        ) from None
