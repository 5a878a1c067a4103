"""Assertions about jobs in tests, and two ways to perform them.

    assert_enqueued(tx, thumbnail, image_id="a1")     queries inside your own transaction
    perform(thumbnail, "a1")                          calls one handler, without a database
    drain(app, dsn)                                   lets a real worker perform all that is due

All of them work with or without a running event loop; only assertions on an async connection are awaited.
"""

import asyncio
import contextvars
import inspect
import json
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar, overload
from uuid import UUID, uuid4

import psycopg
import uvloop
from psycopg import AsyncConnection

from duly.app import App, JobType
from duly.canonical_json import Json, checked_json
from duly.db.drivers import AnyTransaction, AsyncTransaction, DriverStatement, Rows, SyncTransaction, is_async
from duly.db.location import role_to_set
from duly.db.pool import Pool, open_pool
from duly.db.queries import load_queries
from duly.db.rows import Connection, find_value
from duly.errors import InvalidArgument, Misconfigured
from duly.jobs import repository
from duly.jobs.context import CompletedAwaitable, Context, JobDatabase
from duly.jobs.enqueue import encode_json
from duly.jobs.model import Job
from duly.jobs.work import JobWork
from duly.lease.operations import Lease
from duly.lease.work import Tuning
from duly.outcomes import RAISABLE, Done, Failed, GiveUp, Outcome
from duly.settings import load_settings
from duly.testing.clock import Clock, require_test_clock
from duly.testing.query import query_async, query_sync
from duly.worker.runner import Worker

TUNING = Tuning()
MAX_LISTED_JOBS = 20
MAX_PAYLOAD_LENGTH = 200
DUE_MARGIN_SECONDS = 0.001  # how far the clock moves past the due time

SQL = load_queries(__file__, "jobs.sql")
T = TypeVar("T")


# Assertions -----------------------------------------------------------------------------------------------------------


@overload
def assert_enqueued(
    transaction: SyncTransaction,
    job_type: JobType[..., Any],
    /,
    *args: Any,
    times: int = 1,
    key: str | None = None,
    org: UUID | None = None,
    **kwargs: Any,
) -> None: ...
@overload
def assert_enqueued(
    transaction: AsyncTransaction,
    job_type: JobType[..., Any],
    /,
    *args: Any,
    times: int = 1,
    key: str | None = None,
    org: UUID | None = None,
    **kwargs: Any,
) -> Awaitable[None]: ...
def assert_enqueued(
    transaction: AnyTransaction,
    job_type: JobType[..., Any],
    /,
    *args: Any,
    times: int = 1,
    key: str | None = None,
    org: UUID | None = None,
    **kwargs: Any,
) -> Awaitable[None] | None:
    """Assert that exactly `times` jobs of this type are queued whose payload contains these arguments.

    It queries inside the caller's transaction, by default the jobs of the app's org, and changes nothing; on an async
    connection it is awaited. An argument of the handler that is called `times`, `key` or `org` must be positional.
    """
    __tracebackhide__ = True
    payload = bind_partial_payload(job_type, args, kwargs)
    expected = ExpectedJob(job_type.handler.type, payload, key, org or job_type.app.org, times)
    candidates = list_candidate_jobs(transaction, expected)
    if isinstance(candidates, Sequence):
        return compare(candidates, expected)
    return compare_async(candidates, expected)


@overload
def assert_not_enqueued(
    transaction: SyncTransaction,
    job_type: JobType[..., Any],
    /,
    *args: Any,
    key: str | None = None,
    org: UUID | None = None,
    **kwargs: Any,
) -> None: ...
@overload
def assert_not_enqueued(
    transaction: AsyncTransaction,
    job_type: JobType[..., Any],
    /,
    *args: Any,
    key: str | None = None,
    org: UUID | None = None,
    **kwargs: Any,
) -> Awaitable[None]: ...
def assert_not_enqueued(
    transaction: AnyTransaction,
    job_type: JobType[..., Any],
    /,
    *args: Any,
    key: str | None = None,
    org: UUID | None = None,
    **kwargs: Any,
) -> Awaitable[None] | None:
    """Assert that no job of this type is queued whose payload contains these arguments; see `assert_enqueued`."""
    __tracebackhide__ = True
    return assert_enqueued(transaction, job_type, *args, times=0, key=key, org=org, **kwargs)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class ExpectedJob:
    """The expected jobs and their number."""

    type: str
    payload: Mapping[str, Json]
    idempotency_key: str | None
    org: UUID
    times: int

    def __str__(self) -> str:
        return f"'{self.type}' with {format_payload(self.payload)}" + (
            f" under the key '{self.idempotency_key}'" if self.idempotency_key else ""
        )


