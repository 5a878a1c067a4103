"""The context of a handler: the job it performs, and transactions that are fenced by its lease.

    async with ctx.transaction() as tx:          # no other worker can claim the job before this ends
        await tx.execute("insert into invoices ...")
        await ctx.complete(tx, {"invoice": 42})  # the job and its effects commit together, or neither does

The transaction begins by locking the job's row by its lease owner, so a handler that lost its lease without noticing
gets `LeaseLost` and writes nothing. Then it switches to the job's org and to the API's role: a safeguard, not a
sandbox. A sync handler writes the same without `async` and `await`.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, overload
from uuid import UUID

import psycopg
from psycopg import AsyncConnection, Connection, errors

from duly.bounds import MAX_STAGE_LENGTH
from duly.canonical_json import Json
from duly.db.pool import Pool
from duly.errors import InvalidArgument, LeaseLost, Misconfigured, Unavailable
from duly.jobs import repository
from duly.jobs.states import JOB
from duly.lease.operations import Lease, find_settled, keys_and_owners
from duly.lease.work import StopSignal
from duly.logging import get_log
from duly.outcomes import Stopped, checked_result

log = get_log("duly.jobs")


@dataclass(frozen=True, slots=True)
class Context:
    """The job that a handler performs, and what the handler can do with it."""

    job_id: UUID
    org_id: UUID
    type: str
    queue: str
    attempt: int  # retries so far, as in the contract: 0 is the first attempt
    max_attempts: int
    snoozes: int = 0  # how often its handler returned `Later`, which counts no attempt
    stop_signal: StopSignal = field(default_factory=StopSignal)
    database: "JobDatabase | None" = field(default=None, repr=False, compare=False)

    @property
    def should_stop(self) -> bool:
        """Return whether to stop: lease lost, cancel request, time limit or shutdown. For loops in sync handlers.

        From then on a plain value that the handler returns means that it stopped: to state that it is done, return
        `Done`.
        """
        return self.stop_signal.is_set

    def stopped(self) -> Stopped:
        """Return the outcome to return or raise when the handler ends unfinished because of `should_stop`.

        At a shutdown the job is released, and its start not counted; after a cancel request it is canceled.
        """
        return Stopped()

    @property
    def is_settled(self) -> bool:
        """Return whether a transaction that completed the job has committed."""
        return self.database is not None and self.database.is_settled

    def transaction(self) -> "JobTransaction":
        """Open a short transaction that locks the job's row: `async with`, or in a sync handler `with`."""
        return JobTransaction(self.require_database())

    @overload
    def complete(self, connection: AsyncConnection[Any], result: Json = None) -> Coroutine[Any, Any, None]: ...
    @overload
    def complete(self, connection: Connection[Any], result: Json = None) -> None: ...
    def complete(
        self, connection: AsyncConnection[Any] | Connection[Any], result: Json = None
    ) -> Coroutine[Any, Any, None] | None:
        """Complete the job with this result, inside the transaction that `transaction()` opened."""
        return self.require_database().settle_succeeded(connection, result)

    def progress(self, stage: str | None = None, percent: int | None = None) -> Awaitable[None]:
        """Record progress; awaited, or called in a sync handler, it raises LeaseLost when the lease is lost.

        Call it before or after `transaction()`, which locks the row that it writes.
        """
        if percent is not None and not 0 <= percent <= 100:
            raise InvalidArgument(f"progress percent={percent}: must be between 0 and 100")
        if stage is not None and not 1 <= len(stage) <= MAX_STAGE_LENGTH:
            raise InvalidArgument(f"progress stage of {len(stage)} characters: must have 1 to {MAX_STAGE_LENGTH}")
        database = self.require_database()
        if database.open_connection is not None:
            raise InvalidArgument("call ctx.progress() before or after ctx.transaction(), which locks the job's row")
        return database.run_soon(database.record_progress(stage, percent))

    def require_database(self) -> "JobDatabase":
        """Return the database access, or raise Misconfigured where there is none."""
        if self.database is None:
            raise Misconfigured(
                f"the context of the job type '{self.type}' has no database access here. An isolated handler runs in a "
                "child process: return the result instead, or declare the type without isolate=True. A failure hook "
                "runs after the handler: use a connection of your own"
            )
        return self.database


