"""Settling jobs: only by their lease owner, once, and to the status that docs/decisions/0009 defines."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from duly.bounds import MAX_SNOOZES
from duly.jobs import repository
from duly.jobs.model import JobRequest
from duly.lease.operations import Lease
from tests.support.jobs.actions import LEASE, ORG, Admin, Connection, JobActions
from tests.support.jobs.insert_jobs import insert_jobs
from tests.support.locks import wait_until_blocked

Settle = Callable[[Connection, Sequence[Lease]], Awaitable[frozenset[UUID]]]
SETTLES: dict[str, Settle] = {
    "done": lambda connection, leases: repository.settle_done(connection, leases, ["well"] * len(leases)),
    "later": lambda connection, leases: repository.snooze(connection, leases, [5.0] * len(leases)),
    "released": repository.release_jobs,
    "cancelled": repository.settle_cancelled,
    "failed": lambda connection, leases: repository.settle_failed(
        connection, leases, ["A"] * len(leases), ["b"] * len(leases)
    ),
    "gave_up": lambda connection, leases: repository.settle_failed(
        connection, leases, ["A"] * len(leases), ["b"] * len(leases), give_up=True
    ),
}
ENDS = {
    "done": ["succeeded"],
    "later": ["queued"],
    "released": ["queued"],
    "cancelled": ["canceled"],
    "failed": ["failed", "queued"],
    "gave_up": ["failed", "dead_letter"],
}


@pytest.fixture(params=SETTLES)
def name(request: pytest.FixtureRequest) -> str:
    """Each way to settle or release."""
    return request.param


async def settle_as(connection: Connection, name: str, leases: Sequence[Lease]) -> frozenset[UUID]:
    """Settle, in one transaction."""
    async with connection.transaction():
        return await SETTLES[name](connection, leases)


async def test_each_outcome_moves_the_job_to_its_state_and_ends_the_lease(name: str, jobs: JobActions) -> None:
    (key,) = jobs.enqueue()
    (lease,) = await jobs.claim()
    assert await settle_as(jobs.worker, name, [lease]) == {key}
    assert jobs.path(key) == ["queued", "running", *ENDS[name]]
    finished = ENDS[name][-1] in {"succeeded", "canceled", "dead_letter"}
    assert jobs.columns("lease_owner", "lease_expires_at", "settled_by") == [(None, None, lease.owner)]
    (ends,) = jobs.columns("finished_at", "retain_until", "updated_at")
    assert ends == ((ends[2], ends[2] + timedelta(days=30), ends[2]) if finished else (None, None, ends[2]))
    jobs.verify()


async def test_settle_repeated_after_a_lost_reply_succeeds_and_is_applied_once(
    name: str, jobs: JobActions, other: Connection
) -> None:
    jobs.enqueue(rows=3)
    leases = await jobs.claim(limit=3)
    keys = {lease.key for lease in leases}
    assert await settle_as(jobs.worker, name, leases) == keys
    before = jobs.columns("revision", "starts", "snoozes", "run_at")
    assert await settle_as(other, name, leases[::-1]) == keys
    assert jobs.columns("revision", "starts", "snoozes", "run_at") == before


async def test_settle_with_an_expired_lease_changes_nothing(name: str, jobs: JobActions) -> None:
    (key,) = jobs.enqueue()
    (old,) = await jobs.claim()
    jobs.advance_clock(LEASE + 1)
    assert await jobs.sweep() == 1
    assert await settle_as(jobs.worker, name, [old]) == frozenset()
    jobs.advance_clock(3600)
    (new,) = await jobs.claim()
    assert await settle_as(jobs.worker, name, [old]) == frozenset()
    assert (new.key, new.row["attempt"], new.row["starts"]) == (key, 1, 2)
    await repository.settle_done(jobs.worker, [new], [None])
    assert await settle_as(jobs.worker, name, [old]) == frozenset()
    assert jobs.columns("status") == ["succeeded"]
    jobs.verify()


async def test_two_concurrent_settles_of_one_batch_succeed_and_are_applied_once(
    name: str, jobs: JobActions, other: Connection, database: str
) -> None:
    jobs.enqueue(rows=20)
    leases = await jobs.claim(limit=20)
    async with jobs.worker.transaction():
        first = await SETTLES[name](jobs.worker, leases)
        waiting = asyncio.create_task(settle_as(other, name, leases[::-1]))
        await asyncio.to_thread(wait_until_blocked, database)
    assert await waiting == first == {lease.key for lease in leases}
    assert set(jobs.columns("revision")) == {2 + len(ENDS[name])}


async def test_settle_of_an_empty_batch_does_nothing(name: str, jobs: JobActions) -> None:
    assert await settle_as(jobs.worker, name, []) == frozenset()


async def test_settle_done_stores_the_result_and_clears_the_last_error(jobs: JobActions) -> None:
    jobs.enqueue(backoff_policy="none")
    await jobs.fail(*await jobs.claim())
    assert jobs.columns("last_error_code", "last_error_message") == [("OOPS", "because")]
    await repository.settle_done(jobs.worker, await jobs.claim(), [{"answer": [42, None]}])
    assert jobs.columns("result", "last_error_code", "last_error_message") == [({"answer": [42, None]}, None, None)]


async def test_failure_writes_two_events_with_error_and_actor(jobs: JobActions) -> None:
    (key,) = jobs.enqueue(backoff_policy="fixed", backoff_base_seconds=2.0)
    (lease,) = await jobs.claim()
    await jobs.fail(lease)
    assert jobs.events(key)[2:] == [
        ("running", "failed", {"actor": lease.owner, "code": "OOPS", "message": "because"}),
        ("failed", "queued", {"reason": "retry", "wait_seconds": 2.0}),
    ]


async def test_only_the_lease_owner_can_retry_a_failed_job(jobs: JobActions, other: Connection, admin: Admin) -> None:
    (key,) = jobs.enqueue()
    (lease,) = await jobs.claim()
    async with jobs.worker.transaction():
        await repository.mark_failed(jobs.worker, [lease], ["A"], ["b"])
        assert await repository.retry_or_dead_letter(jobs.worker, [(key, "another/token")]) == 0
        assert await repository.retry_or_dead_letter(jobs.worker, [(key, lease.owner)]) == 1
    assert jobs.columns("status") == ["queued"]


async def test_max_attempts_limits_the_starts_of_a_job(jobs: JobActions) -> None:
    (key,) = jobs.enqueue(max_attempts=3, backoff_policy="none")
    attempts: list[int] = []
    while leases := await jobs.claim():
        attempts += [lease.row["attempt"] for lease in leases]
        await jobs.fail(*leases)
    assert attempts == [0, 1, 2]
    assert jobs.columns("status", "starts", "attempt") == [("dead_letter", 3, 2)]
    assert jobs.events(key)[-1] == ("failed", "dead_letter", {"reason": "exhausted", "starts": 3})
    jobs.verify()


async def test_expired_lease_counts_as_a_crashed_attempt(jobs: JobActions) -> None:
    (key,) = jobs.enqueue(max_attempts=2, backoff_policy="none")
    for _ in range(2):
        await jobs.claim()
        assert await jobs.sweep() == 0
        jobs.advance_clock(LEASE + 1)
        assert await jobs.sweep() == 1
    assert jobs.path(key) == ["queued", "running", "failed", "queued", "running", "failed", "dead_letter"]
    assert jobs.columns("status", "last_error_code", "starts") == [("dead_letter", "CRASHED", 2)]
    jobs.verify()


async def test_sweep_is_limited_skips_locked_jobs_and_accepts_keys(jobs: JobActions, other: Connection) -> None:
    jobs.enqueue(rows=5, backoff_policy="none")
    leases = await jobs.claim(limit=5)
    jobs.advance_clock(LEASE + 1)
    locked, chosen, *_ = (lease.key for lease in leases)
    async with other.transaction():
        await other.execute("select from ledger.job where id = %s for update", [locked])
        assert await jobs.sweep(keys=[chosen]) == 1
        assert await jobs.sweep(limit=2) == 2
        assert await jobs.sweep() == 1
    assert await jobs.sweep() == 1


@pytest.mark.breaks_invariants
@pytest.mark.parametrize(("policy", "least", "limit"), [("none", 0.0, 0.0), ("fixed", 3.0, 3.0), ("exp", 19.2, 28.8)])
async def test_retry_delay_follows_the_backoff_policy(
    policy: str, least: float, limit: float, jobs: JobActions
) -> None:
    """After the fourth start (attempt 3), base 3: exp waits 3 * 2^3 s, plus or minus a fifth."""
    jobs.enqueue(rows=60, backoff_policy=policy, backoff_base_seconds=3.0)
    jobs.admin.execute("update ledger.job set starts = 3, attempt = 2")
    await jobs.fail(*await jobs.claim(limit=60))
    waits = [(run_at - updated_at).total_seconds() for run_at, updated_at in jobs.columns("run_at", "updated_at")]
    assert all(least - 0.1 <= wait <= limit + 0.1 for wait in waits)
    if policy == "exp":  # they spread over the whole range
        assert min(waits) < 22
        assert max(waits) > 26


@pytest.mark.breaks_invariants
async def test_retry_delay_is_capped(jobs: JobActions) -> None:
    jobs.enqueue(rows=40, backoff_base_seconds=1.0, backoff_cap_seconds=5.0, max_attempts=1000)
    jobs.admin.execute("update ledger.job set starts = 900, attempt = 899")
    await jobs.fail(*await jobs.claim(limit=40))
    waits = [(run_at - updated_at).total_seconds() for run_at, updated_at in jobs.columns("run_at", "updated_at")]
    assert 4.0 <= min(waits) < 5.0 < max(waits) <= 6.0


async def test_snooze_returns_the_start_and_has_its_own_limit(jobs: JobActions) -> None:
    (key,) = jobs.enqueue(max_attempts=1)
    (lease,) = await jobs.claim()
    assert await settle_as(jobs.worker, "later", [lease]) == {key}
    assert jobs.columns("status", "starts", "attempt", "snoozes") == [("queued", 0, 0, 1)]
    assert jobs.events(key)[-1] == ("running", "queued", {"actor": lease.owner, "reason": "later", "seconds": 5.0})
    assert await jobs.claim() == []
    jobs.advance_clock(6)
    jobs.admin.execute("update ledger.job set snoozes = %s", [MAX_SNOOZES])
    (lease,) = await jobs.claim()
    assert await settle_as(jobs.worker, "later", [lease]) == {key}
    assert jobs.columns("status", "last_error_code") == [("dead_letter", "TOO_MANY_SNOOZES")]
    jobs.verify()


async def test_release_keeps_run_at_and_returns_the_start(jobs: JobActions) -> None:
    (key,) = jobs.enqueue()
    due = jobs.columns("run_at")
    (lease,) = await jobs.claim()
    await repository.release_jobs(jobs.worker, [lease])
    assert jobs.columns("run_at") == due
    assert jobs.columns("starts") == [0]
    assert jobs.events(key)[-1] == ("running", "queued", {"actor": lease.owner, "reason": "released"})
    assert len(await jobs.claim()) == 1


@pytest.mark.parametrize("name", ["later", "released", "failed", "gave_up"])
async def test_job_with_a_cancel_request_is_never_queued_again(name: str, jobs: JobActions) -> None:
    (key,) = jobs.enqueue()
    (lease,) = await jobs.claim()
    assert await jobs.steer(repository.cancel_job, lease.row["org_id"], key, "anna") == "running"
    assert await settle_as(jobs.worker, name, [lease]) == {key}
    assert jobs.path(key) == ["queued", "running", "running", "canceled"]
    jobs.verify()


async def test_error_message_is_truncated_and_cleaned(jobs: JobActions) -> None:
    jobs.enqueue()
    await jobs.fail(*await jobs.claim(), message="\0" + "x" * 3000)
    (message,) = jobs.columns("last_error_message")
    assert (len(message), message[:2]) == (2048, "\N{REPLACEMENT CHARACTER}x")


async def test_invalid_error_code_is_refused(jobs: JobActions) -> None:
    jobs.enqueue()
    leases = await jobs.claim()
    with pytest.raises(psycopg.errors.CheckViolation, match="ck_job__last_error"):
        await jobs.fail(*leases, code="not a code")
    assert jobs.columns("status") == ["running"]


async def test_started_at_is_the_first_start_and_updated_at_is_set_by_the_database(jobs: JobActions) -> None:
    jobs.enqueue(backoff_policy="none")
    await jobs.claim()
    ((started, updated),) = jobs.columns("started_at", "updated_at")
    assert started == updated
    jobs.advance_clock(LEASE + 1)
    await jobs.sweep()
    jobs.advance_clock(3600)
    await jobs.claim()
    assert jobs.columns("started_at") == [started]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        await jobs.worker.execute("update ledger.job set updated_at = '2001-01-01Z'")
    jobs.admin.execute("update ledger.job set updated_at = '2001-01-01Z'")
    assert jobs.columns("updated_at")[0] > started


async def progress(jobs: JobActions, lease: Lease, stage: str | None, percent: int | None) -> None:
    """Record progress."""
    assert await repository.record_progress(jobs.worker, lease, stage, percent)


async def test_progress_is_logged_as_an_event_at_most_once_a_second(jobs: JobActions) -> None:
    (key,) = jobs.enqueue()
    (lease,) = await jobs.claim()
    for percent in (1, 2, 3):
        await progress(jobs, lease, "reading", percent)
    jobs.advance_clock(1.1)
    await progress(jobs, lease, None, 4)
    await progress(jobs, lease, "writing", 5)
    await progress(jobs, lease, None, 99)
    for _ in range(2):
        await progress(jobs, lease, None, 100)
    moves = [(before, after, detail) for before, after, detail in jobs.events(key)[2:]]
    assert moves == [
        ("running", "running", {"stage": "reading", "progress": 1}),
        ("running", "running", {"stage": "reading", "progress": 4}),
    ]
    assert jobs.columns("stage", "progress") == [("writing", 100)]
    await repository.settle_done(jobs.worker, [lease], [None])
    assert jobs.events(key)[-1] == ("running", "succeeded", {"stage": "writing", "progress": 100})
    assert not await repository.record_progress(jobs.worker, lease, "too late", 1)
    jobs.verify()


async def test_unchanged_progress_is_logged_as_progress_and_not_as_a_claim(jobs: JobActions) -> None:
    (key,) = jobs.enqueue()
    (lease,) = await jobs.claim()
    for _ in range(3):
        await progress(jobs, lease, "reading", 40)
        jobs.advance_clock(1.1)
    reported = ("running", "running", {"stage": "reading", "progress": 40})
    assert jobs.events(key)[2:] == [reported, reported, reported]
    jobs.verify()


@pytest.mark.breaks_invariants
async def test_frequent_stage_changes_write_one_event_a_second(jobs: JobActions) -> None:
    (key,) = jobs.enqueue()
    (lease,) = await jobs.claim()
    for second in range(3):
        for row in range(10):
            await progress(jobs, lease, f"row {10 * second + row}", None)
        jobs.advance_clock(1.1)
    assert [detail["stage"] for _, _, detail in jobs.events(key)[2:]] == ["row 0", "row 10", "row 20"]
    await jobs.fail(lease, code="OOPS", message="because")
    error = {"actor": lease.owner, "code": "OOPS", "message": "because"}
    assert jobs.events(key)[-2] == ("running", "failed", {**error, "stage": "row 29"})


async def test_progress_is_logged_after_the_clock_was_set_back(jobs: JobActions) -> None:
    (key,) = jobs.enqueue()
    (lease,) = await jobs.claim()
    await progress(jobs, lease, "reading", 1)
    jobs.advance_clock(-3600)
    for percent in (2, 3):
        await progress(jobs, lease, "reading", percent)
    assert [detail["progress"] for _, _, detail in jobs.events(key)[2:]] == [1, 2]


async def test_new_claim_clears_stage_and_progress(jobs: JobActions) -> None:
    jobs.enqueue()
    (lease,) = await jobs.claim()
    await progress(jobs, lease, "reading", 50)
    await repository.release_jobs(jobs.worker, [lease])
    await jobs.claim()
    assert jobs.columns("stage", "progress") == [(None, None)]


@pytest.mark.parametrize(("stage", "percent"), [("x" * 201, 1), ("", 1), (None, 101), (None, -1)])
async def test_invalid_progress_is_refused(stage: str | None, percent: int, jobs: JobActions) -> None:
    jobs.enqueue()
    (lease,) = await jobs.claim()
    with pytest.raises(psycopg.errors.CheckViolation, match="ck_job__progress"):
        await repository.record_progress(jobs.worker, lease, stage, percent)


def test_event_detail_applies_to_one_transition_only(jobs: JobActions, admin: Admin) -> None:
    (key,) = jobs.enqueue(requested_by="anna")
    admin.execute("update ledger.job set status = 'canceled'")
    assert [detail for _, _, detail in jobs.events(key)] == [{"requested_by": "anna"}, None]
    admin.execute("update ledger.job set event_detail = '{}'")
    assert jobs.columns("event_detail") == [None]


async def test_settle_done_settles_batches_of_any_size_completely(jobs: JobActions, worker: Connection) -> None:
    await insert_jobs(worker, JobRequest(ORG, "work"), [{"n": n} for n in range(2000)])
    leases = await jobs.claim(limit=2000)
    sizes: list[Any] = [1, 2, 7, 490, 1500]
    for size in sizes:
        batch, leases = leases[:size], leases[size:]
        assert await repository.settle_done(worker, batch, [None] * size) == {lease.key for lease in batch}
    assert jobs.columns("status") == ["succeeded"] * 2000
    jobs.verify()
