"""Concurrent sessions about one day: one writes at a time, and the next sees what it wrote."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from duly.apps.ingest.work import CaptureWork
from duly.db.migrations import Names
from duly.db.pool import connect
from duly.lease.operations import Lease
from duly.lease.work import LeaseOutcome
from tests.support.ingest.actions import CaptureActions, read_session
from tests.support.ingest.strategies import payload
from tests.support.locks import wait_until_blocked


def day(start: str, date: str = "2026-02-10") -> dict[str, Any]:
    """A day with one shift, from this hour on."""
    return payload({"start": start, "end": "18:00", "title": "Anna • Städning", "location": "Billdal"}, date=date)


class Worker:
    """A connection with a worker's rights, and the sessions that it holds."""

    def __init__(self, work: CaptureWork, connection: AsyncConnection[Any]) -> None:
        self.work = work
        self.connection = connection
        self.held: list[Lease] = []

    async def hold(self, limit: int = 1) -> list[Lease]:
        """Claim some."""
        self.held = await self.work.claim(self.connection, "worker-1", limit)
        return self.held

    async def write(self, leases: Sequence[Lease]) -> None:
        """Read and settle them, in the open transaction or in one of its own."""
        finished = [LeaseOutcome(lease, await read_session(self.work, lease)) for lease in leases]
        async with self.connection.transaction():
            assert await self.work.settle(self.connection, finished) == {lease.key for lease in leases}


@pytest.fixture
async def captures(database: str) -> AsyncGenerator[CaptureActions, None]:
    """Actions of capture tests."""
    async with (
        await connect(make_conninfo(database, user=Names().api)) as api,
        await connect(make_conninfo(database, user=Names().worker)) as worker,
    ):
        with psycopg.connect(database, autocommit=True) as admin:
            yield CaptureActions(admin, worker, api)


@asynccontextmanager
async def workers(captures: CaptureActions, several: int) -> AsyncGenerator[list[Worker], None]:
    """Return this many workers of one name."""
    dsn = make_conninfo(captures.admin.info.dsn, user=Names().worker)
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(await connect(dsn)) for _ in range(several)]
        yield [Worker(captures.work(), connection) for connection in opened]


async def test_second_writer_of_a_day_waits_and_builds_on_the_first(captures: CaptureActions) -> None:
    """The day is new to both: without waiting, both would write its version 1."""
    await captures.create(day("10:00"), day("11:00"))
    async with workers(captures, 2) as (one, other):
        mine, theirs = await one.hold(), await other.hold()
        async with one.connection.transaction():
            await one.write(mine)
            second = asyncio.create_task(other.write(theirs))
            await asyncio.to_thread(wait_until_blocked, captures.admin.info.dsn)
            assert captures.counts() == dict.fromkeys(captures.counts(), 0)
        await second
    types = captures.values("select event_type from schedule_ingest.schedule_event order by seq")
    assert types == ["shift_added", "shift_time_changed"]
    assert captures.values("select session_id from schedule_ingest.schedule_version order by version") == [
        mine[0].key,
        theirs[0].key,
    ]
    assert captures.rebuilt()[0] == captures.rebuilt()[1]
    captures.verify()


async def test_second_writer_of_a_day_is_first_if_the_first_rolls_back(
    captures: CaptureActions,
) -> None:
    await captures.create(day("10:00"), day("11:00"))
    async with workers(captures, 2) as (one, other):
        mine, theirs = await one.hold(), await other.hold()
        async with one.connection.transaction(force_rollback=True):
            await one.write(mine)
            second = asyncio.create_task(other.write(theirs))
            await asyncio.to_thread(wait_until_blocked, captures.admin.info.dsn)
        await second
        assert captures.values("select session_id from schedule_ingest.schedule_version") == [theirs[0].key]
        await one.write(mine)
    assert captures.values("select version from schedule_ingest.schedule_version order by version") == [1, 2]
    assert captures.rebuilt()[0] == captures.rebuilt()[1]
    captures.verify()


async def test_writers_of_other_days_and_users_do_not_wait(captures: CaptureActions) -> None:
    await captures.create(day("10:00"))
    await captures.create(day("10:00", "2026-02-11"))
    await captures.create(day("10:00"), user=43)
    async with workers(captures, 3) as (one, other, third):
        mine, theirs, thirds = await one.hold(), await other.hold(), await third.hold()
        async with one.connection.transaction():
            await one.write(mine)
            await other.write(theirs)
            await third.write(thirds)
    assert captures.count("schedule_ingest.day_schedule") == 3
