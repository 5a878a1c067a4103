"""A promise that is broken is told of once, and again when it is kept and broken anew, however many workers look."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.db.pool import connect
from duly.posts.alerts import LOOK_SECONDS, Alerts, take_objectives, write_alerts
from duly.posts.slo import objectives_now
from duly.posts.work import PostWork
from duly.settings import Settings
from duly.wiring import works_of
from duly.worker.runtime import Worker
from tests.posts.hands import HOURS, Admin, Connection, Hands
from tests.posts.test_work import PACE, Reader, until

ALERTS = Alerts()


@pytest.fixture
def dsn(admin: Admin) -> str:
    """Where workers connect, as themselves."""
    return make_conninfo(admin.info.dsn, user=Names().worker)


@pytest.fixture
async def other(dsn: str) -> AsyncGenerator[Connection, None]:
    """Another worker's connection."""
    async with await connect(dsn) as connection:
        yield connection


def told(hands: Hands) -> list[tuple[str, str, int]]:
    """Every alert, in the order they were written: kind, promise, number."""
    asked = (
        "select kind, payload ->> 'slo', (payload ->> 'breach')::int from duly.outbox where kind like 'slo.%'"
        " order by seq"
    )
    return hands.admin.execute(asked).fetchall()


async def look(connection: Connection) -> int:
    """Look once, as a worker does."""
    async with connection.transaction():
        return await ALERTS.look(connection)


def fail_intents(hands: Hands, failed: int, made: int) -> None:
    """So many requests ended badly in this minute, and so many well."""
    hands.admin.execute(
        "insert into posts.intent_minutes (minute, outcome, intents)"
        " select date_trunc('minute', duly.clock(), 'UTC'), o, n"
        " from (values ('UNEXPECTED', %s::bigint), ('CREATED', %s::bigint)) as g (o, n) where n > 0"
        " on conflict (minute, outcome) do update set intents = excluded.intents + posts.intent_minutes.intents",
        [failed, made],
    )


async def test_promises_that_are_kept_are_not_told_of(hands: Hands, worker: Connection) -> None:
    fail_intents(hands, 0, 1000)
    assert await look(worker) == 0
    assert told(hands) == []


async def test_a_breach_is_told_once_and_again_when_it_comes_back(hands: Hands, worker: Connection) -> None:
    fail_intents(hands, 10, 90)
    assert await look(worker) == 1
    assert told(hands) == [("slo.breached", "intents", 1)]
    for _ in range(3):  # still broken an hour later
        hands.pass_time(HOURS)
        assert await look(worker) == 0
    hands.pass_time(31 * 24 * HOURS)  # out of the window: kept again
    assert await look(worker) == 1
    hands.pass_time(HOURS)
    assert await look(worker) == 0
    fail_intents(hands, 1, 9)
    hands.pass_time(LOOK_SECONDS + 1)
    assert await look(worker) == 1
    assert told(hands) == [
        ("slo.breached", "intents", 1),
        ("slo.recovered", "intents", 1),
        ("slo.breached", "intents", 2),
    ]


async def test_an_alert_says_which_promise_and_how_it_stands(hands: Hands, worker: Connection) -> None:
    fail_intents(hands, 10, 90)
    await look(worker)
    row = hands.admin.execute("select channel, recipient, status, payload from duly.outbox").fetchone()
    assert row
    channel, recipient, status, payload = row
    assert (channel, recipient, status) == ("console", "operator", "pending")
    assert payload["text"] == (
        "A promise is broken: more than 99.5 % of intents succeed.\n"
        "Measured: 0.9, of 0.995; 10 of 100 bad. See: duly slo"
    )
    assert (payload["slo"], payload["events"], payload["bad"]) == ("intents", 100, 10)
    assert payload["since"].endswith("Z")


async def test_nobody_looks_twice_in_a_minute(hands: Hands, worker: Connection) -> None:
    assert await look(worker) == 0
    fail_intents(hands, 10, 90)
    hands.pass_time(LOOK_SECONDS / 2)
    assert await look(worker) == 0
    hands.pass_time(LOOK_SECONDS)
    assert await look(worker) == 1


async def test_a_clock_that_was_set_back_keeps_nobody_from_looking(hands: Hands, worker: Connection) -> None:
    await look(worker)
    hands.pass_time(-24 * HOURS)
    fail_intents(hands, 10, 90)
    assert await look(worker) == 1


async def test_while_one_looks_others_pass_by(hands: Hands, worker: Connection, other: Connection) -> None:
    fail_intents(hands, 10, 90)
    async with worker.transaction():
        assert await take_objectives(worker) == ["intents", "lag", "stuck"]
        assert await look(other) == 0  # without waiting
        await write_alerts(worker, await objectives_now(worker), "console", "operator")
    assert await look(other) == 0
    assert told(hands) == [("slo.breached", "intents", 1)]


