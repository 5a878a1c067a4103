"""A failed attempt: what is logged and stored, its error code, and the hooks that are called."""

import io
import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

import duly
from duly.bounds import MAX_SNOOZES
from duly.jobs.context import Context
from duly.jobs.model import TypeInQueue
from duly.jobs.work import JobWork
from duly.lease.work import Tuning
from duly.outcomes import Failed, GiveUp, error_code_for
from duly.settings import Settings
from duly.tracebacks import MAX_TRACEBACK_BYTES
from duly.worker import handlers
from duly.worker.runner import Worker
from tests.support.failing_handlers import MAY_RETURN, app
from tests.support.jobs.actions import LEASE, JobActions
from tests.support.outbox.log_capture import capture_log_lines

TUNING = Tuning(lease_seconds=30, heartbeat_seconds=0.2, poll_seconds=0.1, sweep_seconds=0.5)
OUR_FILES = "/src/duly/"


@pytest.fixture
def lines() -> Generator[io.StringIO, None, None]:
    """The log lines, as JSON."""
    with capture_log_lines("info") as stream:
        yield stream


def failures(lines: io.StringIO) -> list[dict[str, Any]]:
    """Return the log lines about failed jobs."""
    logged = [json.loads(line) for line in lines.getvalue().splitlines()]
    return [line for line in logged if line["event"] == "job.failed"]


async def work_once(dsn: str, work: JobWork | None = None) -> None:
    """Run one cycle of a worker."""
    await Worker([work or JobWork(app.handlers(), TUNING)], Settings(), dsn=dsn).run(once=True)


def last_detail(jobs: JobActions) -> dict[str, Any]:
    """Return the event detail of the only job's last failure."""
    (job,) = jobs.columns("id")
    return [detail for _, _, detail in jobs.events(job) if "code" in (detail or {})][-1]


@pytest.mark.parametrize("job_type", ["price", "price_plainly"])
async def test_failed_attempt_is_logged_with_traceback_cause_and_job_id(
    jobs: JobActions, dsn: str, lines: io.StringIO, job_type: str
) -> None:
    (job,) = jobs.enqueue(job_type, max_attempts=2, backoff_policy="none")
    await work_once(dsn)
    await work_once(dsn)
    first, second = failures(lines)
    assert (first["level"], second["level"]) == ("warning", "error")
    assert (first["is_last_attempt"], second["is_last_attempt"]) == (False, True)
    assert (first["job"], first["type"], first["attempt"], second["attempt"]) == (str(job), job_type, 0, 1)
    assert first["code"] == "RUNTIME_ERROR"
    assert first["error"]["type"] == "RuntimeError"
    for text_part in ("KeyError: 'sku'", "The above exception was the direct cause", "in price_order", "RuntimeError:"):
        assert text_part in first["trace"]
    assert OUR_FILES not in first["trace"]
    assert "hunter2" not in lines.getvalue()


@pytest.mark.parametrize("job_type", ["price", "price_plainly"])
async def test_traceback_is_stored_in_the_failure_event(jobs: JobActions, dsn: str, job_type: str) -> None:
    jobs.enqueue(job_type, max_attempts=1)
    await work_once(dsn)
    assert jobs.columns("status", "last_error_code") == [("dead_letter", "RUNTIME_ERROR")]
    trace = last_detail(jobs)["traceback"]
    assert trace.startswith("Traceback (most recent call last):")
    assert "KeyError: 'sku'" in trace
    assert "in price_order" in trace
    assert OUR_FILES not in trace
    assert "hunter2" not in trace
    assert "anna:***@db" in trace
    jobs.verify()


async def test_stored_traceback_is_truncated_to_its_limit(jobs: JobActions, dsn: str) -> None:
    jobs.enqueue("chatter", max_attempts=1)
    await work_once(dsn)
    trace = last_detail(jobs)["traceback"]
    assert MAX_TRACEBACK_BYTES - 10 < len(trace.encode()) <= MAX_TRACEBACK_BYTES
    assert trace.startswith("Traceback")
    assert "…" in trace


async def test_timeout_stores_the_traceback_of_the_running_handler(
    jobs: JobActions, dsn: str, lines: io.StringIO
) -> None:
    MAY_RETURN.clear()
    jobs.enqueue("late", max_attempts=1)
    jobs.enqueue("late_plainly", max_attempts=1)
    work = JobWork(app.handlers(), TUNING)
    await work_once(dsn, work)
    MAY_RETURN.set()
    assert jobs.columns("status", "last_error_code") == [("dead_letter", "TIMEOUT")] * 2
    traces = jobs.values("select detail_json ->> 'traceback' from ledger.job_event where detail_json ? 'code'")
    assert sorted("in late\n" in trace or "in late_plainly\n" in trace for trace in traces) == [True, True]
    assert all(OUR_FILES not in trace for trace in traces)
    assert sorted(line["type"] for line in failures(lines)) == ["late", "late_plainly"]


