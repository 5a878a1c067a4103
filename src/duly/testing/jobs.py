"""Jobs in tests: was one asked for, what does its handler say, and what happens when a worker performs it.

    assert_enqueued(tx, thumbnail, image_id="a1")     looks, inside your own transaction
    perform(thumbnail, "a1")                          calls one handler, without a database
    drain(app, dsn)                                   lets a real worker perform all that is due

None of them needs a loop, and all of them work where one runs: only looking on an async connection is awaited.
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
from psycopg.types.json import Jsonb

from duly.app import App, JobType
from duly.canonical_json import Json, checked_json
from duly.db.location import role_on
from duly.db.pool import Pool, open_pool
from duly.db.queries import load_queries
from duly.db.rows import Connection, Row, find_value
from duly.errors import InvalidArgument, Misconfigured
from duly.jobs import repository
from duly.jobs.context import Context, Desk, Nothing
from duly.jobs.drivers import AnyTransaction, AsyncTransaction, SyncTransaction, is_async, look, look_async
from duly.jobs.model import Job
from duly.jobs.work import JobWork
from duly.lease.operations import Lease
from duly.lease.work import Tuning
from duly.outcomes import RAISABLE, Done, Failed, GiveUp, Outcome
from duly.settings import load_settings
from duly.testing.clock import Clock, require_test_clock
from duly.worker.runner import Worker

__all__ = ["assert_enqueued", "assert_not_enqueued", "drain", "find_next_retry", "list_asked", "perform"]

TUNING = Tuning()
MAX_SHOWN = 20
MAX_SHOWN_LENGTH = 200
MOMENT_SECONDS = 0.001  # past the time that a job is due

SQL = load_queries(__file__, "jobs.sql")
T = TypeVar("T")


# Was it asked for? ----------------------------------------------------------------------------------------------------


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
    """So many jobs of this type wait, no more and no fewer, whose payload contains these arguments.

    It looks inside the caller's transaction, at the jobs of the app's org unless another is named, and leaves nothing
    behind; on an async connection it is awaited. An argument of the handler that is called `times`, `key` or `org` can
    be given by its place only.
    """
    __tracebackhide__ = True
    payload = some_of_payload(job_type, args, kwargs)
    wanted = Wanted(job_type.handler.type, payload, key, org or job_type.app.org, times)
    asked = list_asked(transaction, wanted)
    if isinstance(asked, Sequence):
        return compare(asked, wanted)
    return compare_later(asked, wanted)


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
    """No job of this type waits whose payload contains these arguments; see `assert_enqueued`."""
    __tracebackhide__ = True
    return assert_enqueued(transaction, job_type, *args, times=0, key=key, org=org, **kwargs)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody looks for, and how often."""

    type: str
    payload: Mapping[str, Json]
    key: str | None
    org: UUID
    times: int

    def __str__(self) -> str:
        return f"'{self.type}' with {shown(self.payload)}" + (f" under the key '{self.key}'" if self.key else "")


