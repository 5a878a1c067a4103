"""pgqueuer over asyncpg, with the batch that suits it best; all its tables logged, which is its own default."""

# asyncpg says next to nothing about its types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeArgument=false, reportUnknownParameterType=false, reportMissingTypeStubs=false

import asyncio
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from tools.bench.ledger.start_log import StartLog
from tools.bench.ledger.system import BATCH, UNTIMED, Client, System, asyncpg_arguments

NOOP = "noop"


class TheirClient(Client):
    """An asyncpg connection, which is in autocommit by itself."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection
        self.queries = Queries(AsyncpgDriver(connection))

    async def enqueue_one(self, number: int) -> None:
        await self.queries.enqueue(NOOP, b"%d" % number)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        payloads: list[bytes | None] = [b"%d" % number for number in numbers]
        await self.queries.enqueue([NOOP] * len(payloads), payloads, [0] * len(payloads))

    async def enqueue_in_one_commit(self, jobs: int) -> None:
        async with self.connection.transaction():
            for begin in range(0, jobs, BATCH):
                await self.enqueue_many([UNTIMED] * min(BATCH, jobs - begin))


class Pgqueuer(System):
    """pgqueuer."""

    name = "pgqueuer"
    setting = f"asyncpg, batch_size {BATCH}"
    unfinished = "unfinished_of_pgqueuer"

    def build(self, dsn: str) -> None:
        uvloop.run(self.install(dsn))

    async def install(self, dsn: str) -> None:
        """Its own installer."""
        connection = await asyncpg.connect(**asyncpg_arguments(dsn))
        await Queries(AsyncpgDriver(connection)).install()
        await connection.close()

    @asynccontextmanager
    async def client(self, dsn: str) -> AsyncGenerator[Client, None]:
        connection = await asyncpg.connect(**asyncpg_arguments(dsn))
        try:
            yield TheirClient(connection)
        finally:
            await connection.close()

    def work(self, dsn: str, start_log: StartLog) -> None:
        uvloop.run(self.run(dsn, start_log))

    async def run(self, dsn: str, start_log: StartLog) -> None:
        """Its worker, which also runs its scheduler."""
        queuer = PgQueuer.from_asyncpg_connection(await asyncpg.connect(**asyncpg_arguments(dsn)))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, queuer.shutdown.set)

        @queuer.entrypoint(NOOP)
        async def noop(job: Job) -> None:
            start_log.record(int(job.payload or b""))

        await queuer.run(batch_size=BATCH)


SYSTEM = Pgqueuer()
