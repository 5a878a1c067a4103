"""What a handler knows of the job it performs, and its way to the database.

    async with ctx.transaction() as tx:          # nobody else can have the job before this ends
        await tx.execute("insert into invoices ...")
        await ctx.complete(tx, {"invoice": 42})  # the job ends with what it did: both, or neither

The transaction begins by locking the job's row by its owner, so a handler that lost its job without noticing gets
`LeaseLost` and writes nothing. Then it steps down: it acts for the job's org, as the API's role. In a plain function
the same is written without `async` and `await`.
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

from duly.canonical_json import Json
from duly.db.pool import Pool
from duly.errors import InvalidArgument, LeaseLost, Misconfigured, Unavailable
from duly.jobs import repository
from duly.jobs.states import JOB
from duly.lease.operations import Lease, find_settled, keys_and_owners, render
from duly.lease.work import StopSign
from duly.logging import get_log
from duly.outcomes import Stopped, checked_result

__all__ = ["Context", "Desk", "Fenced"]

MAX_STAGE_LENGTH = 200

log = get_log("duly.jobs")


@dataclass(frozen=True, slots=True)
class Context:
    """What a handler may know of the job it performs, and do about it."""

    job_id: UUID
    org_id: UUID
    type: str
    queue: str
    attempt: int  # 0 the first time
    max_attempts: int
    snoozes: int = 0  # how often its handler said `Later`, which counts no attempt
    sign: StopSign = field(default_factory=StopSign)
    desk: "Desk | None" = field(default=None, repr=False, compare=False)

    @property
    def should_stop(self) -> bool:
        """Is it better to stop: lost, cancelled, too late, or the worker must go? For loops in plain functions."""
        return self.sign.is_up

    def stopped(self) -> Stopped:
        """What to return, or raise, when `should_stop` is why the handler ends unfinished.

        At a shutdown the job is handed back and its start with it; a job that was to be cancelled is canceled.
        """
        return Stopped()

    @property
    def is_settled(self) -> bool:
        """Did a transaction that completed the job commit?"""
        return self.desk is not None and self.desk.is_settled

    def transaction(self) -> "Fenced":
        """A short transaction that holds the job's row: `async with`, or in a plain function `with`."""
        return Fenced(self.at_desk())

    @overload
    def complete(self, connection: AsyncConnection[Any], result: Json = None) -> Coroutine[Any, Any, None]: ...
    @overload
    def complete(self, connection: Connection[Any], result: Json = None) -> None: ...
    def complete(
        self, connection: AsyncConnection[Any] | Connection[Any], result: Json = None
    ) -> Coroutine[Any, Any, None] | None:
        """End the job, done with this result, inside the transaction that `transaction()` gave."""
        return self.at_desk().complete(connection, result)

    def progress(self, stage: str | None = None, percent: int | None = None) -> Awaitable[None]:
        """Say how far it is; awaited, or in a plain function simply called, it raises LeaseLost when it is lost."""
        if percent is not None and not 0 <= percent <= 100:
            raise InvalidArgument(f"progress of {percent}: must be between 0 and 100")
        if stage is not None and not 1 <= len(stage) <= MAX_STAGE_LENGTH:
            raise InvalidArgument(f"a stage of {len(stage)} characters: must have 1 to {MAX_STAGE_LENGTH}")
        desk = self.at_desk()
        return desk.soon(desk.record(stage, percent))

    def at_desk(self) -> "Desk":
        """Our way to the database, which an isolated handler does not have."""
        if self.desk is None:
            raise Misconfigured(
                f"the handler of the job type '{self.type}' has no database here: an isolated one runs in a child "
                "process without; return the result instead, or declare the type without isolate=True"
            )
        return self.desk