class JobDatabase:
    """Database access for the handler of one leased job, from the event loop and the threads that handlers run on."""

    __slots__ = ("api_role", "is_settled", "lease", "loop", "open_connection", "pool", "progress_tasks")

    def __init__(self, lease: Lease, pool: Pool, api_role: str, loop: asyncio.AbstractEventLoop) -> None:
        self.lease = lease
        self.pool = pool
        self.api_role = api_role
        self.loop = loop
        self.open_connection: object = None  # the connection of the open transaction
        self.is_settled = False  # a transaction in which the job was completed has committed
        self.progress_tasks: set[asyncio.Task[None]] = set()  # the event loop keeps only weak references to tasks

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[AsyncConnection[Any], None]:
        """Open a transaction that locks the job's row, for its org and as the API's role."""
        async with self.pool.transaction() as connection:
            try:
                is_ours = await repository.fence(connection, self.lease, self.api_role)
            except psycopg.Error as error:
                raise self.translate_error(error) from None
            with self.track(connection, is_ours):
                yield connection
            is_done = bool(await find_settled(connection, [self.lease]))
        self.is_settled = is_done

    @contextmanager
    def sync_transaction(self) -> Generator[Connection[Any], None, None]:
        """Open the same transaction for a sync handler in a thread."""
        with self.pool.sync_connections.transaction() as connection:
            try:
                row = connection.execute(JOB.statements.fence, self.parameters(role=self.api_role)).fetchone()
            except psycopg.Error as error:
                raise self.translate_error(error) from None
            with self.track(connection, row == (True,)):
                yield connection
            is_done = bool(connection.execute(JOB.statements.find_settled, keys_and_owners([self.lease])).fetchone())
        self.is_settled = is_done

    @contextmanager
    def track(self, connection: object, is_ours: bool) -> Generator[None, None, None]:
        """Remember the connection while its transaction is open; LeaseLost when the job is no longer ours."""
        if not is_ours:
            raise LeaseLost(f"job {self.lease.key} is no longer leased to this worker")
        self.open_connection = connection
        try:
            yield
        finally:
            self.open_connection = None

    def settle_succeeded(
        self, connection: AsyncConnection[Any] | Connection[Any], result: Json
    ) -> Coroutine[Any, Any, None] | None:
        """Settle the job as succeeded in the open transaction; on an async connection the coroutine is awaited."""
        if connection is not self.open_connection:
            raise InvalidArgument("complete() needs the connection of ctx.transaction(), while that is open")
        checked = None if result is None else checked_result(result)
        if isinstance(connection, AsyncConnection):
            return self.settle_succeeded_async(connection, checked)
        with repository.translate_result_errors():
            connection.execute(
                JOB.statements.complete, repository.complete_parameters(self.lease, checked, self.pool.role)
            )
        return None

    async def settle_succeeded_async(self, connection: AsyncConnection[Any], result: Json) -> None:
        """Settle the job as succeeded in the open async transaction."""
        with repository.translate_result_errors():
            await repository.complete(connection, self.lease, result, self.pool.role)

    async def record_progress(self, stage: str | None, percent: int | None) -> None:
        """Store progress; LeaseLost when the job is no longer ours."""
        async with self.pool.transaction() as connection:
            is_ours = await repository.record_progress(connection, self.lease, stage, percent)
        if not is_ours:
            raise LeaseLost(f"job {self.lease.key} is no longer leased to this worker")

    def run_soon(self, recording: Coroutine[Any, Any, None]) -> Awaitable[None]:
        """Run a coroutine: on the event loop as a task that may be awaited, in a thread before this returns."""
        if running_loop() is not self.loop:
            asyncio.run_coroutine_threadsafe(recording, self.loop).result()
            return CompletedAwaitable()
        task = self.loop.create_task(recording)
        self.progress_tasks.add(task)
        task.add_done_callback(self.end_progress)
        return task

    def end_progress(self, task: asyncio.Task[None]) -> None:
        """Log progress that could not be recorded: the handler may not await the task."""
        self.progress_tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.info("job.progress_not_recorded", job=str(self.lease.key), why=str(error))

    def parameters(self, **others: object) -> dict[str, object]:
        """Build statement parameters from the lease and others."""
        return {"key": self.lease.key, "owner": self.lease.owner, **others}

    def translate_error(self, error: psycopg.Error) -> Exception:
        """Translate the error of a transaction that could not lock the job's row."""
        if isinstance(error, errors.LockNotAvailable):
            return Unavailable(f"job {self.lease.key}: another transaction has its row locked for more than 5 s")
        if isinstance(error, errors.InsufficientPrivilege):
            worker = self.pool.role or "the worker's login"
            return Misconfigured(f"{worker} may not act as {self.api_role}; run: grant {self.api_role} to {worker}")
        return error


class JobTransaction(AbstractAsyncContextManager[AsyncConnection[Any]], AbstractContextManager[Connection[Any]]):
    """A transaction of a handler, entered by `async with` or, in a sync handler, by `with`."""

    def __init__(self, database: JobDatabase) -> None:
        self.database = database
        self.open: Any = None

    async def __aenter__(self) -> AsyncConnection[Any]:
        self.open = self.database.transaction()
        return await self.open.__aenter__()

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self.open.__aexit__(error_type, error, trace)

    def __enter__(self) -> Connection[Any]:
        if running_loop() is self.database.loop:
            raise InvalidArgument("in an `async def` handler use: async with ctx.transaction()")
        self.open = self.database.sync_transaction()
        return self.open.__enter__()

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self.open.__exit__(error_type, error, trace)


class CompletedAwaitable:
    """An awaitable whose work has already been done."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop of this thread, if it runs one."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
