"""The context of a handler: fenced transactions, completing the job in one, progress."""

from typing import Any

import psycopg
import pytest

from duly.db.pool import open_pool
from duly.errors import LeaseLost
from duly.jobs.work import JobWork
from duly.lease.work import Tuning
from duly.settings import Settings
from duly.worker.runner import Worker
from tests.fast.jobs.test_context import Admin, claimed_context, worker_dsn
from tests.support.jobs.actions import ORG, OTHER_ORG, JobActions
from tests.support.shop import app

__all__ = ["worker_dsn"]
TUNING = Tuning(poll_seconds=0.1, sweep_seconds=1)


async def work_once(dsn: str, times: int = 1) -> None:
    """Run some cycles of a worker."""
    for _ in range(times):
        await Worker([JobWork(app.handlers(), TUNING)], Settings(), dsn=dsn).run(once=True)


def read_book(admin: Admin) -> list[Any]:
    """Return the rows that handlers wrote."""
    return admin.execute("select job, who, org from shop.book").fetchall()


# Transactions ---------------------------------------------------------------------------------------------------------

BOTH = pytest.mark.parametrize("job_type", ["bill", "bill_plainly"])


@BOTH
async def test_the_writes_of_a_handler_and_the_completion_of_its_job_are_one_transaction(
    jobs: JobActions, worker_dsn: str, job_type: str
) -> None:
    (job,) = jobs.enqueue(job_type)
    await work_once(worker_dsn)
    assert jobs.columns("status", "starts", "result") == [("succeeded", 1, {"then": ""})]
    assert read_book(jobs.admin) == [(job, "duly_api", str(ORG))]
    assert jobs.path(job) == ["queued", "running", "succeeded"]
    jobs.verify()


@BOTH
async def test_a_failure_inside_the_transaction_rolls_back_and_the_job_is_retried(
    jobs: JobActions, worker_dsn: str, job_type: str
) -> None:
    jobs.enqueue(job_type, payload={"then": "inside"}, max_attempts=2, backoff_policy="none")
    await work_once(worker_dsn, times=2)
    assert jobs.columns("status", "starts", "last_error_message") == [("dead_letter", 2, "Oops: inside")]
    assert read_book(jobs.admin) == []


@BOTH
async def test_a_failure_after_the_completing_commit_changes_nothing(
    jobs: JobActions, worker_dsn: str, job_type: str
) -> None:
    jobs.enqueue(job_type, payload={"then": "after"})
    await work_once(worker_dsn)
    assert jobs.columns("status", "result", "last_error_code") == [("succeeded", {"then": "after"}, None)]
    assert len(read_book(jobs.admin)) == 1


@BOTH
async def test_a_completion_that_was_rolled_back_is_ignored(jobs: JobActions, worker_dsn: str, job_type: str) -> None:
    jobs.enqueue(job_type, payload={"then": "savepoint"})
    await work_once(worker_dsn)
    assert jobs.columns("status", "result") == [("succeeded", "returned")]


@BOTH
async def test_completing_a_job_twice_has_the_effect_of_once(jobs: JobActions, worker_dsn: str, job_type: str) -> None:
    (job,) = jobs.enqueue(job_type, payload={"then": "twice"})
    await work_once(worker_dsn)
    assert jobs.columns("status", "result") == [("succeeded", {"then": "twice"})]
    assert jobs.path(job) == ["queued", "running", "succeeded"]


async def test_a_job_enqueued_by_a_handler_has_its_org_and_commits_with_it(jobs: JobActions, worker_dsn: str) -> None:
    jobs.enqueue("order", payload={"name": "anna"})
    await work_once(worker_dsn)
    assert sorted(jobs.columns("type", "status", "org_id")) == [("greet", "queued", ORG), ("order", "succeeded", ORG)]


async def test_the_transaction_of_a_handler_cannot_read_or_write_another_org(jobs: JobActions, worker_dsn: str) -> None:
    jobs.enqueue(org=OTHER_ORG)
    jobs.enqueue()
    jobs.admin.execute("update ledger.job set priority = 9 where org_id = %s", [ORG])
    async with claimed_context(jobs, worker_dsn) as ctx:
        assert ctx.org_id == ORG
        async with ctx.transaction() as tx:
            assert await (await tx.execute("select org_id from ledger.job")).fetchall() == [(ORG,)]
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                async with tx.transaction():
                    await tx.execute("select ledger.enqueue(%s, 'work')", [OTHER_ORG])
        async with open_pool(worker_dsn, idle=0) as pool, pool.transaction() as tx:
            left = await (
                await tx.execute("select current_user, current_setting('app.current_org_id', true)")
            ).fetchone()
            assert left in (("duly_worker", ""), ("duly_worker", None))


@pytest.mark.parametrize("lose", ["cancel", "expire"])
async def test_a_handler_whose_lease_is_lost_gets_no_transaction(jobs: JobActions, worker_dsn: str, lose: str) -> None:
    (job,) = jobs.enqueue()
    async with claimed_context(jobs, worker_dsn) as ctx:
        if lose == "cancel":
            jobs.admin.execute("update ledger.job set status = 'canceled', lease_owner = null, lease_expires_at = null")
        else:
            jobs.advance_clock(61)
            assert await jobs.sweep() == 1
        with pytest.raises(LeaseLost, match=str(job)):
            async with ctx.transaction():
                pytest.fail("it was let in")
        with pytest.raises(LeaseLost):
            await ctx.progress("on")


async def test_an_isolated_handler_that_opens_a_transaction_fails_as_misconfigured(
    jobs: JobActions, worker_dsn: str
) -> None:
    jobs.enqueue("alone", payload={"how": "transaction"}, max_attempts=1)
    await work_once(worker_dsn)
    ((code, message),) = jobs.columns("last_error_code", "last_error_message")
    assert code == "MISCONFIGURED"
    assert "isolate" in message


# Progress -------------------------------------------------------------------------------------------------------------


async def test_progress_is_written_to_the_row_and_logged_at_limited_frequency(
    jobs: JobActions, worker_dsn: str
) -> None:
    (job,) = jobs.enqueue("climb", payload={"steps": 50})
    await work_once(worker_dsn)
    assert jobs.columns("status", "stage", "progress") == [("succeeded", "climbing", 100)]
    progress_events = [detail for before, after, detail in jobs.events(job) if before == after == "running"]
    assert progress_events[0] == {"stage": "climbing", "progress": 2}
    assert 1 <= len(progress_events) < 25
    assert jobs.events(job)[-1] == ("running", "succeeded", {"stage": "climbing", "progress": 100})
    jobs.verify()


async def test_a_sync_handler_reports_progress_without_await(jobs: JobActions, worker_dsn: str) -> None:
    (job,) = jobs.enqueue("climb_plainly")
    await work_once(worker_dsn)
    progress_details = [detail for _, _, detail in jobs.events(job)[2:]]
    assert (progress_details[0], progress_details[-1]) == (
        {"stage": "packing", "progress": 10},
        {"stage": "walking", "progress": 10},
    )
