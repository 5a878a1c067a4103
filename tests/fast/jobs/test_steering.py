"""Cancel, redrive, pause and purge, and what they return."""

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.jobs import repository
from duly.jobs.model import DeadLetterFilter, JobStatus
from duly.lease.operations import renew_leases
from tests.support.jobs.actions import LEASE, ORG, OTHER_ORG, Admin, Connection, JobActions


async def make_dead_letters(jobs: JobActions, rows: int = 1, **options: str) -> None:
    """Enqueue jobs and make each a dead letter."""
    jobs.enqueue(rows=rows, max_attempts=1, **options)
    leases = await jobs.claim(limit=rows)
    await jobs.fail(*leases)


async def test_queued_job_is_cancelled_at_once(jobs: JobActions) -> None:
    (key,) = jobs.enqueue()
    assert await jobs.steer(repository.cancel_job, ORG, key, "anna") == JobStatus.CANCELED
    assert jobs.events(key)[-1] == ("queued", "canceled", {"actor": "anna", "reason": "cancel_requested"})
    assert await jobs.claim() == []
    jobs.verify()


async def test_cancel_request_reaches_a_running_job_by_its_next_heartbeat(jobs: JobActions) -> None:
    (key,) = jobs.enqueue()
    (lease,) = await jobs.claim()
    assert await jobs.steer(repository.cancel_job, ORG, key, "anna") == JobStatus.RUNNING
    assert await jobs.steer(repository.cancel_job, ORG, key, "bert") == JobStatus.RUNNING
    assert (await renew_leases(jobs.worker, [lease], lease_seconds=LEASE)).cancelled == {(key, lease.owner)}
    assert await repository.settle_cancelled(jobs.worker, [lease]) == {key}
    assert jobs.events(key)[2:] == [
        ("running", "running", {"actor": "anna", "reason": "cancel_requested"}),
        ("running", "canceled", {"actor": lease.owner, "reason": "canceled"}),
    ]
    jobs.verify()


async def test_job_that_completes_before_it_is_cancelled_succeeds(jobs: JobActions) -> None:
    (key,) = jobs.enqueue()
    (lease,) = await jobs.claim()
    await jobs.steer(repository.cancel_job, ORG, key, "anna")
    assert await repository.settle_done(jobs.worker, [lease], [None]) == {key}
    assert jobs.columns("status") == ["succeeded"]


async def test_immediate_cancel_takes_the_lease_from_its_owner(jobs: JobActions) -> None:
    (key,) = jobs.enqueue()
    (lease,) = await jobs.claim()
    assert await jobs.steer(repository.cancel_job, ORG, key, "anna", now=True) == JobStatus.CANCELED
    assert (await renew_leases(jobs.worker, [lease], lease_seconds=LEASE)).lost == {(key, lease.owner)}
    assert await repository.settle_done(jobs.worker, [lease], [None]) == frozenset()
    assert await repository.settle_cancelled(jobs.worker, [lease]) == frozenset()
    jobs.verify()


async def test_expired_lease_cancels_a_job_with_a_cancel_request(jobs: JobActions) -> None:
    (key,) = jobs.enqueue()
    await jobs.claim()
    await jobs.steer(repository.cancel_job, ORG, key, "anna")
    jobs.advance_clock(LEASE + 1)
    assert await jobs.sweep() == 1
    assert jobs.path(key) == ["queued", "running", "running", "canceled"]


async def test_finished_jobs_and_jobs_of_other_orgs_are_not_cancelled(jobs: JobActions) -> None:
    (key,) = jobs.enqueue()
    assert await jobs.steer(repository.cancel_job, OTHER_ORG, key, "anna") is None
    await jobs.steer(repository.cancel_job, ORG, key, "anna")
    for now in (False, True):
        assert await jobs.steer(repository.cancel_job, ORG, key, "anna", now=now) is None
    assert jobs.columns("status", "revision") == [("canceled", 2)]


async def test_redriven_dead_letter_starts_like_a_new_job(jobs: JobActions) -> None:
    await make_dead_letters(jobs)
    (key,) = jobs.columns("id")
    assert not await jobs.steer(repository.redrive, OTHER_ORG, key, "anna")
    assert await jobs.steer(repository.redrive, ORG, key, "anna")
    assert not await jobs.steer(repository.redrive, ORG, key, "anna")
    assert jobs.columns("status", "starts", "attempt", "finished_at", "retain_until") == [("queued", 0, 0, None, None)]
    assert jobs.events(key)[-1] == ("dead_letter", "queued", {"actor": "anna", "reason": "redriven"})
    (lease,) = await jobs.claim()
    await repository.settle_done(jobs.worker, [lease], [None])
    jobs.verify()