def bind_partial_payload(
    job_type: JobType[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Mapping[str, Json]:
    """Bind some arguments of the handler by name; raises InvalidArgument when it has no such parameters."""
    try:
        given = inspect.signature(job_type.function).bind_partial(None, *args, **kwargs)
    except TypeError as error:
        raise InvalidArgument(f"the job type '{job_type.handler.type}' has no such arguments: {error}") from None
    _, *named = given.arguments.items()
    return checked_json(dict(named))


def list_candidate_jobs(transaction: AnyTransaction, expected: ExpectedJob) -> Rows | Awaitable[Rows]:
    """List jobs of an org, those most like the expected one first, each with the number of matching jobs."""
    parameters = {
        "org": str(expected.org),
        "type": expected.type,
        "payload": encode_json(expected.payload),
        "key": expected.idempotency_key,
        "limit": str(MAX_LISTED_JOBS),
    }
    statement = DriverStatement.from_text(SQL.list_candidate_jobs.as_string(None))
    if is_async(transaction):
        return query_async(transaction, statement, parameters)
    return query_sync(transaction, statement, parameters)


async def compare_async(candidates: Awaitable[Rows], expected: ExpectedJob) -> None:
    """Await the rows and compare them."""
    __tracebackhide__ = True
    compare(await candidates, expected)


def compare(rows: Rows, expected: ExpectedJob) -> None:
    """Raise AssertionError, with the jobs that exist, unless the number of matching jobs is the expected one."""
    __tracebackhide__ = True
    found = rows[0][-1] if rows else 0
    if found == expected.times:
        return
    listed = [format_row(*columns) for columns in rows] or ["  none that this transaction can see"]
    raise AssertionError(
        "\n".join([f"{found} jobs are queued, expected {expected.times}: {expected}; existing jobs:", *listed])
    )


def format_row(job_type: str, status: str, payload: str, key: str | None, _: int) -> str:
    """Format a job in one line."""
    return f"  {job_type}  {status}  {format_payload(json.loads(payload))}" + (f"  key {key}" if key else "")


def format_payload(payload: Mapping[str, Json]) -> str:
    """Format a payload, truncated."""
    text = json.dumps(payload, ensure_ascii=False)
    return text if len(text) <= MAX_PAYLOAD_LENGTH else f"{text[:MAX_PAYLOAD_LENGTH]}…"


# One handler ----------------------------------------------------------------------------------------------------------


def perform(
    job_type: JobType[..., Any],
    /,
    *args: Any,
    attempt: int = 0,
    snoozes: int = 0,
    max_attempts: int | None = None,
    org: UUID | None = None,
    **kwargs: Any,
) -> Outcome:
    """Call one handler without a database, with arguments validated and copied as if they had been enqueued.

    Returns the outcome that it returned or raised; a plain value is `Done(value)`. Other exceptions propagate. It is
    not awaited, also for an async handler; timeouts do not apply, and an isolated handler runs in this process.
    Progress is ignored, and `ctx.transaction()` raises Misconfigured: use `drain` for handlers that need a database.
    """
    handler = job_type.handler
    context = Context(
        job_id=uuid4(),
        org_id=org or job_type.app.org,
        type=handler.type,
        queue=handler.queue,
        attempt=attempt,
        snoozes=snoozes,
        max_attempts=job_type.options.max_attempts if max_attempts is None else max_attempts,
        database=MissingDatabase(handler.type),
    )
    payload = job_type.build_payload(*args, **kwargs)
    try:
        returned = run_in_thread(lambda: run_if_coroutine(job_type.function(context, **payload)))
    except RAISABLE as raised:
        return raised
    return returned if isinstance(returned, Outcome) else Done(returned)


def run_if_coroutine(returned: Any) -> Any:
    """Return a value, or the result of a coroutine."""
    return asyncio.run(returned) if inspect.iscoroutine(returned) else returned


def run_in_thread(function: Callable[[], T]) -> T:
    """Call a function in a new thread, where it may run an event loop even if the caller's thread runs one.

    It is a daemon thread, so that an interrupted test does not hang in a handler that does.
    """
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(function())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=contextvars.copy_context().run, args=[run], name="duly-testing", daemon=True).start()
    return result.result()


class MissingDatabase(JobDatabase):
    """The database of a context without one."""

    loop: Any = object()  # never the running loop

    def __init__(self, type: str) -> None:  # noqa: A002
        self.type = type
        self.open_connection = None
        self.is_settled = False

    def transaction(self) -> Any:
        """Raise Misconfigured."""
        raise Misconfigured(
            f"perform() calls the handler of '{self.type}' without a database; since it uses ctx.transaction(), "
            "enqueue the job and let duly.testing.drain() perform it"
        )

    sync_transaction = transaction

    def run_soon(self, recording: Coroutine[Any, Any, None]) -> Awaitable[None]:
        """Ignore progress."""
        recording.close()
        return CompletedAwaitable()


# A worker -------------------------------------------------------------------------------------------------------------


def drain(app: App, dsn: str, *, max_cycles: int = 100, raising: bool = False) -> list[Job]:
    """Perform all due jobs, and those they make due, until none is left; returns them in the order of their start.

    A real worker performs them, with the role of a worker, one cycle after another; it is not awaited, also in async
    tests. The clock of the database is moved to the next retry. Jobs that wait for another reason (a delay, `Later`, a
    pause, a type without a handler) are not performed, and uncommitted jobs are not visible.

    With `raising=True` the first failed attempt ends it: the exception of its handler propagates, or, if that was
    raised in another process, the recorded `duly.Failed` or `duly.GiveUp`.
    """
    with psycopg.connect(dsn, autocommit=True) as connection:
        require_test_clock(connection)

    def run() -> list[Job]:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(drain_async(app, dsn, max_cycles, raising))

    return run_in_thread(run)


async def drain_async(app: App, dsn: str, max_cycles: int, raising: bool) -> list[Job]:
    """Implement `drain` on the event loop of this thread."""
    settings = load_settings()
    role = role_to_set(dsn, settings.worker_role)
    clock = Clock(dsn)
    orgs: dict[UUID, UUID] = {}  # by job id, in the order of their start
    newest: dict[UUID, UUID] = {}
    async with open_pool(dsn, size=1, idle=1, role=role, name="duly drain") as pool:
        for _ in range(max_cycles):
            work, polled_at = RecordingJobWork(app, settings.api_role), clock.now()
            await Worker([work], settings, dsn=dsn, role=role).run(once=True)
            if raising and work.failures:
                raise work.failures[0]
            newest = work.orgs
            orgs |= newest
            if not newest and not await advance_to_retry(pool, clock, list(orgs), polled_at):
                return await load_jobs(pool, orgs)
        last = [
            f"  {job.type}  {job.status}  {format_payload(job.payload or {})}" for job in await load_jobs(pool, newest)
        ]
    raise AssertionError(
        "\n".join(
            [
                f"jobs are still due after {max_cycles} cycles; raise max_cycles, if they ever end",
                *last,
            ]
        )
    )


class RecordingJobWork(JobWork):
    """Records the jobs of one cycle when they are claimed."""

    def __init__(self, app: App, api_role: str) -> None:
        super().__init__(app.handlers(), TUNING, api_role=api_role, on_failure=app.failure_hooks)
        self.orgs: dict[UUID, UUID] = {}
        self.failures: list[BaseException] = []

    def log_failed_attempt(self, lease: Lease, failure: Failed | GiveUp) -> None:
        """Record what a handler raised."""
        self.failures.append(failure.error or failure)
        super().log_failed_attempt(lease, failure)

    async def claim(
        self, connection: Connection, worker_id: str, limit: int, keys: Sequence[UUID] | None = None
    ) -> list[Lease]:
        """Claim due jobs, start them in the order they were due, and record their orgs."""
        leases = await super().claim(connection, worker_id, limit, keys)
        leases.sort(key=lambda lease: (-lease.row["priority"], lease.row["run_at"], lease.key))
        self.orgs |= {lease.key: lease.row["org_id"] for lease in leases}
        return leases


async def advance_to_retry(pool: Pool, clock: Clock, job_ids: Sequence[UUID], polled_at: datetime) -> bool:
    """Move the clock to the first retry of these jobs; returns False when none waits for a retry."""
    async with pool.transaction() as connection:
        seconds = await find_next_retry(connection, job_ids, polled_at)
    if seconds is None:
        return False
    clock.advance(max(0.0, seconds) + DUE_MARGIN_SECONDS)
    return True


async def find_next_retry(
    connection: AsyncConnection[Any], job_ids: Sequence[UUID], polled_at: datetime
) -> float | None:
    """Return the seconds until the first retry of these jobs; None when none waits for a retry."""
    return await find_value(connection, SQL.find_next_retry, job_ids=list(job_ids), polled_at=polled_at)


async def load_jobs(pool: Pool, orgs: Mapping[UUID, UUID]) -> list[Job]:
    """Load the current state of these jobs; deleted ones are left out."""
    async with pool.transaction() as connection:
        found = [await repository.find_job(connection, org, job_id) for job_id, org in orgs.items()]
    return [job for job in found if job]
