"""Jobs in a FastAPI application: enqueued in the transaction of a request and, optionally, performed in its process.

    app = FastAPI(lifespan=duly.integrations.fastapi.lifespan(jobs, worker=True))

    @app.post("/orders")
    async def order(tx: duly.integrations.fastapi.Transaction) -> None:
        await tx.execute("insert into orders ...")
        await thumbnail.on(tx).enqueue("a1")          # both or neither, before the response is sent

The embedded worker is the same as `duly worker`: control in a thread of its own, `async def` handlers on the event loop
of the server. It is stopped gracefully with the server. One that crashes is logged and replaced, and until the new one
is ready, `is_working` is false. docs/fastapi.md has the details.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, FastAPI
from psycopg import AsyncConnection
from starlette.requests import HTTPConnection

from duly.app import App
from duly.assembly import build_works
from duly.backoff import Backoff
from duly.db.location import Database, direct_dsn, open_database, role_to_set
from duly.db.migrations import names_from_settings
from duly.db.pool import Pool, open_pool
from duly.errors import DulyError, Misconfigured
from duly.logging import get_log
from duly.settings import Settings, load_settings
from duly.worker.runner import Worker

__all__ = ["Duly", "Transaction", "is_working", "lifespan", "transaction"]

RETRY = Backoff(base_seconds=1.0, cap_seconds=30.0)

log = get_log("duly.integrations.fastapi")


@dataclass(frozen=True)
class Duly:
    """The value of `request.state.duly`."""

    pool: Pool
    worker: "EmbeddedWorker | None" = None

    @property
    def is_working(self) -> bool:
        """Return whether this process has a worker, and it is ready."""
        return self.worker is not None and self.worker.is_working


def lifespan(
    app: App, *, worker: bool = False, dsn: str | None = None, settings: Settings | None = None
) -> Callable[[FastAPI], AbstractAsyncContextManager[Mapping[str, Any]]]:
    """Return a lifespan for `FastAPI(lifespan=...)`: a pool, and with `worker=True` a worker for the jobs of this app.

    The database is the one of `dsn`, else of DATABASE_URL, else the embedded server, which is migrated too. It may be
    unavailable when the server starts: then transactions fail and no jobs run until it is back.
    """

    @asynccontextmanager
    async def open_duly(_: FastAPI) -> AsyncGenerator[Mapping[str, Any], None]:
        mine = settings or load_settings()
        async with AsyncExitStack() as stack:
            database = await asyncio.to_thread(find_database, mine, dsn)
            stack.callback(database.close)
            pool = await stack.enter_async_context(open_pool(database.dsn, size=mine.pool_size, name="duly-fastapi"))
            if not worker:
                yield {"duly": Duly(pool)}
                return
            direct = database.dsn if dsn else direct_dsn(mine, database)
            async with EmbeddedWorker(app, mine, database.dsn, direct) as embedded:
                yield {"duly": Duly(pool, embedded)}

    return open_duly


def find_database(settings: Settings, dsn: str | None) -> Database:
    """Return the database to use; the embedded one is started and migrated."""
    if dsn is not None:
        return Database(dsn)
    database = open_database(settings)
    if database.server:
        from duly.db.migrate import migrate  # with Alembic and SQLAlchemy

        migrate(
            database.dsn,
            names_from_settings(settings),
            report=lambda text: log.info("database.migrating", step=text),
            when_empty=settings.apps,
        )
    return database


# For requests ---------------------------------------------------------------------------------------------------------


async def transaction(connection: HTTPConnection) -> AsyncGenerator[AsyncConnection[Any], None]:
    """Yield a connection in a transaction; it commits when the path operation returns, and rolls back if it raises.

    Its role is the login of the DSN. Use it as `Transaction`, or with `Depends(transaction, scope="function")`: then it
    commits before the response is sent.
    """
    async with get_duly(connection).pool.transaction() as given:
        yield given


Transaction = Annotated[AsyncConnection[Any], Depends(transaction, scope="function")]


def is_working(connection: HTTPConnection) -> bool:
    """Return whether this process has a worker that is ready; call it with a request, or use it as a dependency."""
    return get_duly(connection).is_working


def get_duly(connection: HTTPConnection) -> Duly:
    """Return what the lifespan of duly provides for requests; raises Misconfigured without it."""
    found = getattr(connection.state, "duly", None)
    if not isinstance(found, Duly):
        raise Misconfigured(
            "this application was not created with duly's lifespan: use "
            "FastAPI(lifespan=duly.integrations.fastapi.lifespan(jobs)); your own lifespan must yield what it yields"
        )
    return found


# The embedded worker --------------------------------------------------------------------------------------------------


class EmbeddedWorker:
    """A worker on this event loop, replaced when it crashes, until the context ends."""

    def __init__(self, app: App, settings: Settings, dsn: str, direct: str) -> None:
        self.app = app
        self.settings = settings
        self.dsn = dsn
        self.direct = direct
        self.worker: Worker | None = None
        self.stopping = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    @property
    def is_working(self) -> bool:
        """Return whether the worker is ready."""
        return self.worker is not None and self.worker.control.is_ready()

    async def __aenter__(self) -> "EmbeddedWorker":
        self.task = asyncio.create_task(self.run_until_stopped(), name="duly-worker")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop gracefully: running jobs may finish for DULY_STOP_SECONDS, then they are released."""
        assert self.task, "set in __aenter__"
        self.stopping.set()
        if self.worker:
            self.worker.request_stop()
        await self.task

    async def run_until_stopped(self) -> None:
        """Run a worker until the stop; when it crashes, log that, wait, and start another."""
        failures = 0
        while not self.stopping.is_set():
            started_at = asyncio.get_running_loop().time()
            try:
                await self.run_worker()
            except Exception as error:
                self.report(error)
            run_seconds = asyncio.get_running_loop().time() - started_at
            failures = failures + 1 if run_seconds < RETRY.cap_seconds else 0
            await self.wait_or_stop(RETRY.delay_seconds(min(failures, 10)))

    def report(self, error: Exception) -> None:
        """Log a crash of the worker; with a traceback only if it is not an error of duly's own."""
        trace = None if isinstance(error, DulyError) else error
        log.error("worker.crashed", error=str(error), exc_info=trace)

    async def run_worker(self) -> None:
        """Run one worker until it ends."""
        works = build_works(self.settings, ["ledger"], self.app)
        role = role_to_set(self.dsn, self.settings.worker_role)
        self.worker = Worker(works, self.settings, dsn=self.dsn, direct_dsn=self.direct, role=role)
        try:
            await self.worker.run()
        finally:
            self.worker = None

    async def wait_or_stop(self, seconds: float) -> None:
        """Wait for some seconds, or until the stop."""
        try:
            async with asyncio.timeout(seconds):
                await self.stopping.wait()
        except TimeoutError:
            return