async def test_two_that_found_the_same_write_one_message(hands: Hands, worker: Connection, other: Connection) -> None:
    """Even if both looked at the same time: the number of the breach is the message's key."""
    fail_intents(hands, 10, 90)
    found = await objectives_now(worker)
    async with worker.transaction():
        assert len(await write_alerts(worker, found, "console", "operator")) == 1
        late = asyncio.create_task(write_alerts(other, found, "console", "operator"))
        await until(hands, lambda: is_waiting(hands))
    assert await late == []
    assert told(hands) == [("slo.breached", "intents", 1)]


def is_waiting(hands: Hands) -> bool:
    """Does somebody wait for a lock in this database?"""
    row = hands.admin.execute(
        "select exists (select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database())"
    ).fetchone()
    return bool(row and row[0])


async def test_a_breach_whose_transaction_ends_badly_is_told_by_the_next(hands: Hands, worker: Connection) -> None:
    fail_intents(hands, 10, 90)
    async with worker.transaction(force_rollback=True):
        assert await ALERTS.look(worker) == 1
    assert told(hands) == []
    assert await look(worker) == 1


@pytest.mark.lawless  # a post is made to be stuck, which the laws do not allow
async def test_posts_that_are_late_and_posts_that_are_stuck_are_told_of(hands: Hands, worker: Connection) -> None:
    hands.put_due("anna", "bo")
    hands.pass_time(HOURS)
    (lease, _) = await hands.hold(2)
    await hands.release(lease)
    hands.admin.execute("set session_replication_role = replica")
    hands.admin.execute(
        "update posts.posts set processing_since = duly.clock() - interval '16 min' where status = 'PROCESSING'"
    )
    hands.admin.execute("set session_replication_role = origin")
    assert await look(worker) == 2
    assert told(hands) == [("slo.breached", "lag", 1), ("slo.breached", "stuck", 1)]
    assert await hands.sweep() == 0
    hands.pass_time(2 * HOURS)
    assert await hands.sweep() == 1  # nothing is stuck any more
    assert await look(worker) == 1
    assert told(hands)[2:] == [("slo.recovered", "stuck", 1)]


async def test_workers_that_race_tell_once(hands: Hands, dsn: str) -> None:
    """Breach, an hour, recovery and breach again, with two workers that look as often as they can."""
    fail_intents(hands, 10, 90)
    async with AsyncExitStack() as stack:
        for _ in range(2):
            work = PostWork(Reader(), PACE, alerts=ALERTS)
            worker = Worker([work], Settings(DULY_STOP_SECONDS=5), dsn=dsn)  # type: ignore[call-arg]
            running = asyncio.create_task(worker.run())
            stack.push_async_callback(stopped, worker, running)
        await until(hands, lambda: len(told(hands)) == 1)
        before = looked_at(hands)
        hands.pass_time(HOURS)
        await until(hands, lambda: looked_at(hands) > before)
        assert told(hands) == [("slo.breached", "intents", 1)]
        hands.pass_time(31 * 24 * HOURS)
        await until(hands, lambda: len(told(hands)) == 2)
        fail_intents(hands, 10, 90)
        hands.pass_time(LOOK_SECONDS + 1)
        await until(hands, lambda: len(told(hands)) == 3)
    assert told(hands) == [
        ("slo.breached", "intents", 1),
        ("slo.recovered", "intents", 1),
        ("slo.breached", "intents", 2),
    ]


async def stopped(worker: Worker, running: "asyncio.Task[Any]") -> None:
    """Stop a worker politely."""
    worker.ask_to_stop()
    await running


def looked_at(hands: Hands) -> Any:
    """When somebody last looked."""
    row = hands.admin.execute("select min(looked_at) from posts.objectives").fetchone()
    assert row
    return row[0]


# Settings -------------------------------------------------------------------------------------------------------------


def test_who_is_told_is_said_by_the_settings() -> None:
    (work,) = works_of(Settings(DULY_ALERT_CHANNEL="apprise", DULY_ALERT_RECIPIENT="anna"), ["posts"])  # type: ignore[call-arg]
    assert isinstance(work, PostWork)
    assert work.alerts == Alerts("apprise", "anna")
    (plain,) = works_of(Settings(), ["posts"])
    assert isinstance(plain, PostWork)
    assert plain.alerts == Alerts("console", "operator")


def test_a_channel_that_goes_to_somebody_needs_somebody() -> None:
    with pytest.raises(ValueError, match="DULY_ALERT_CHANNEL=apprise needs somebody to tell"):
        Settings(DULY_ALERT_CHANNEL="apprise")  # type: ignore[call-arg]
