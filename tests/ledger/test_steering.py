"""Cancel, retry, redrive, run now, retain: what people do to jobs, and what they find."""

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.kernel.lease import renew
from duly.ledger import store
from duly.ledger.model import DeadLetters, Status
from tests.ledger.hands import LEASE, ORG, OTHER_ORG, Admin, Connection, Hands


async def bury(hands: Hands, rows: int = 1, **options: str) -> None:
    """Put jobs and let them die."""
    hands.put(rows=rows, max_attempts=1, **options)
    leases = await hands.hold(most=rows)
    await hands.fail(*leases)


async def test_a_waiting_job_is_cancelled_at_once(hands: Hands) -> None:
    (key,) = hands.put()
    assert await store.cancel_job(hands.worker, ORG, key, "anna") == Status.CANCELED
    assert hands.log(key)[-1] == ("queued", "canceled", {"actor": "anna", "reason": "cancel_requested"})
    assert await hands.hold() == []
    hands.verify()


async def test_a_running_job_is_asked_to_stop_by_the_next_beat(hands: Hands) -> None:
    (key,) = hands.put()
    (lease,) = await hands.hold()
    assert await store.cancel_job(hands.worker, ORG, key, "anna") == Status.RUNNING
    assert await store.cancel_job(hands.worker, ORG, key, "bert") == Status.RUNNING
    assert (await renew(hands.worker, [lease], lease_seconds=LEASE)).cancelled == {(key, lease.owner)}
    assert await store.cancelled(hands.worker, [lease]) == {key}
    assert hands.log(key)[2:] == [
        ("running", "running", {"actor": "anna", "reason": "cancel_requested"}),
        ("running", "canceled", {"actor": lease.owner, "reason": "canceled"}),
    ]
    hands.verify()


async def test_a_job_that_is_done_before_it_stops_is_done(hands: Hands) -> None:
    (key,) = hands.put()
    (lease,) = await hands.hold()
    await store.cancel_job(hands.worker, ORG, key, "anna")
    assert await store.done(hands.worker, [lease], [None]) == {key}
    assert hands.look("status") == ["succeeded"]


async def test_now_means_at_once_and_the_holder_has_lost_it(hands: Hands) -> None:
    (key,) = hands.put()
    (lease,) = await hands.hold()
    assert await store.cancel_job(hands.worker, ORG, key, "anna", now=True) == Status.CANCELED
    assert (await renew(hands.worker, [lease], lease_seconds=LEASE)).lost == {(key, lease.owner)}
    assert await store.done(hands.worker, [lease], [None]) == frozenset()
    assert await store.cancelled(hands.worker, [lease]) == frozenset()
    hands.verify()


async def test_a_lapse_cancels_what_was_to_be_cancelled(hands: Hands) -> None:
    (key,) = hands.put()
    await hands.hold()
    await store.cancel_job(hands.worker, ORG, key, "anna")
    hands.pass_time(LEASE + 1)
    assert await hands.sweep() == 1
    assert hands.path(key) == ["queued", "running", "running", "canceled"]


async def test_what_has_ended_and_what_is_anothers_is_not_cancelled(hands: Hands) -> None:
    (key,) = hands.put()
    assert await store.cancel_job(hands.worker, OTHER_ORG, key, "anna") is None
    await store.cancel_job(hands.worker, ORG, key, "anna")
    for now in (False, True):
        assert await store.cancel_job(hands.worker, ORG, key, "anna", now=now) is None
    assert hands.look("status", "revision") == [("canceled", 2)]


async def test_a_dead_letter_is_redriven_as_though_it_were_new(hands: Hands) -> None:
    await bury(hands)
    (key,) = hands.look("id")
    assert not await store.retry_job(hands.worker, OTHER_ORG, key, "anna")
    assert await store.retry_job(hands.worker, ORG, key, "anna")
    assert not await store.retry_job(hands.worker, ORG, key, "anna")
    assert hands.look("status", "starts", "attempt", "finished_at", "retain_until") == [("queued", 0, 0, None, None)]
    assert hands.log(key)[-1] == ("dead_letter", "queued", {"actor": "anna", "reason": "redriven"})
    (lease,) = await hands.hold()
    await store.done(hands.worker, [lease], [None])
    hands.verify()


