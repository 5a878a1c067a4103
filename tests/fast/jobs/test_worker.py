"""Jobs in a running worker: every outcome of a handler is recorded, and other jobs are not affected."""

from datetime import UTC, datetime
from typing import Any

import pytest

from duly.app import App
from duly.canonical_json import MAX_BYTES
from duly.jobs.context import Context
from duly.jobs.work import JobWork
from duly.lease.work import Tuning
from duly.outcomes import Done, Later
from duly.settings import Settings
from duly.worker.runner import Worker
from tests.support.actions import working
from tests.support.jobs.actions import JobActions
from tests.support.shop import app

TUNING = Tuning(lease_seconds=30, heartbeat_seconds=0.2, poll_seconds=0.1, sweep_seconds=0.5)


def job_work(tuning: Tuning = TUNING) -> JobWork:
    """Return the work of a worker that performs the jobs of the shop."""
    return JobWork(app.handlers(), tuning)


def all_finished(jobs: JobActions) -> bool:
    return all(jobs.columns("finished_at"))


async def test_job_completed_by_its_handler_is_counted_as_done(jobs: JobActions, dsn: str) -> None:
    jobs.enqueue("order", payload={"name": "Anna"})
    async with working(dsn, job_work()) as worker:
        await jobs.until(lambda: len(jobs.columns("status")) == 2 and all_finished(jobs))
    assert jobs.columns("type", "status") == [("order", "succeeded"), ("greet", "succeeded")]
    settled = worker.metrics.registry.get_sample_value("duly_settled_total", {"work_type": "ledger", "outcome": "done"})
    assert settled == 2


async def test_handler_over_its_time_limit_fails_with_code_timeout(jobs: JobActions, dsn: str) -> None:
    jobs.enqueue("slow", max_attempts=1)
    async with working(dsn, job_work()):
        await jobs.until(lambda: all_finished(jobs))
    assert jobs.columns("status", "last_error_code", "last_error_message") == [
        ("dead_letter", "TIMEOUT", "took longer than 0.2 s")
    ]


async def test_running_job_with_a_cancel_request_stops_and_is_canceled(jobs: JobActions, dsn: str) -> None:
    (job,) = jobs.enqueue("patient")
    async with working(dsn, job_work()):
        await jobs.until(lambda: jobs.columns("stage") == ["waiting"])
        jobs.admin.execute("update ledger.job set cancel_requested_at = duly.clock()")
        await jobs.until(lambda: all_finished(jobs))
    assert jobs.path(job)[-1] == "canceled"
    jobs.verify()


async def test_worker_stores_the_concurrency_limits_of_the_declarations(jobs: JobActions, dsn: str) -> None:
    jobs.admin.execute("insert into ledger.job_limit (type, max_running) values ('slow', 7)")
    async with working(dsn, job_work()) as worker:
        await jobs.until(lambda: worker.control.is_registered)
        query = "select type, max_running from ledger.job_limit where max_running is not null"
        limits = jobs.admin.execute(query).fetchall()
        work_types = jobs.admin.execute("select work_types from duly.workers").fetchone()
    assert limits == [("greet", 2)]
    assert work_types
    assert {"ledger", "ledger:default/greet", "ledger:default/alone"} <= set(work_types[0])


async def test_worker_purges_jobs_whose_retention_is_over(jobs: JobActions, dsn: str) -> None:
    jobs.enqueue("greet", rows=3, retain_for="1 day")
    async with working(dsn, job_work()):
        await jobs.until(lambda: all_finished(jobs))
    jobs.advance_clock(86_400 + 60)
    jobs.enqueue("greet")
    async with working(dsn, job_work()):
        await jobs.until(lambda: jobs.columns("status") == ["succeeded"])
    assert jobs.admin.execute("select count(*) from ledger.job_event").fetchone() == (3,)
    jobs.verify()


async def test_worker_leaves_types_and_queues_without_a_handler_alone(jobs: JobActions, dsn: str) -> None:
    jobs.enqueue("unheard_of")
    jobs.enqueue("greet", queue="elsewhere")
    jobs.enqueue("greet")
    assert await Worker([job_work()], Settings(), dsn=dsn).run(once=True) == 1
    assert jobs.columns("type", "queue", "status") == [
        ("unheard_of", "default", "queued"),
        ("greet", "elsewhere", "queued"),
        ("greet", "default", "succeeded"),
    ]


RESULTS: dict[str, Any] = {
    "a time": {"when": datetime(2030, 1, 31, tzinfo=UTC)},
    "too long": {"when": "x" * MAX_BYTES},
    "too long as it is stored": {"when": [1] * (MAX_BYTES // 11)},
}
results = App()


@results.job("returns", backoff="none")
async def returns(ctx: Context, name: str) -> Any:
    """Return it as it is."""
    return RESULTS[name]


@results.job("says_done", backoff="none")
def says_done(ctx: Context, name: str) -> Done:
    """Return it as an outcome."""
    return Done(RESULTS[name])


@results.job("completes", backoff="none")
async def completes(ctx: Context, name: str) -> None:
    """Complete the job with it."""
    async with ctx.transaction() as tx:
        await ctx.complete(tx, RESULTS[name])


@results.job("completes_plainly", backoff="none")
def completes_plainly(ctx: Context, name: str) -> None:
    """Complete the job with it, in a sync handler."""
    with ctx.transaction() as tx:
        ctx.complete(tx, RESULTS[name])


@pytest.mark.parametrize("name", RESULTS)
async def test_unstorable_result_makes_the_job_a_dead_letter_with_the_reason(
    name: str, jobs: JobActions, dsn: str
) -> None:
    types = list(results.types)
    for job_type in types:
        jobs.enqueue(job_type, payload={"name": name}, backoff_policy="none")
    async with working(dsn, JobWork(results.handlers(), TUNING)):
        await jobs.until(lambda: all_finished(jobs))
    settled = jobs.columns("status", "starts", "last_error_code")
    assert settled == [("dead_letter", 1, "INVALID_RESULT")] * len(types)
    messages: list[str] = jobs.columns("last_error_message")
    for message in messages:
        assert message.startswith("the handler's result cannot be stored: $")
        assert "store larger data elsewhere and return a reference" in message
    if name == "a time":
        reason = "$.when: datetime is not a JSON type; convert it first, for example with .isoformat()"
        assert all(reason in message for message in messages)


snoozing = App()


@snoozing.job("patient")
def patient(ctx: Context) -> Later | int:
    """Wait twice."""
    return Later(0) if ctx.snoozes < 2 else ctx.snoozes


async def test_context_counts_the_snoozes_of_a_job(jobs: JobActions, dsn: str) -> None:
    jobs.enqueue("patient")
    async with working(dsn, JobWork(snoozing.handlers(), TUNING)):
        await jobs.until(lambda: all_finished(jobs))
    assert jobs.columns("status", "starts", "snoozes", "result") == [("succeeded", 1, 2, 2)]