class Desk:
    """One held job's way to the database, from the loop and the threads that handlers run on."""

    __slots__ = ("api_role", "is_settled", "lease", "loop", "open", "pool", "saying")

    def __init__(self, lease: Lease, pool: Pool, api_role: str, loop: asyncio.AbstractEventLoop) -> None:
        self.lease = lease
        self.pool = pool
        self.api_role = api_role
        self.loop = loop
        self.open: object = None  # the connection of the transaction under way
        self.is_settled = False  # a transaction in which the job was completed has committed
        self.saying: asyncio.Task[None] | None = None  # the last that was said, so that it is not forgotten

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[AsyncConnection[Any], None]:
        """A transaction that holds the job's row, for its org and as the API."""
        async with self.pool.transaction() as connection:
            try:
                is_ours = await repository.fence(connection, self.lease, self.api_role)
            except psycopg.Error as error:
                raise self.obstacle(error) from None
            with self.opened(connection, is_ours):
                yield connection
            is_done = bool(await find_settled(connection, [self.lease]))
        self.is_settled = is_done

    @contextmanager
    def plain_transaction(self) -> Generator[Connection[Any], None, None]:
        """The same for a plain function in a thread."""
        with self.pool.plain.transaction() as connection:
            try:
                row = connection.execute(repository.SQL.fence, self.parameters(role=self.api_role)).fetchone()
            except psycopg.Error as error:
                raise self.obstacle(error) from None
            with self.opened(connection, row == (True,)):
                yield connection
            is_done = bool(connection.execute(render(JOB, "find_settled"), keys_and_owners([self.lease])).fetchone())
        self.is_settled = is_done

    @contextmanager
    def opened(self, connection: object, is_ours: bool) -> Generator[None, None, None]:
        """Remember the transaction that is open; refuse one for a job that is no longer ours."""
        if not is_ours:
            raise LeaseLost(f"job {self.lease.key} is held by somebody else now, or has ended")
        self.open = connection
        try:
            yield
        finally:
            self.open = None

    def complete(
        self, connection: AsyncConnection[Any] | Connection[Any], result: Json
    ) -> Coroutine[Any, Any, None] | None:
        """Settle the job in the transaction under way."""
        if connection is not self.open:
            raise InvalidArgument("complete() takes the connection that ctx.transaction() gave, while it is open")
        checked = None if result is None else checked_result(result)
        if isinstance(connection, AsyncConnection):
            return self.settle(connection, checked)
        with repository.results_refused():
            connection.execute(
                repository.SQL.complete, repository.parameters_of_complete(self.lease, checked, self.pool.role)
            )
        return None

    async def settle(self, connection: AsyncConnection[Any], result: Json) -> None:
        """Settle the job in an async transaction."""
        with repository.results_refused():
            await repository.complete(connection, self.lease, result, self.pool.role)

    async def record(self, stage: str | None, percent: int | None) -> None:
        """Write progress down, or LeaseLost."""
        async with self.pool.transaction() as connection:
            is_ours = await repository.record_progress(connection, self.lease, stage, percent)
        if not is_ours:
            raise LeaseLost(f"job {self.lease.key} is held by somebody else now, or has ended")

    def soon(self, saying: Coroutine[Any, Any, None]) -> Awaitable[None]:
        """Do it now: on the loop as a task that may be awaited, in a thread before we return."""
        if running_loop() is not self.loop:
            asyncio.run_coroutine_threadsafe(saying, self.loop).result()
            return Nothing()
        self.saying = self.loop.create_task(saying)
        self.saying.add_done_callback(self.note_unsaid)
        return self.saying

    def note_unsaid(self, task: asyncio.Task[None]) -> None:
        """What could not be said is worth a line: perhaps nobody waits for it."""
        if not task.cancelled() and (error := task.exception()):
            log.info("progress was not recorded", job=str(self.lease.key), why=str(error))

    def parameters(self, **more: object) -> dict[str, object]:
        """Which job, and who holds it."""
        return {"key": self.lease.key, "owner": self.lease.owner, **more}

    def obstacle(self, error: psycopg.Error) -> Exception:
        """What kept us from the job's row, in words."""
        if isinstance(error, errors.LockNotAvailable):
            return Unavailable(f"somebody else has been at job {self.lease.key} for longer than 5 s")
        if isinstance(error, errors.InsufficientPrivilege):
            worker = self.pool.role or "the worker's login"
            return Misconfigured(f"{worker} may not act as {self.api_role}; run: grant {self.api_role} to {worker}")
        return error


class Fenced(AbstractAsyncContextManager[AsyncConnection[Any]], AbstractContextManager[Connection[Any]]):
    """A transaction of a handler, entered by `async with` or, in a plain function, by `with`."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.entered: Any = None

    async def __aenter__(self) -> AsyncConnection[Any]:
        self.entered = self.desk.transaction()
        return await self.entered.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self.entered.__aexit__(kind, error, trace)

    def __enter__(self) -> Connection[Any]:
        if running_loop() is self.desk.loop:
            raise InvalidArgument("an `async def` handler writes: async with ctx.transaction()")
        self.entered = self.desk.plain_transaction()
        return self.entered.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self.entered.__exit__(kind, error, trace)


class Nothing:
    """Has happened already; may be awaited."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The loop of this thread, if it runs one."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