async def test_a_redrive_takes_what_matches_in_batches_after_a_count(hands: Hands) -> None:
    await bury(hands, rows=5)
    hands.put("other", max_attempts=1)
    which = DeadLetters(ORG, type="work", code="OOPS")
    assert await store.count_dead(hands.worker, which) == 5
    assert await store.count_dead(hands.worker, DeadLetters(ORG, code="TIMEOUT")) == 0
    assert await store.count_dead(hands.worker, DeadLetters(OTHER_ORG)) == 0
    (newest,) = sorted(hands.admin.execute("select max(finished_at) from ledger.job").fetchone() or ())
    assert await store.count_dead(hands.worker, DeadLetters(ORG, finished_before=newest)) == 4
    assert await store.count_dead(hands.worker, DeadLetters(ORG, finished_from=newest)) == 1
    taken = [len(await store.redrive(hands.worker, which, "anna", most=2)) for _ in range(4)]
    assert taken == [2, 2, 1, 0]
    assert hands.look("status") == ["queued"] * 6
    hands.verify()


@pytest.mark.parametrize("status", ["succeeded", "canceled", "dead_letter"])
async def test_finished_jobs_leave_with_their_events_when_their_time_is_over(status: str, hands: Hands) -> None:
    hands.put(rows=3, max_attempts=1)
    hands.put("waits")
    leases = await hands.hold(most=3)
    if status == "succeeded":
        await store.done(hands.worker, leases, [None] * 3)
    elif status == "canceled":
        await store.cancelled(hands.worker, leases)
    else:
        await hands.fail(*leases)
    hands.pass_time(30 * 86_400 - 60)
    assert await store.retain(hands.worker) == 0
    hands.pass_time(120)
    assert [await store.retain(hands.worker, most=2) for _ in range(3)] == [2, 1, 0]
    assert hands.look("type") == ["waits"]
    assert hands.admin.execute("select count(distinct job_id) from ledger.job_event").fetchone() == (1,)
    hands.verify()


async def test_a_job_keeps_the_time_it_was_given(hands: Hands) -> None:
    hands.put(retain_for="1 day")
    hands.put(retain_for="60 days")
    await store.done(hands.worker, leases := await hands.hold(most=2), [None] * len(leases))
    hands.pass_time(86_460)
    assert await store.retain(hands.worker) == 1
    hands.pass_time(58 * 86_400)
    assert await store.retain(hands.worker) == 0


@pytest.mark.parametrize("most", [0, 10_001, None])
async def test_retention_is_bounded(most: int | None, worker: Connection) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        await store.retain(worker, most)  # type: ignore[arg-type]


def test_a_log_leaves_by_no_other_way(hands: Hands, admin: Admin, api: Admin) -> None:
    hands.put()
    for statement in (
        b"delete from ledger.job_event",
        b"update ledger.job_event set seq = 2",
        b"truncate ledger.job_event",
        b"truncate ledger.job cascade",
        b"delete from ledger.job",
    ):
        with pytest.raises(psycopg.errors.RestrictViolation, match="append-only"):
            admin.execute(statement)
        for role in (Names().worker, Names().api, Names().readonly):
            with psycopg.connect(make_conninfo(admin.info.dsn, user=role), autocommit=True) as connection:
                connection.execute("set duly.retention = 'on'")
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement)
    insert = "insert into ledger.job_event (job_id, org_id, seq, prev_status, next_status) values (%s, %s, 9, 'a', 'b')"
    for role in (Names().worker, Names().api):
        with (
            psycopg.connect(make_conninfo(admin.info.dsn, user=role), autocommit=True) as connection,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            connection.execute(insert, [ORG, ORG])


async def test_jobs_and_events_are_listed_page_by_page(hands: Hands) -> None:
    keys = hands.put(rows=5)
    pages = [await store.list_jobs(hands.worker, ORG, most=2)]
    while pages[-1]:
        last = pages[-1][-1]
        pages.append(await store.list_jobs(hands.worker, ORG, before=(last.created_at, last.id), most=2))
    assert [job.id for page in pages for job in page] == keys[::-1]
    await store.cancel_job(hands.worker, ORG, keys[0], "anna")
    only = await store.list_jobs(hands.worker, ORG, status=Status.CANCELED, type="work", queue="default")
    assert [(job.id, job.is_finished) for job in only] == [(keys[0], True)]
    assert await store.list_jobs(hands.worker, OTHER_ORG) == []
    events = await store.list_events(hands.worker, ORG, keys[0])
    assert [event.next_status for event in events] == ["queued", "canceled"]
    assert [event.seq for event in await store.list_events(hands.worker, ORG, keys[0], after_seq=1)] == [2]
    assert await store.list_events(hands.worker, OTHER_ORG, keys[0]) == []