async def test_worker_that_sweeps_a_crashed_job_logs_it_with_its_lease_owner(
    jobs: JobActions, dsn: str, lines: io.StringIO
) -> None:
    (job,) = jobs.enqueue()
    (lease,) = await jobs.claim()
    jobs.advance_clock(61)
    await work_once(dsn)
    (line,) = failures(lines)
    assert (line["level"], line["job"], line["type"], line["code"]) == ("warning", str(job), "work", "CRASHED")
    assert line["holder"] == lease.owner


# Codes ----------------------------------------------------------------------------------------------------------------


class HTTPStatusError(Exception):
    """Has an abbreviation in its name."""


class _Hidden2Fehlér(Exception):
    """Has letters that an error code cannot have."""


class 错误(Exception):  # noqa: N801
    """Has no character that an error code may have."""


@pytest.mark.parametrize(
    ("exception", "code"),
    [
        (ConnectionError, "CONNECTION_ERROR"),
        (HTTPStatusError, "HTTP_STATUS_ERROR"),
        (OSError, "OS_ERROR"),
        (_Hidden2Fehlér, "HIDDEN2_FEHL_R"),
        (错误, "ERROR"),
        (type("9Lives", (Exception,), {}), "ERROR_9_LIVES"),
        (type("X" * 100, (Exception,), {}), "X" * 64),
    ],
)
def test_error_code_is_derived_from_the_exception_class(exception: type[Exception], code: str) -> None:
    assert error_code_for(exception) == code
    assert Failed(error_code_for(exception), "it can be stored")


async def test_job_stores_the_error_code_of_its_handlers_exception(jobs: JobActions, dsn: str) -> None:
    jobs.enqueue("refused", max_attempts=1)
    await work_once(dsn)
    assert jobs.columns("last_error_code", "last_error_message") == [
        ("CONNECTION_ERROR", "ConnectionError: refused"),
    ]


# Outcomes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "ended"),
    [
        ("done", ("succeeded", 1, None, {"made": 1})),
        ("later", ("queued", 0, None, None)),
        ("give_up", ("dead_letter", 1, "CARD_DECLINED", None)),
        ("failed", ("queued", 1, "NOT_NOW", None)),
        ("stopped", ("queued", 1, "STOPPED", None)),
    ],
)
async def test_an_outcome_may_be_raised(jobs: JobActions, dsn: str, what: str, ended: tuple[Any, ...]) -> None:
    jobs.enqueue("raises", payload={"what": what}, max_attempts=2, backoff_policy="none")
    await work_once(dsn)
    assert jobs.columns("status", "starts", "last_error_code", "result") == [ended]
    jobs.verify()


async def test_raised_outcome_stores_its_traceback_and_cause(jobs: JobActions, dsn: str) -> None:
    jobs.enqueue("raises", payload={"what": "give_up"})
    await work_once(dsn)
    assert jobs.columns("last_error_message") == ["no money"]
    trace = last_detail(jobs)["traceback"]
    assert "ValueError: because" in trace
    assert "CARD_DECLINED: no money" in trace


def test_raised_outcome_can_be_caught_and_replaced() -> None:
    @contextmanager
    def inside() -> Generator[None, None, None]:
        yield

    with pytest.raises(duly.GiveUp) as caught, inside():
        raise duly.GiveUp(code="NEVER", message="not like this")
    assert caught.value == duly.GiveUp("NEVER", "not like this")
    assert replace(caught.value, code="OTHER").code == "OTHER"


# Hooks ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize("job_type", ["price", "price_plainly"])
async def test_failure_hook_gets_the_context_and_the_handlers_exception(
    jobs: JobActions, dsn: str, job_type: str, is_async: bool
) -> None:
    reports: list[tuple[Context, BaseException]] = []

    async def later(ctx: Context, error: BaseException) -> None:
        reports.append((ctx, error))

    def at_once(ctx: Context, error: BaseException) -> None:
        reports.append((ctx, error))

    (job,) = jobs.enqueue(job_type, max_attempts=1)
    await work_once(dsn, JobWork(app.handlers(), TUNING, on_failure=[later if is_async else at_once]))
    ((ctx, error),) = reports
    assert (ctx.job_id, ctx.type, ctx.attempt, ctx.max_attempts) == (job, job_type, 0, 1)
    assert isinstance(error, RuntimeError)
    assert isinstance(error.__cause__, KeyError)
    assert error.__traceback__
    assert error.__traceback__.tb_frame.f_code.co_name == job_type


