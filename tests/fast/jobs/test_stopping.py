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
from tests.support.jobs.actions import JobActions
from tests.support.mishaps import BEGAN, GO_ON, app
from tests.support.outbox.log_capture import capture_log_lines

TUNING = Tuning(lease_seconds=30, heartbeat_seconds=0.05, poll_seconds=0.1, sweep_seconds=0.5)
WAIT_SECONDS = 30.0
CANCEL = "update ledger.job set cancel_requested_at = duly.clock()"
WAYS = pytest.mark.parametrize("job_type", ["reindex", "reindex_async"])


@pytest.fixture(autouse=True)
def gates() -> Generator[None, None, None]:
    """Reset the events with which handlers signal their start and wait for the test."""
    BEGAN.clear()
    GO_ON.set()
    yield
    GO_ON.set()


async def begin() -> None:
    """Wait until the handler has started."""
    assert await asyncio.to_thread(BEGAN.wait, WAIT_SECONDS)


async def stop_while_it_runs(jobs: JobActions, dsn: str, job_type: str, **payload: str) -> list[Any]:
    """Stop a worker while its handler runs; return the job's state afterwards."""
    jobs.enqueue(job_type, payload=payload)
    async with working(dsn, JobWork(app.handlers(), TUNING), stop_seconds=0):
        await begin()
    return jobs.columns("status", "starts", "result", "last_error_code")


@WAYS
async def test_a_plain_value_after_the_sign_at_shutdown_is_handed_back(
    jobs: JobActions, dsn: str, job_type: str
) -> None:
    assert await stop_while_it_runs(jobs, dsn, job_type) == [("queued", 0, None, None)]
    jobs.verify()


@WAYS
async def test_done_after_the_sign_at_shutdown_is_done(jobs: JobActions, dsn: str, job_type: str) -> None:
    assert await stop_while_it_runs(jobs, dsn, job_type, then="done") == [("succeeded", 1, 60, None)]


@pytest.mark.parametrize(
    ("job_type", "then"), [("reindex", "stopped"), ("reindex", "raise_stopped"), ("reindex_async", "stopped")]
)
async def test_stopped_at_shutdown_gives_the_start_back(jobs: JobActions, dsn: str, job_type: str, then: str) -> None:
    assert await stop_while_it_runs(jobs, dsn, job_type, then=then) == [("queued", 0, None, None)]


@WAYS
async def test_an_exception_after_the_sign_at_shutdown_counts_against_no_job(
    jobs: JobActions, dsn: str, job_type: str
) -> None:
    assert await stop_while_it_runs(jobs, dsn, job_type, then="raise") == [("queued", 0, None, None)]


async def cancel_while_it_runs(jobs: JobActions, dsn: str, job_type: str, **payload: str) -> list[Any]:
    """Cancel a job while its handler runs; return its state afterwards."""
    jobs.enqueue(job_type, payload=payload)
    async with working(dsn, JobWork(app.handlers(), TUNING)):
        await begin()
        jobs.admin.execute(CANCEL)
        await jobs.until(lambda: all(jobs.columns("finished_at")))
    return jobs.columns("status", "starts", "result")


@WAYS
@pytest.mark.parametrize("then", ["value", "stopped", "raise"])
async def test_a_handler_that_stops_because_it_was_cancelled_is_canceled(
    jobs: JobActions, dsn: str, job_type: str, then: str
) -> None:
    assert await cancel_while_it_runs(jobs, dsn, job_type, then=then) == [("canceled", 1, None)]
    jobs.verify()


@WAYS
async def test_a_cancelled_handler_that_says_done_was_faster(jobs: JobActions, dsn: str, job_type: str) -> None:
    assert await cancel_while_it_runs(jobs, dsn, job_type, then="done") == [("succeeded", 1, 60)]


async def test_a_cancel_that_comes_while_the_worker_stops_is_honoured(jobs: JobActions, dsn: str) -> None:
    GO_ON.clear()
    jobs.enqueue("reindex")
    async with working(dsn, JobWork(app.handlers(), TUNING), stop_seconds=0) as worker:
        await begin()
        worker.request_stop()
        (running,) = worker.control.work_loops[0].held.rows
        await jobs.until(lambda: running.stop_signal.is_set)
        jobs.admin.execute(CANCEL)
        GO_ON.set()
    assert jobs.columns("status", "result") == [("canceled", None)]
    jobs.verify()


async def test_a_cancel_during_the_time_to_finish_stops_the_handler(jobs: JobActions, dsn: str) -> None:
    jobs.enqueue("reindex")
    async with working(dsn, JobWork(app.handlers(), TUNING), stop_seconds=WAIT_SECONDS) as worker:
        await begin()
        worker.request_stop()
        await jobs.until(worker.control.stop.is_set)
        jobs.admin.execute(CANCEL)
        await jobs.until(lambda: all(jobs.columns("finished_at")))
    assert jobs.columns("status", "result") == [("canceled", None)]


async def test_a_handler_that_stops_because_it_took_too_long_has_timed_out(jobs: JobActions, dsn: str) -> None:
    jobs.enqueue("late_politely", max_attempts=1)
    async with working(dsn, JobWork(app.handlers(), TUNING)):
        await jobs.until(lambda: all(jobs.columns("finished_at")))
    assert jobs.columns("status", "last_error_code", "last_error_message") == [
        ("dead_letter", "TIMEOUT", "took longer than 0.1 s")
    ]


async def test_a_worker_that_stops_says_what_it_waits_for_and_how_to_end_it(jobs: JobActions, dsn: str) -> None:
    (job,) = jobs.enqueue("reindex")
    with capture_log_lines("info") as lines:
        async with working(dsn, JobWork(app.handlers(), TUNING), stop_seconds=WAIT_SECONDS) as worker:
            await begin()
            worker.request_stop()
            await jobs.until(lambda: "stopping" in lines.getvalue())
            worker.request_stop()
        (line,) = [json.loads(each) for each in lines.getvalue().splitlines() if "stopping" in each]
    assert "a second Ctrl-C or SIGTERM stops them now" in line["hint"]
    assert (line["rows"], line["seconds"], line["waiting_for"]) == (1, WAIT_SECONDS, [f"reindex {job}"])
    assert datetime.fromisoformat(line["until"]) > datetime.now(UTC)


async def test_a_handler_that_stops_though_nobody_asked_has_failed(jobs: JobActions, dsn: str) -> None:
    jobs.enqueue("stop_unasked", max_attempts=1)
    async with working(dsn, JobWork(app.handlers(), TUNING)):
        await jobs.until(lambda: all(jobs.columns("finished_at")))
    assert jobs.columns("status", "last_error_code") == [("dead_letter", "STOPPED")]