def some_of_payload(job_type: JobType[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Mapping[str, Json]:
    """Arguments by name, though some are missing; refused when the handler has no such ones."""
    try:
        given = inspect.signature(job_type.function).bind_partial(None, *args, **kwargs)
    except TypeError as error:
        raise InvalidArgument(f"the job type '{job_type.handler.type}' has no such arguments: {error}") from None
    _, *named = given.arguments.items()
    return checked_json(dict(named))


def list_asked(transaction: AnyTransaction, wanted: Wanted) -> Sequence[Row] | Awaitable[Sequence[Row]]:
    """The jobs of an org, the likeliest first, each with how many there are of what is looked for."""
    parameters = {
        "org": wanted.org,
        "type": wanted.type,
        "payload": Jsonb(wanted.payload),
        "key": wanted.key,
        "most": MAX_SHOWN,
    }
    if is_async(transaction):
        return look_async(transaction, wanted.org, SQL.list_asked, parameters)
    return look(transaction, wanted.org, SQL.list_asked, parameters)


async def compare_later(asked: Awaitable[Sequence[Row]], wanted: Wanted) -> None:
    """`compare`, once the database has answered."""
    __tracebackhide__ = True
    compare(await asked, wanted)


def compare(rows: Sequence[Row], wanted: Wanted) -> None:
    """As many as there should be, or AssertionError with what there is."""
    __tracebackhide__ = True
    found = rows[0]["found"] if rows else 0
    if found == wanted.times:
        return
    there_is = [line_of(row) for row in rows] or ["  no job at all, as far as this transaction can see"]
    raise AssertionError("\n".join([f"{found} jobs wait, not {wanted.times}: {wanted}; there is", *there_is]))


def line_of(row: Row) -> str:
    """One job, in a line."""
    key = row["idempotency_key"]
    return f"  {row['type']}  {row['status']}  {shown(row['payload'])}" + (f"  key {key}" if key else "")


def shown(payload: Mapping[str, Json]) -> str:
    """A payload, not too much of it."""
    text = json.dumps(payload, ensure_ascii=False)
    return text if len(text) <= MAX_SHOWN_LENGTH else f"{text[:MAX_SHOWN_LENGTH]}…"


# What does its handler say? -------------------------------------------------------------------------------------------


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
    """Call one handler without a database, its arguments checked and copied as on their way through the ledger.

    Returns the outcome that it returned or raised; a plain value is `Done(value)`. Other exceptions come out as they
    are. It is not awaited, whichever sort of function the handler is; no time limit holds, and an isolated handler runs
    in this process. Progress goes nowhere, and `ctx.transaction()` refuses: `drain` has a database.
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
        desk=Nowhere(handler.type),
    )
    payload = job_type.payload_of(*args, **kwargs)
    try:
        returned = apart(lambda: finish(job_type.function(context, **payload)))
    except RAISABLE as raised:
        return raised
    return returned if isinstance(returned, Outcome) else Done(returned)


def finish(returned: Any) -> Any:
    """What a plain function returned, or what an async one comes to."""
    return asyncio.run(returned) if inspect.iscoroutine(returned) else returned


def apart(act: Callable[[], T]) -> T:
    """Do something in a thread of its own, where it may have a loop of its own, whatever the caller's thread is at.

    The thread is nobody's to wait for: a test that is interrupted does not hang in a handler that does.
    """
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(act())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=contextvars.copy_context().run, args=[run], name="duly-testing", daemon=True).start()
    return answer.result()


class Nowhere(Desk):
    """A handler's way to the database where there is none."""

    loop: Any = object()  # none that runs

    def __init__(self, type: str) -> None:  # noqa: A002
        self.type = type
        self.open = None
        self.is_settled = False

    def transaction(self) -> Any:
        """Refused."""
        raise Misconfigured(
            f"perform() calls the handler of '{self.type}' without a database; since it uses ctx.transaction(), "
            "enqueue the job and let duly.testing.drain() perform it"
        )

    plain_transaction = transaction

    def soon(self, saying: Coroutine[Any, Any, None]) -> Awaitable[None]:
        """Progress, which nobody is there to hear."""
        saying.close()
        return Nothing()


# What happens when a worker performs it? ------------------------------------------------------------------------------


def drain(app: App, dsn: str, *, max_cycles: int = 100, raising: bool = False) -> list[Job]:
    """Perform everything that is due, and what that makes due, until nothing is; the jobs, in the order they began.

    A real worker does it, with a worker's rights, one cycle after another; not awaited, from async tests too. For
    retries that wait their time the database's clock is moved. What waits for another reason (a delay, `Later`, a
    pause, a type without a handler) is left alone, and what is not committed cannot be seen.

    With `raising=True` the first try that fails ends it: its handler's exception comes out as it is, or the
    `duly.Failed` or `duly.GiveUp` that is recorded where there is none in this process.
    """
    with psycopg.connect(dsn, autocommit=True) as connection:
        require_test_clock(connection)

    def act() -> list[Job]:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(drain_here(app, dsn, max_cycles, raising))

    return apart(act)


async def drain_here(app: App, dsn: str, max_cycles: int, raising: bool) -> list[Job]:
    """`drain`, on the loop of this thread."""
    settings = load_settings()
    role = role_on(dsn, settings.worker_role)
    clock = Clock(dsn)
    orgs: dict[UUID, UUID] = {}  # of the jobs we have held, in the order they began
    newest: dict[UUID, UUID] = {}
    async with open_pool(dsn, size=1, idle=1, role=role, name="duly drain") as pool:
        for _ in range(max_cycles):
            work, looked_at = Noting(app, settings.api_role), clock.now()
            await Worker([work], settings, dsn=dsn, role=role).run(once=True)
            if raising and work.failures:
                raise work.failures[0]
            newest = work.orgs
            orgs |= newest
            if not newest and not await wait_for_retry(pool, clock, list(orgs), looked_at):
                return await jobs_of(pool, orgs)
        last = [f"  {job.type}  {job.status}  {shown(job.payload or {})}" for job in await jobs_of(pool, newest)]
    raise AssertionError(
        "\n".join([f"there is still work after {max_cycles} cycles; raise most_cycles, or is it endless?", *last])
    )


class Noting(JobWork):
    """One cycle's jobs, noted as they are claimed."""

    def __init__(self, app: App, api_role: str) -> None:
        super().__init__(app.handlers(), TUNING, api_role=api_role, on_failure=app.failure_hooks)
        self.orgs: dict[UUID, UUID] = {}
        self.failures: list[BaseException] = []

    def report_failure(self, lease: Lease, failure: Failed | GiveUp) -> Callable[[], Any] | None:
        """Note what a handler raised."""
        self.failures.append(failure.error or failure)
        return super().report_failure(lease, failure)

    async def claim(
        self, connection: Connection, worker_id: str, limit: int, keys: Sequence[UUID] | None = None
    ) -> list[Lease]:
        """Hold due jobs, let them begin in the order they were due, and note whose they are."""
        leases = await super().claim(connection, worker_id, limit, keys)
        leases.sort(key=lambda lease: (-lease.row["priority"], lease.row["run_at"], lease.key))
        self.orgs |= {lease.key: lease.row["org_id"] for lease in leases}
        return leases


async def wait_for_retry(pool: Pool, clock: Clock, keys: Sequence[UUID], looked_at: datetime) -> bool:
    """Let time pass until the first of these is tried again; False when none of them waits for that."""
    async with pool.transaction() as connection:
        seconds = await find_next_retry(connection, keys, looked_at)
    if seconds is None:
        return False
    clock.advance(max(0.0, seconds) + MOMENT_SECONDS)
    return True


async def find_next_retry(connection: AsyncConnection[Any], keys: Sequence[UUID], looked_at: datetime) -> float | None:
    """In how many seconds the first of these jobs is tried again; None when none waits for that."""
    return await find_value(connection, SQL.find_next_retry, keys=list(keys), looked_at=looked_at)


async def jobs_of(pool: Pool, orgs: Mapping[UUID, UUID]) -> list[Job]:
    """These jobs as they are now; what has left is left out."""
    async with pool.transaction() as connection:
        found = [await repository.find_job(connection, org, key) for key, org in orgs.items()]
    return [job for job in found if job]