async def test_failure_hook_gets_the_outcome_where_no_exception_was_raised(jobs: JobActions, dsn: str) -> None:
    reports: list[BaseException] = []
    jobs.enqueue("raises", payload={"what": "give_up"})
    await work_once(dsn, JobWork(app.handlers(), TUNING, on_failure=[lambda _, error: reports.append(error)]))
    assert reports == [GiveUp("CARD_DECLINED", "no money")]


async def test_failing_failure_hook_is_logged_and_changes_nothing(
    jobs: JobActions, dsn: str, lines: io.StringIO
) -> None:
    reports: list[str] = []

    def broken(ctx: Context, error: BaseException) -> None:
        raise ValueError("no connection to the tracker")

    async def broken_later(ctx: Context, error: BaseException) -> None:
        raise ValueError("no connection to the tracker")

    def well(ctx: Context, error: BaseException) -> None:
        reports.append(ctx.type)

    jobs.enqueue("price", max_attempts=1)
    jobs.enqueue("price_plainly", max_attempts=1)
    await work_once(dsn, JobWork(app.handlers(), TUNING, on_failure=[broken, broken_later, well]))
    assert sorted(reports) == ["price", "price_plainly"]
    assert jobs.columns("status", "last_error_code") == [("dead_letter", "RUNTIME_ERROR")] * 2
    assert lines.getvalue().count("job.failure_hook_failed") == 4


@pytest.mark.parametrize("job_type", ["price", "price_plainly"])
async def test_hanging_failure_hook_delays_no_job(
    jobs: JobActions, dsn: str, job_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "HOOK_SECONDS", 0.1)
    MAY_RETURN.clear()
    jobs.enqueue(job_type, max_attempts=1)
    await work_once(dsn, JobWork(app.handlers(), TUNING, on_failure=[lambda _, __: MAY_RETURN.wait(30)]))
    MAY_RETURN.set()
    assert jobs.columns("status") == ["dead_letter"]


async def test_job_that_was_snoozed_too_often_is_logged_and_calls_no_hook(
    jobs: JobActions, dsn: str, lines: io.StringIO
) -> None:
    hooks: list[BaseException] = []
    jobs.enqueue("raises", payload={"what": "later"}, max_attempts=1)
    jobs.admin.execute("update ledger.job set snoozes = %s", [MAX_SNOOZES])
    await work_once(dsn, JobWork(app.handlers(), TUNING, on_failure=[lambda _, error: hooks.append(error)]))
    (line,) = failures(lines)
    assert (line["code"], line["level"], line["is_last_attempt"], hooks) == ("TOO_MANY_SNOOZES", "error", True, [])
    assert jobs.columns("last_error_message") == [f"the handler returned Later more than {MAX_SNOOZES} times"]


async def test_job_whose_worker_vanished_is_logged_and_calls_no_hook(
    jobs: JobActions, dsn: str, lines: io.StringIO
) -> None:
    hooks: list[BaseException] = []
    jobs.enqueue("price", backoff_base_seconds=60.0)
    await jobs.claim(TypeInQueue("default", "price"))
    jobs.advance_clock(LEASE + 1)
    await work_once(dsn, JobWork(app.handlers(), TUNING, on_failure=[lambda _, error: hooks.append(error)]))
    (line,) = failures(lines)
    assert (line["code"], line["level"], hooks) == ("CRASHED", "warning", [])


def test_app_collects_its_failure_hooks() -> None:
    mine = duly.App()

    @mine.on_failure
    def report_failure(ctx: duly.Context, error: BaseException) -> None:
        """An on_failure hook of an error tracker."""

    assert mine.failure_hooks == [report_failure]


# Rights ---------------------------------------------------------------------------------------------------------------


async def test_permission_error_names_the_role_that_needs_the_grant(jobs: JobActions, dsn: str) -> None:
    jobs.admin.execute("create table public.parts (id int)")
    mine = duly.App()

    @mine.job("count", max_attempts=1)
    async def count(ctx: duly.Context) -> None:
        async with ctx.transaction() as tx:
            await tx.execute("select count(*) from public.parts")

    jobs.enqueue("count", max_attempts=1)
    await work_once(dsn, JobWork(mine.handlers(), TUNING))
    ((code, message),) = jobs.columns("last_error_code", "last_error_message")
    assert code == "INSUFFICIENT_PRIVILEGE"
    assert "permission denied for table parts" in message
    assert message.endswith("handlers act as duly_api: grant the privilege to duly_api")
