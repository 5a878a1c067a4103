"""A handler that is asked to stop: at a shutdown its job is released, after a cancel request it is canceled."""

import asyncio
import json
from collections.abc import Generator
from datetime import UTC, datetime
from typing import Any

import pytest

from duly.jobs.work import JobWork
from duly.lease.work import Tuning
from tests.support.actions import working
from tests.support.failing_handlers import MAY_RETURN, STARTED, app
from tests.support.jobs.actions import JobActions
from tests.support.outbox.log_capture import capture_log_lines

TUNING = Tuning(lease_seconds=30, heartbeat_seconds=0.05, poll_seconds=0.1, sweep_seconds=0.5)
WAIT_SECONDS = 30.0
CANCEL = "update ledger.job set cancel_requested_at = duly.clock()"
SYNC_AND_ASYNC = pytest.mark.parametrize("job_type", ["reindex", "reindex_async"])


@pytest.fixture(autouse=True)
def gates() -> Generator[None, None, None]:
    """Reset the events with which handlers signal their start and wait for the test."""
    STARTED.clear()
    MAY_RETURN.set()
    yield
    MAY_RETURN.set()


async def wait_until_started() -> None:
    """Wait until the handler has started."""
    assert await asyncio.to_thread(STARTED.wait, WAIT_SECONDS)


async def stop_while_it_runs(jobs: JobActions, dsn: str, job_type: str, **payload: str) -> list[Any]:
    """Stop a worker while its handler runs; return the job's state afterwards."""
    jobs.enqueue(job_type, payload=payload)
    async with working(dsn, JobWork(app.handlers(), TUNING), stop_seconds=0):
        await wait_until_started()
    return jobs.columns("status", "starts", "result", "last_error_code")


@SYNC_AND_ASYNC
async def test_value_returned_after_the_stop_signal_at_shutdown_releases_the_job(
    jobs: JobActions, dsn: str, job_type: str
) -> None:
    assert await stop_while_it_runs(jobs, dsn, job_type) == [("queued", 0, None, None)]
    jobs.verify()


@SYNC_AND_ASYNC
async def test_done_returned_after_the_stop_signal_at_shutdown_succeeds(
    jobs: JobActions, dsn: str, job_type: str
) -> None:
    assert await stop_while_it_runs(jobs, dsn, job_type, then="done") == [("succeeded", 1, 60, None)]


@pytest.mark.parametrize(
    ("job_type", "then"), [("reindex", "stopped"), ("reindex", "raise_stopped"), ("reindex_async", "stopped")]
)
async def test_stopped_returned_at_shutdown_returns_the_start(
    jobs: JobActions, dsn: str, job_type: str, then: str
) -> None:
    assert await stop_while_it_runs(jobs, dsn, job_type, then=then) == [("queued", 0, None, None)]


@SYNC_AND_ASYNC
async def test_exception_after_the_stop_signal_at_shutdown_releases_the_job(
    jobs: JobActions, dsn: str, job_type: str
) -> None:
    assert await stop_while_it_runs(jobs, dsn, job_type, then="raise") == [("queued", 0, None, None)]


async def cancel_while_it_runs(jobs: JobActions, dsn: str, job_type: str, **payload: str) -> list[Any]:
    """Cancel a job while its handler runs; return its state afterwards."""
    jobs.enqueue(job_type, payload=payload)
    async with working(dsn, JobWork(app.handlers(), TUNING)):
        await wait_until_started()
        jobs.admin.execute(CANCEL)
        await jobs.until(lambda: all(jobs.columns("finished_at")))
    return jobs.columns("status", "starts", "result")


@SYNC_AND_ASYNC
@pytest.mark.parametrize("then", ["value", "stopped", "raise"])
async def test_handler_that_stops_after_a_cancel_request_is_canceled(
    jobs: JobActions, dsn: str, job_type: str, then: str
) -> None:
    assert await cancel_while_it_runs(jobs, dsn, job_type, then=then) == [("canceled", 1, None)]
    jobs.verify()


@SYNC_AND_ASYNC
async def test_handler_that_returns_done_after_a_cancel_request_succeeds(
    jobs: JobActions, dsn: str, job_type: str
) -> None:
    assert await cancel_while_it_runs(jobs, dsn, job_type, then="done") == [("succeeded", 1, 60)]


async def test_cancel_request_during_worker_shutdown_is_honoured(jobs: JobActions, dsn: str) -> None:
    MAY_RETURN.clear()
    jobs.enqueue("reindex")
    async with working(dsn, JobWork(app.handlers(), TUNING), stop_seconds=0) as worker:
        await wait_until_started()
        worker.request_stop()
        (running,) = worker.control.work_loops[0].held.rows
        await jobs.until(lambda: running.stop_signal.is_set)
        jobs.admin.execute(CANCEL)
        MAY_RETURN.set()
    assert jobs.columns("status", "result") == [("canceled", None)]
    jobs.verify()


async def test_cancel_request_during_the_shutdown_grace_period_stops_the_handler(jobs: JobActions, dsn: str) -> None:
    jobs.enqueue("reindex")
    async with working(dsn, JobWork(app.handlers(), TUNING), stop_seconds=WAIT_SECONDS) as worker:
        await wait_until_started()
        worker.request_stop()
        await jobs.until(worker.control.stop.is_set)
        jobs.admin.execute(CANCEL)
        await jobs.until(lambda: all(jobs.columns("finished_at")))
    assert jobs.columns("status", "result") == [("canceled", None)]


async def test_handler_that_stops_after_its_time_limit_has_timed_out(jobs: JobActions, dsn: str) -> None:
    jobs.enqueue("late_politely", max_attempts=1)
    async with working(dsn, JobWork(app.handlers(), TUNING)):
        await jobs.until(lambda: all(jobs.columns("finished_at")))
    assert jobs.columns("status", "last_error_code", "last_error_message") == [
        ("dead_letter", "TIMEOUT", "took longer than 0.1 s")
    ]


async def test_stopping_worker_logs_the_jobs_it_waits_for_and_how_to_end_it(jobs: JobActions, dsn: str) -> None:
    (job,) = jobs.enqueue("reindex")
    with capture_log_lines("info") as lines:
        async with working(dsn, JobWork(app.handlers(), TUNING), stop_seconds=WAIT_SECONDS) as worker:
            await wait_until_started()
            worker.request_stop()
            await jobs.until(lambda: "stopping" in lines.getvalue())
            worker.request_stop()
        (line,) = [json.loads(each) for each in lines.getvalue().splitlines() if "stopping" in each]
    assert "a second Ctrl-C or SIGTERM stops them now" in line["hint"]
    assert (line["rows"], line["seconds"], line["waiting_for"]) == (1, WAIT_SECONDS, [f"reindex {job}"])
    assert datetime.fromisoformat(line["until"]) > datetime.now(UTC)


async def test_handler_that_returns_stopped_without_a_stop_request_fails(jobs: JobActions, dsn: str) -> None:
    jobs.enqueue("stop_unasked", max_attempts=1)
    async with working(dsn, JobWork(app.handlers(), TUNING)):
        await jobs.until(lambda: all(jobs.columns("finished_at")))
    assert jobs.columns("status", "last_error_code") == [("dead_letter", "STOPPED")]
