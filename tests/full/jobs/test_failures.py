"""A failed attempt in a child process: its details are stored and logged too."""

import io
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from duly.jobs.work import JobWork
from duly.outcomes import Failed, GiveUp
from tests.fast.jobs.test_failures import OUR_FILES, TUNING, failures, last_detail, work_once
from tests.support.actions import working
from tests.support.failing_handlers import app
from tests.support.jobs.actions import JobActions
from tests.support.outbox.log_capture import capture_log_lines


@pytest.fixture
def lines() -> Generator[io.StringIO, None, None]:
    """The log lines, as JSON."""
    with capture_log_lines("info") as stream:
        yield stream


async def test_the_traceback_of_a_child_process_is_recorded_and_logged(
    jobs: JobActions, dsn: str, lines: io.StringIO
) -> None:
    reported: list[BaseException] = []
    jobs.enqueue("price_alone", max_attempts=1)
    await work_once(dsn, JobWork(app.handlers(), TUNING, on_failure=[lambda _, error: reported.append(error)]))
    assert jobs.columns("status", "last_error_code") == [("dead_letter", "RUNTIME_ERROR")]
    trace = last_detail(jobs)["traceback"]
    for text in ("KeyError: 'sku'", "in price_order", "RuntimeError: could not price order 7", "anna:***@db"):
        assert text in trace
    assert OUR_FILES not in trace
    (line,) = failures(lines)
    assert (line["level"], line["trace"]) == ("error", trace)
    (failure,) = reported
    assert isinstance(failure, Failed)
    assert failure.traceback == trace


async def test_an_outcome_raised_in_a_child_process_is_the_outcome_of_the_job(jobs: JobActions, dsn: str) -> None:
    reported: list[BaseException] = []
    jobs.enqueue("raises_alone", max_attempts=3)
    await work_once(dsn, JobWork(app.handlers(), TUNING, on_failure=[lambda _, error: reported.append(error)]))
    assert jobs.columns("status", "last_error_code") == [("dead_letter", "CARD_DECLINED")]
    assert reported == [GiveUp("CARD_DECLINED", "no money")]
    assert "in raises_alone" in last_detail(jobs)["traceback"]


@pytest.mark.skipif(sys.platform != "linux", reason="where a killed process was is asked by a signal")
@pytest.mark.parametrize(
    ("job_type", "code", "function"),
    [("late_alone", "TIMEOUT", "in sleep_here"), ("abort_alone", "CRASHED", "in abort_alone")],
)
async def test_the_error_of_a_killed_child_process_names_the_function_it_was_in(
    jobs: JobActions, dsn: str, job_type: str, code: str, function: str
) -> None:
    jobs.enqueue(job_type, max_attempts=1)
    await work_once(dsn)
    assert jobs.columns("status", "last_error_code") == [("dead_letter", code)]
    trace = last_detail(jobs)["traceback"]
    assert function in trace
    assert OUR_FILES not in trace


async def test_stopping_a_child_process_at_shutdown_does_not_count_as_a_start(
    jobs: JobActions, dsn: str, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    jobs.enqueue("reindex_alone", payload={"flag": str(flag)})
    async with working(dsn, JobWork(app.handlers(), TUNING), stop_seconds=0):
        await jobs.until(flag.exists)
    assert jobs.columns("status", "starts", "last_error_code") == [("queued", 0, None)]
    jobs.verify()
