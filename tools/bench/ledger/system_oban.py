"""Oban for Python over psycopg: finished jobs stay, one UPDATE per job when it ends."""

# Installed in an environment of its own, see peers.py.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUntypedClassDecorator=false, reportUnknownParameterType=false
# pyright: reportAttributeAccessIssue=false

import asyncio
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import uvloop
from oban import Job, Oban, worker
from oban.schema import install
from psycopg_pool import AsyncConnectionPool

from tools.bench.ledger.start_log import StartLog
from tools.bench.ledger.system import BATCH, UNTIMED, Client, System

LIMIT = 1000  # stated in peers.py too
START_LOGS: list[StartLog] = []


@worker(queue="default")
class Noop:
    """The job type."""

    async def process(self, job: Job) -> None:
        """Do nothing, and record the start."""
        START_LOGS[0].record(job.args["n"])


class ObanClient(Client):
    """An Oban without queues, which enqueues only."""

    def __init__(self, oban: Oban, pool: Any) -> None:
        self.oban = oban
        self.pool = pool

    async def enqueue_one(self, number: int) -> None:
        await self.oban.enqueue(Noop.new({"n": number}))

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        await self.oban.enqueue_many([Noop.new({"n": number}) for number in numbers])

    async def enqueue_in_one_commit(self, jobs: int) -> None:
        async with self.pool.connection() as connection, connection.transaction():
            for begin in range(0, jobs, BATCH):
                numbers = [UNTIMED] * min(BATCH, jobs - begin)
                await self.oban.enqueue_many([Noop.new({"n": number}) for number in numbers], conn=connection)


class ObanSystem(System):
    """Oban."""

    name = "oban"  # its other attributes stand in peers.py

    def build(self, dsn: str) -> None:
        uvloop.run(self.install(dsn))

    async def install(self, dsn: str) -> None:
        """Run its own installer."""
        async with AsyncConnectionPool(dsn, min_size=1, max_size=1, open=False) as pool:
            await install(pool)

    @asynccontextmanager
    async def client(self, dsn: str) -> AsyncGenerator[Client, None]:
        async with AsyncConnectionPool(dsn, min_size=1, max_size=1, open=False) as pool:
            yield ObanClient(Oban(pool=pool), pool)

    def work(self, dsn: str, start_log: StartLog) -> None:
        START_LOGS.append(start_log)
        uvloop.run(self.run(dsn))

    async def run(self, dsn: str) -> None:
        """Run its worker."""
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        async with (
            AsyncConnectionPool(dsn, min_size=1, max_size=20, open=False) as pool,
            Oban(pool=pool, queues={"default": LIMIT}),
        ):
            await stopped.wait()


SYSTEM = ObanSystem()
