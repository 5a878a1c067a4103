"""Sessions of one person's day in several hands at once: one writes at a time, and the next finds what it wrote."""

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.db.pool import connect
from duly.ingest.work import CaptureWork
from duly.kernel.lease import Lease
from duly.kernel.work import Finished
from tests.ingest.hands import Hands, see
from tests.ingest.strategies import payload
from tests.support.locks import wait_until_blocked

WORKERS = 4
ROUNDS = 25


def day(start: str, date: str = "2026-02-10") -> dict[str, Any]:
    """A day with one shift, from this hour on."""
    return payload({"start": start, "end": "18:00", "title": "Anna • Städning", "location": "Billdal"}, date=date)


class Worker:
    """A connection with a worker's rights, and the sessions that it holds."""

    def __init__(self, work: CaptureWork, connection: AsyncConnection[Any]) -> None:
        self.work = work
        self.connection = connection
        self.held: list[Lease] = []

    async def hold(self, most: int = 1) -> list[Lease]:
        """Claim some."""
        self.held = await self.work.claim(self.connection, "worker-1", most)
        return self.held

    async def write(self, leases: Sequence[Lease]) -> None:
        """See what they show and write it down, in the transaction that is open or in one of its own."""
        finished = [Finished(lease, await see(self.work, lease)) for lease in leases]
        async with self.connection.transaction():
            assert await self.work.settle(self.connection, finished) == {lease.key for lease in leases}


@pytest.fixture
async def hands(database: str) -> AsyncGenerator[Hands, None]:
    """What tests of captures do all the time."""
    async with (
        await connect(make_conninfo(database, user=Names().api)) as api,
        await connect(make_conninfo(database, user=Names().worker)) as worker,
    ):
        with psycopg.connect(database, autocommit=True) as admin:
            yield Hands(admin, api, worker)


@asynccontextmanager
async def workers(hands: Hands, several: int) -> AsyncGenerator[list[Worker], None]:
    """So many workers of one name."""
    dsn = make_conninfo(hands.admin.info.dsn, user=Names().worker)
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(await connect(dsn)) for _ in range(several)]
        yield [Worker(hands.work(), connection) for connection in opened]


async def test_who_comes_second_to_a_day_waits_and_goes_on_from_what_the_first_wrote(hands: Hands) -> None:
    """The day is new to both: without waiting, both would write its version 1."""
    await hands.bring(day("10:00"), day("11:00"))
    async with workers(hands, 2) as (one, other):
        mine, theirs = await one.hold(), await other.hold()
        async with one.connection.transaction():
            await one.write(mine)
            second = asyncio.create_task(other.write(theirs))
            await asyncio.to_thread(wait_until_blocked, hands.admin.info.dsn)
            assert hands.counts() == dict.fromkeys(hands.counts(), 0)
        await second
    types = hands.values("select event_type from schedule_ingest.schedule_event order by seq")
    assert types == ["shift_added", "shift_time_changed"]
    assert hands.values("select session_id from schedule_ingest.schedule_version order by version") == [
        mine[0].key,
        theirs[0].key,
    ]
    assert hands.rebuilt()[0] == hands.rebuilt()[1]
    hands.verify()


async def test_who_comes_second_to_a_day_that_the_first_did_not_change_after_all_is_the_first(hands: Hands) -> None:
    await hands.bring(day("10:00"), day("11:00"))
    async with workers(hands, 2) as (one, other):
        mine, theirs = await one.hold(), await other.hold()
        async with one.connection.transaction(force_rollback=True):
            await one.write(mine)
            second = asyncio.create_task(other.write(theirs))
            await asyncio.to_thread(wait_until_blocked, hands.admin.info.dsn)
        await second
        assert hands.values("select session_id from schedule_ingest.schedule_version") == [theirs[0].key]
        await one.write(mine)
    assert hands.values("select version from schedule_ingest.schedule_version order by version") == [1, 2]
    assert hands.rebuilt()[0] == hands.rebuilt()[1]
    hands.verify()


async def test_another_day_and_another_person_do_not_wait(hands: Hands) -> None:
    await hands.bring(day("10:00"))
    await hands.bring(day("10:00", "2026-02-11"))
    await hands.bring(day("10:00"), user=43)
    async with workers(hands, 3) as (one, other, third):
        mine, theirs, thirds = await one.hold(), await other.hold(), await third.hold()
        async with one.connection.transaction():
            await one.write(mine)
            await other.write(theirs)
            await third.write(thirds)
    assert hands.count("day_schedule") == 3


async def test_batches_that_meet_in_many_days_wait_in_no_circle_and_lose_nothing(hands: Hands) -> None:
    days = [f"2026-02-{number}" for number in range(10, 16)]
    async with workers(hands, WORKERS) as several:
        for _ in range(ROUNDS):
            for worker in several:
                shuffled = random.sample(days, len(days))
                await hands.bring(*(day(f"{random.randint(8, 17):02}:00", each) for each in shuffled))  # noqa: S311
                await worker.hold(len(days))
            await asyncio.gather(*(worker.write(worker.held) for worker in several))
    rows = hands.rows(
        "select d.schedule_date, d.current_version, count(v), max(v.version)"
        " from schedule_ingest.day_schedule as d join schedule_ingest.schedule_version as v"
        " using (user_id, schedule_date) group by 1, 2"
    )
    assert len(rows) == len(days)
    assert all(pointer == several == last for _, pointer, several, last in rows)
    changed = "select count(*) from schedule_ingest.capture_session where result ->> 'outcome' = 'changed'"
    assert hands.one(changed) == hands.count("schedule_version")
    hands.verify()
