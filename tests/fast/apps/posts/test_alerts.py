"""A missed SLO alerts once, and again after it was met and missed anew, however many workers check."""

import asyncio
from typing import Any

import pytest

from duly.apps.posts.alerts import CHECK_SECONDS, Alerts, claim_objectives, write_alerts
from duly.apps.posts.slo import measure_objectives
from duly.apps.posts.work import PostWork
from duly.assembly import build_works
from duly.settings import Settings
from tests.fast.apps.posts.test_work import TUNING, Reader
from tests.support.actions import working
from tests.support.posts.actions import HOURS, Connection, PostActions

ALERTS = Alerts()


def alert_messages(posts: PostActions) -> list[tuple[str, str, int]]:
    """Every alert, in the order they were written: kind, promise, number."""
    query = (
        "select kind, payload ->> 'slo', (payload ->> 'breach')::int from duly.outbox where kind like 'slo.%'"
        " order by seq"
    )
    return posts.admin.execute(query).fetchall()


async def check_alerts(connection: Connection) -> int:
    """Check once, as a worker does."""
    async with connection.transaction():
        return await ALERTS.check(connection)


def fail_intents(posts: PostActions, failed: int, made: int) -> None:
    """Count these failed and successful requests in this minute."""
    posts.admin.execute(
        "insert into posts.intent_minutes (minute, outcome, intents)"
        " select date_trunc('minute', duly.clock(), 'UTC'), o, n"
        " from (values ('UNEXPECTED', %s::bigint), ('CREATED', %s::bigint)) as g (o, n) where n > 0"
        " on conflict (minute, outcome) do update set intents = excluded.intents + posts.intent_minutes.intents",
        [failed, made],
    )


async def test_objectives_that_are_met_are_not_reported(posts: PostActions, worker: Connection) -> None:
    fail_intents(posts, 0, 1000)
    assert await check_alerts(worker) == 0
    assert alert_messages(posts) == []


async def test_breach_is_reported_once_and_again_after_a_recovery(posts: PostActions, worker: Connection) -> None:
    fail_intents(posts, 10, 90)
    assert await check_alerts(worker) == 1
    assert alert_messages(posts) == [("slo.breached", "intents", 1)]
    for _ in range(3):  # still broken an hour later
        posts.advance_clock(HOURS)
        assert await check_alerts(worker) == 0
    posts.advance_clock(31 * 24 * HOURS)  # out of the window: kept again
    assert await check_alerts(worker) == 1
    posts.advance_clock(HOURS)
    assert await check_alerts(worker) == 0
    fail_intents(posts, 1, 9)
    posts.advance_clock(CHECK_SECONDS + 1)
    assert await check_alerts(worker) == 1
    assert alert_messages(posts) == [
        ("slo.breached", "intents", 1),
        ("slo.recovered", "intents", 1),
        ("slo.breached", "intents", 2),
    ]


async def test_alert_names_the_objective_and_its_figures(posts: PostActions, worker: Connection) -> None:
    fail_intents(posts, 10, 90)
    await check_alerts(worker)
    row = posts.admin.execute("select channel, recipient, status, payload from duly.outbox").fetchone()
    assert row
    channel, recipient, status, payload = row
    assert (channel, recipient, status) == ("console", "operator", "pending")
    assert payload["text"] == (
        "Objective breached: more than 99.5 % of intents succeed.\n"
        "Measured: 0.9, target: 0.995; 10 of 100 bad. See: duly slo"
    )
    assert (payload["slo"], payload["events"], payload["bad"]) == ("intents", 100, 10)
    assert payload["since"].endswith("Z")


async def test_objectives_are_checked_at_most_once_a_minute(posts: PostActions, worker: Connection) -> None:
    assert await check_alerts(worker) == 0
    fail_intents(posts, 10, 90)
    posts.advance_clock(CHECK_SECONDS / 2)
    assert await check_alerts(worker) == 0
    posts.advance_clock(CHECK_SECONDS)
    assert await check_alerts(worker) == 1


async def test_objectives_are_checked_after_the_clock_was_set_back(posts: PostActions, worker: Connection) -> None:
    await check_alerts(worker)
    posts.advance_clock(-24 * HOURS)
    fail_intents(posts, 10, 90)
    assert await check_alerts(worker) == 1


async def test_concurrent_workers_skip_objectives_that_another_one_checks(
    posts: PostActions, worker: Connection, other: Connection
) -> None:
    fail_intents(posts, 10, 90)
    async with worker.transaction():
        assert await claim_objectives(worker) == ["intents", "lag", "stuck"]
        assert await check_alerts(other) == 0  # without waiting
        await write_alerts(worker, await measure_objectives(worker), "console", "operator")
    assert await check_alerts(other) == 0
    assert alert_messages(posts) == [("slo.breached", "intents", 1)]


