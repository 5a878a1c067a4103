"""procrastinate over psycopg, with the concurrency that suits it best."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import uvloop
from procrastinate import App, PsycopgConnector

from tools.bench.ledger.start_log import StartLog
from tools.bench.ledger.system import UNTIMED, Client, System

CONCURRENCY = 20


class TheirClient(Client):
    """An application with one connection in its pool."""

    def __init__(self, app: App) -> None:
        self.task = app.configure_task("noop")

    async def enqueue_one(self, number: int) -> None:
        await self.task.defer_async(n=number)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        await self.task.batch_defer_async(*(build_payload(number) for number in numbers))

    async def enqueue_in_one_commit(self, jobs: int) -> None:
        await self.enqueue_many([UNTIMED] * jobs)


def build_payload(number: int) -> dict[str, Any]:
    """What its handler is called with."""
    return {"n": number}


class Procrastinate(System):
    """procrastinate."""

    name = "procrastinate"
    setting = f"psycopg, concurrency {CONCURRENCY}"
    unfinished = "unfinished_of_procrastinate"

    def build(self, dsn: str) -> None:
        uvloop.run(self.install(dsn))

    async def install(self, dsn: str) -> None:
        """Its own installer."""
        async with self.opened(dsn, 1) as app:
            await app.schema_manager.apply_schema_async()

    @asynccontextmanager
    async def opened(self, dsn: str, connections: int) -> AsyncGenerator[App, None]:
        """An application on this database."""
        app = App(connector=PsycopgConnector(conninfo=dsn, min_size=1, max_size=connections))
        async with app.open_async():
            yield app

    @asynccontextmanager
    async def client(self, dsn: str) -> AsyncGenerator[Client, None]:
        async with self.opened(dsn, 1) as app:
            yield TheirClient(app)

    def work(self, dsn: str, start_log: StartLog) -> None:
        uvloop.run(self.run(dsn, start_log))

    async def run(self, dsn: str, start_log: StartLog) -> None:
        """Its worker; it hears SIGTERM by itself."""
        async with self.opened(dsn, CONCURRENCY + 2) as app:

            @app.task(name="noop")
            async def noop(n: int) -> None:  # pyright: ignore[reportUnusedFunction]
                start_log.record(n)

            await app.run_worker_async(concurrency=CONCURRENCY)


SYSTEM = Procrastinate()