async def test_redrive_many_puts_matching_dead_letters_back_in_batches(jobs: JobActions) -> None:
    await make_dead_letters(jobs, rows=5)
    jobs.enqueue("other", max_attempts=1)
    which = DeadLetterFilter(ORG, type="work", code="OOPS")
    assert await repository.count_dead_letters(jobs.worker, which) == 5
    assert await repository.count_dead_letters(jobs.worker, DeadLetterFilter(ORG, code="TIMEOUT")) == 0
    assert await repository.count_dead_letters(jobs.worker, DeadLetterFilter(OTHER_ORG)) == 0
    (newest,) = sorted(jobs.admin.execute("select max(finished_at) from ledger.job").fetchone() or ())
    assert await repository.count_dead_letters(jobs.worker, DeadLetterFilter(ORG, finished_before=newest)) == 4
    assert await repository.count_dead_letters(jobs.worker, DeadLetterFilter(ORG, finished_from=newest)) == 1
    counts = [len(await jobs.steer(repository.redrive_many, which, "anna", limit=2)) for _ in range(4)]
    assert counts == [2, 2, 1, 0]
    assert jobs.columns("status") == ["queued"] * 6
    jobs.verify()


async def test_redrive_from_any_language_notifies_the_workers(jobs: JobActions) -> None:
    await make_dead_letters(jobs, rows=2)
    jobs.admin.execute("listen duly_ledger")
    one = "select ledger.redrive(org_id, id) from ledger.job where status = 'dead_letter' limit 1"
    for call in (one, "select ledger.redrive_many(org_id, 1) from ledger.job limit 1"):
        jobs.admin.execute("select setval('duly.wake_ledger', 1)")  # as if this window was not notified yet
        with jobs.admin.transaction():
            jobs.admin.execute("select set_config('app.current_org_id', %s, true)", [str(ORG)])
            jobs.admin.execute(call)
        assert [each.channel for each in jobs.admin.notifies(timeout=20, stop_after=1)] == ["duly_ledger"]


@pytest.mark.parametrize("status", ["succeeded", "canceled", "dead_letter"])
async def test_purge_deletes_finished_jobs_and_their_events_after_retention(status: str, jobs: JobActions) -> None:
    jobs.enqueue(rows=3, max_attempts=1)
    jobs.enqueue("waits")
    leases = await jobs.claim(limit=3)
    if status == "succeeded":
        await repository.settle_done(jobs.worker, leases, [None] * 3)
    elif status == "canceled":
        await repository.settle_cancelled(jobs.worker, leases)
    else:
        await jobs.fail(*leases)
    jobs.advance_clock(30 * 86_400 - 60)
    assert await repository.purge(jobs.worker) == 0
    jobs.advance_clock(120)
    assert [await repository.purge(jobs.worker, limit=2) for _ in range(3)] == [2, 1, 0]
    assert jobs.columns("type") == ["waits"]
    assert jobs.admin.execute("select count(distinct job_id) from ledger.job_event").fetchone() == (1,)
    jobs.verify()


async def test_purge_respects_the_retention_of_each_job(jobs: JobActions) -> None:
    jobs.enqueue(retain_for="1 day")
    jobs.enqueue(retain_for="60 days")
    await repository.settle_done(jobs.worker, leases := await jobs.claim(limit=2), [None] * len(leases))
    jobs.advance_clock(86_460)
    assert await repository.purge(jobs.worker) == 1
    jobs.advance_clock(58 * 86_400)
    assert await repository.purge(jobs.worker) == 0


@pytest.mark.parametrize("limit", [0, 10_001, None])
async def test_purge_refuses_an_invalid_batch_size(limit: int | None, worker: Connection) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        await repository.purge(worker, limit)  # type: ignore[arg-type]


def test_job_events_are_append_only(jobs: JobActions, admin: Admin, api: Admin) -> None:
    jobs.enqueue()
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


async def test_jobs_and_events_are_listed_in_pages(jobs: JobActions) -> None:
    keys = jobs.enqueue(rows=5)
    pages = [await repository.list_jobs(jobs.worker, ORG, limit=2)]
    while pages[-1]:
        last = pages[-1][-1]
        pages.append(await repository.list_jobs(jobs.worker, ORG, before=(last.created_at, last.id), limit=2))
    assert [job.id for page in pages for job in page] == keys[::-1]
    await jobs.steer(repository.cancel_job, ORG, keys[0], "anna")
    only = await repository.list_jobs(jobs.worker, ORG, status=JobStatus.CANCELED, type="work", queue="default")
    assert [(job.id, job.is_finished) for job in only] == [(keys[0], True)]
    assert await repository.list_jobs(jobs.worker, OTHER_ORG) == []
    events = await repository.list_events(jobs.worker, ORG, keys[0])
    assert [event.next_status for event in events] == ["queued", "canceled"]
    assert [event.seq for event in await repository.list_events(jobs.worker, ORG, keys[0], after_seq=1)] == [2]
    assert await repository.list_events(jobs.worker, OTHER_ORG, keys[0]) == []