async def test_two_workers_that_find_the_same_breach_write_one_message(
    posts: PostActions, worker: Connection, other: Connection
) -> None:
    """Even if both checked at the same time: the number of the breach is the message's key."""
    fail_intents(posts, 10, 90)
    found = await measure_objectives(worker)
    async with worker.transaction():
        assert len(await write_alerts(worker, found, "console", "operator")) == 1
        late = asyncio.create_task(write_alerts(other, found, "console", "operator"))
        await posts.until(lambda: is_waiting(posts))
    assert await late == []
    assert alert_messages(posts) == [("slo.breached", "intents", 1)]


def is_waiting(posts: PostActions) -> bool:
    """Does a session wait for a lock in this database?"""
    row = posts.admin.execute(
        "select exists (select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database())"
    ).fetchone()
    return bool(row and row[0])


async def test_a_breach_whose_transaction_fails_is_reported_by_the_next_check(
    posts: PostActions, worker: Connection
) -> None:
    fail_intents(posts, 10, 90)
    async with worker.transaction(force_rollback=True):
        assert await ALERTS.check(worker) == 1
    assert alert_messages(posts) == []
    assert await check_alerts(worker) == 1


@pytest.mark.breaks_invariants  # a post is made to be stuck, which violates invariants
async def test_late_and_stuck_posts_are_reported(posts: PostActions, worker: Connection) -> None:
    posts.create_due("anna", "bo")
    posts.advance_clock(HOURS)
    (lease, _) = await posts.claim(2)
    await posts.release(lease)
    posts.admin.execute("set session_replication_role = replica")
    posts.admin.execute(
        "update posts.posts set processing_since = duly.clock() - interval '16 min' where status = 'PROCESSING'"
    )
    posts.admin.execute("set session_replication_role = origin")
    assert await check_alerts(worker) == 2
    assert alert_messages(posts) == [("slo.breached", "lag", 1), ("slo.breached", "stuck", 1)]
    assert await posts.sweep() == 0
    posts.advance_clock(2 * HOURS)
    assert await posts.sweep() == 1  # nothing is stuck any more
    assert await check_alerts(worker) == 1
    assert alert_messages(posts)[2:] == [("slo.recovered", "stuck", 1)]


async def test_racing_workers_report_each_breach_once(posts: PostActions, dsn: str) -> None:
    """Breach, an hour, recovery and breach again, with two workers that check as often as they can."""
    fail_intents(posts, 10, 90)
    one, another = (PostWork(Reader(), TUNING, alerts=ALERTS) for _ in range(2))
    async with working(dsn, one), working(dsn, another):
        await posts.until(lambda: len(alert_messages(posts)) == 1)
        before = last_checked_at(posts)
        posts.advance_clock(HOURS)
        await posts.until(lambda: last_checked_at(posts) > before)
        assert alert_messages(posts) == [("slo.breached", "intents", 1)]
        posts.advance_clock(31 * 24 * HOURS)
        await posts.until(lambda: len(alert_messages(posts)) == 2)
        fail_intents(posts, 10, 90)
        posts.advance_clock(CHECK_SECONDS + 1)
        await posts.until(lambda: len(alert_messages(posts)) == 3)
    assert alert_messages(posts) == [
        ("slo.breached", "intents", 1),
        ("slo.recovered", "intents", 1),
        ("slo.breached", "intents", 2),
    ]


def last_checked_at(posts: PostActions) -> Any:
    """Return when the SLO was last checked."""
    return posts.one("select min(checked_at) from posts.objectives")


# Settings -------------------------------------------------------------------------------------------------------------


def test_the_settings_name_the_recipient_of_alerts() -> None:
    (work,) = build_works(Settings(DULY_ALERT_CHANNEL="apprise", DULY_ALERT_RECIPIENT="anna"), ["posts"])  # type: ignore[call-arg]
    assert isinstance(work, PostWork)
    assert work.alerts == Alerts("apprise", "anna")
    (plain,) = build_works(Settings(), ["posts"])
    assert isinstance(plain, PostWork)
    assert plain.alerts == Alerts("console", "operator")


def test_alert_channel_to_a_user_requires_a_recipient() -> None:
    with pytest.raises(ValueError, match="DULY_ALERT_CHANNEL=apprise needs a recipient"):
        Settings(DULY_ALERT_CHANNEL="apprise")  # type: ignore[call-arg]
