"""Jobs in a FastAPI application: asked for in a request's transaction and, if you like, performed in the same process.

    app = FastAPI(lifespan=duly.integrations.fastapi.lifespan(jobs, worker=True))

    @app.post("/orders")
    async def order(tx: duly.integrations.fastapi.Transaction) -> None:
        await tx.execute("insert into orders ...")
        await thumbnail.on(tx).enqueue("a1")          # both, or neither, and before the client hears of it

The worker beside the server is the same as `duly worker`: control in a thread of its own, `async def` handlers on the
server's loop. It is stopped politely when the server stops. One that dies is logged and followed by another, and until
that works, `is_working` says no. docs/fastapi.md shows the whole of it.
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
from duly.backoff import Backoff
from duly.db.location import Database, open_database, role_on
from duly.db.migrate import direct_dsn, migrate
from duly.db.migrations import names_of
from duly.db.pool import Pool, open_pool
from duly.errors import DulyError, Misconfigured
from duly.logging import get_log
from duly.settings import Settings, load_settings
from duly.wiring import works_of
from duly.worker.runner import Worker

__all__ = ["Duly", "Transaction", "is_working", "lifespan", "transaction"]

RETRY = Backoff(base_seconds=1.0, cap_seconds=30.0)

log = get_log("duly.integrations.fastapi")


@dataclass(frozen=True)
class Duly:
    """What a request finds as `request.state.duly`."""

    pool: Pool
    worker: "Beside | None" = None

    @property
    def is_working(self) -> bool:
        """Is there a worker in this process, and can it work now?"""
        return self.worker is not None and self.worker.is_working


def lifespan(
    app: App, *, worker: bool = False, dsn: str | None = None, settings: Settings | None = None
) -> Callable[[FastAPI], AbstractAsyncContextManager[Mapping[str, Any]]]:
    """A lifespan for `FastAPI(lifespan=...)`: a pool, and with `worker=True` a worker for the jobs of this app.

    The database is the one of `dsn`, else of DATABASE_URL, else the embedded server, which is migrated too. It may be
    away when the server starts: then there are no transactions and no work until it is back.
    """

    @asynccontextmanager
    async def living(_: FastAPI) -> AsyncGenerator[Mapping[str, Any], None]:
        mine = settings or load_settings()
        async with AsyncExitStack() as stack:
            database = await asyncio.to_thread(find_database, mine, dsn)
            stack.callback(database.close)
            pool = await stack.enter_async_context(open_pool(database.dsn, size=mine.pool_size, name="duly-fastapi"))
            if not worker:
                yield {"duly": Duly(pool)}
                return
            direct = database.dsn if dsn else direct_dsn(mine, database)
            async with Beside(app, mine, database.dsn, direct) as beside:
                yield {"duly": Duly(pool, beside)}

    return living


def find_database(settings: Settings, dsn: str | None) -> Database:
    """Which database; the embedded one is started, and gets our tables, for nobody else would make them."""
    if dsn is not None:
        return Database(dsn)
    database = open_database(settings)
    if database.server:
        migrate(database.dsn, names_of(settings), report=lambda words: log.info("migrating", note=words))
    return database


# For requests ---------------------------------------------------------------------------------------------------------


async def transaction(connection: HTTPConnection) -> AsyncGenerator[AsyncConnection[Any], None]:
    """A dependency: a connection in a transaction, committed when the path operation returns, rolled back if it raises.

    It acts as the login of the address. Use it as `Transaction`, or with `Depends(transaction, scope="function")`: then
    it is committed before the answer is sent.
    """
    async with duly_of(connection).pool.transaction() as given:
        yield given


Transaction = Annotated[AsyncConnection[Any], Depends(transaction, scope="function")]


def is_working(connection: HTTPConnection) -> bool:
    """Is there a worker in this process, and can it work now? Called with a request, or as a dependency."""
    return duly_of(connection).is_working


def duly_of(connection: HTTPConnection) -> Duly:
    """What our lifespan left for requests."""
    found = getattr(connection.state, "duly", None)
    if not isinstance(found, Duly):
        raise Misconfigured(
            "this application was not created with duly's lifespan: use "
            "FastAPI(lifespan=duly.integrations.fastapi.lifespan(jobs)); your own lifespan must yield what it yields"
        )
    return found


# The worker beside ----------------------------------------------------------------------------------------------------


class Beside:
    """A worker on this loop, followed by another if it dies, until we leave."""

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
        """Can it work now?"""
        return self.worker is not None and self.worker.control.ready()

    async def __aenter__(self) -> "Beside":
        self.task = asyncio.create_task(self.keep_working(), name="duly-worker")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop politely: what runs may finish for DULY_STOP_SECONDS, then it is handed back."""
        assert self.task, "we entered before we leave"
        self.stopping.set()
        if self.worker:
            self.worker.ask_to_stop()
        await self.task

    async def keep_working(self) -> None:
        """Work until we are to stop; whatever ends a worker before is told, and after a pause there is another."""
        failures = 0
        while not self.stopping.is_set():
            began = asyncio.get_running_loop().time()
            try:
                await self.work()
            except Exception as error:
                self.report(error)
            lived = asyncio.get_running_loop().time() - began
            failures = failures + 1 if lived < RETRY.cap_seconds else 0
            await self.rest(RETRY.delay_seconds(min(failures, 10)))

    def report(self, error: Exception) -> None:
        """Say that a worker died, and of what; how we came there only where that is not said already."""
        trace = None if isinstance(error, DulyError) else error
        log.error("the worker beside this server died; another follows", error=str(error), exc_info=trace)

    async def work(self) -> None:
        """One worker, to its end."""
        works = works_of(self.settings, ["ledger"], self.app)
        role = role_on(self.dsn, self.settings.worker_role)
        self.worker = Worker(works, self.settings, dsn=self.dsn, direct_dsn=self.direct, role=role)
        try:
            await self.worker.run()
        finally:
            self.worker = None

    async def rest(self, seconds: float) -> None:
        """Wait so long, or until we are to stop."""
        try:
            async with asyncio.timeout(seconds):
                await self.stopping.wait()
        except TimeoutError:
            return
