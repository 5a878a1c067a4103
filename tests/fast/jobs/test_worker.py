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


async def test_a_job_that_its_handler_ended_itself_is_counted_as_done(jobs: JobActions, dsn: str) -> None:
    jobs.enqueue("order", payload={"name": "Anna"})
    async with working(dsn, job_work()) as worker:
        await jobs.until(lambda: len(jobs.columns("status")) == 2 and all_finished(jobs))
    assert jobs.columns("type", "status") == [("order", "succeeded"), ("greet", "succeeded")]
    told = worker.metrics.registry.get_sample_value("duly_settled_total", {"work_type": "ledger", "outcome": "done"})
    assert told == 2


async def test_a_handler_that_takes_too_long_fails_with_its_own_code(jobs: JobActions, dsn: str) -> None:
    jobs.enqueue("slow", max_attempts=1)
    async with working(dsn, job_work()):
        await jobs.until(lambda: all_finished(jobs))
    assert jobs.columns("status", "last_error_code", "last_error_message") == [
        ("dead_letter", "TIMEOUT", "took longer than 0.2 s")
    ]


async def test_a_running_job_that_is_asked_to_stop_does_and_is_canceled(jobs: JobActions, dsn: str) -> None:
    (job,) = jobs.enqueue("patient")
    async with working(dsn, job_work()):
        await jobs.until(lambda: jobs.columns("stage") == ["waiting"])
        jobs.admin.execute("update ledger.job set cancel_requested_at = duly.clock()")
        await jobs.until(lambda: all_finished(jobs))
    assert jobs.path(job)[-1] == "canceled"
    jobs.verify()


async def test_limits_are_those_of_the_declarations(jobs: JobActions, dsn: str) -> None:
    jobs.admin.execute("insert into ledger.job_limit (type, max_running) values ('slow', 7)")
    async with working(dsn, job_work()) as worker:
        await jobs.until(lambda: worker.control.is_registered)
        query = "select type, max_running from ledger.job_limit where max_running is not null"
        limits = jobs.admin.execute(query).fetchall()
        kinds = jobs.admin.execute("select kinds from duly.workers").fetchone()
    assert limits == [("greet", 2)]
    assert kinds
    assert {"ledger", "ledger:default/greet", "ledger:default/alone"} <= set(kinds[0])


async def test_what_has_been_kept_long_enough_is_removed(jobs: JobActions, dsn: str) -> None:
    jobs.enqueue("greet", rows=3, retain_for="1 day")
    async with working(dsn, job_work()):
        await jobs.until(lambda: all_finished(jobs))
    jobs.advance_clock(86_400 + 60)
    jobs.enqueue("greet")
    async with working(dsn, job_work()):
        await jobs.until(lambda: jobs.columns("status") == ["succeeded"])
    assert jobs.admin.execute("select count(*) from ledger.job_event").fetchone() == (3,)
    jobs.verify()


async def test_types_and_queues_without_a_handler_are_left_alone(jobs: JobActions, dsn: str) -> None:
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
async def test_a_result_that_cannot_be_stored_ends_the_job_at_once_and_the_message_says_so(
    name: str, jobs: JobActions, dsn: str
) -> None:
    types = list(results.types)
    for job_type in types:
        jobs.enqueue(job_type, payload={"name": name}, backoff_policy="none")
    async with working(dsn, JobWork(results.handlers(), TUNING)):
        await jobs.until(lambda: all_finished(jobs))
    told = jobs.columns("status", "starts", "last_error_code")
    assert told == [("dead_letter", 1, "INVALID_RESULT")] * len(types)
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


async def test_a_handler_knows_how_often_it_said_later(jobs: JobActions, dsn: str) -> None:
    jobs.enqueue("patient")
    async with working(dsn, JobWork(snoozing.handlers(), TUNING)):
        await jobs.until(lambda: all_finished(jobs))
    assert jobs.columns("status", "starts", "snoozes", "result") == [("succeeded", 1, 2, 2)]
