"""Ourselves: the real runtime with one declared job type, nothing taken out."""

import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection, sql
from psycopg.conninfo import make_conninfo

from duly.app import App
from duly.jobs.enqueue import insert_jobs
from duly.jobs.model import DEFAULT_ORG, JobRequest
from duly.jobs.work import Context, JobWork
from duly.lease.work import Tuning
from duly.logging import configure_logs
from duly.settings import load_settings
from duly.worker.runner import run_worker
from tools.bench.ledger.board import Board
from tools.bench.ledger.side import BATCH, UNCOUNTED, Client, Side

TUNING = Tuning(slots=2 * BATCH, batch=BATCH)  # two cycles, each of which may hold a full batch
BOARD: list[Board] = []
API, WORKER = "duly_api", "duly_worker"

app = App()


@app.job("noop")
async def noop(_context: Context, n: int) -> None:
    """Does nothing, and lets the board know."""
    BOARD[0].begin(n)


class OurClient(Client):
    """A psycopg connection in autocommit, as `duly_api`."""

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self.connection = connection
        self.request = JobRequest(DEFAULT_ORG, "noop")

    async def one(self, number: int) -> None:
        await noop.on(self.connection).enqueue(n=number)

    async def many(self, numbers: Sequence[int]) -> None:
        await insert_jobs(self.connection, self.request, [{"n": number} for number in numbers])

    async def all_at_once(self, jobs: int) -> None:
        async with self.connection.transaction():
            for begin in range(0, jobs, BATCH):
                await self.many([UNCOUNTED] * min(BATCH, jobs - begin))


class Ours(Side):
    """duly."""

    name = "duly"
    setting = f"slots {TUNING.slots}, batch {TUNING.batch}"
    unfinished = "unfinished_of_duly"

    def build(self, dsn: str) -> None:
        from duly.db.migrate import migrate  # here, for a worker has no use for it and would pay its memory
        from duly.db.migrations import Names

        migrate(dsn, Names())
        with psycopg.connect(dsn, autocommit=True) as admin:
            for role in (WORKER, API):
                admin.execute(sql.SQL("alter role {} login").format(sql.Identifier(role)))

    @asynccontextmanager
    async def client(self, dsn: str) -> AsyncGenerator[Client, None]:
        async with await AsyncConnection.connect(make_conninfo(dsn, user=API), autocommit=True) as connection:
            yield OurClient(connection)

    def work(self, dsn: str, board: Board) -> None:
        BOARD.append(board)
        settings = load_settings().model_copy(update={"log_level": "warning"})
        configure_logs(settings, sys.stderr)
        run_worker([JobWork(app.handlers(), TUNING)], settings, dsn=make_conninfo(dsn, user=WORKER))


SIDE = Ours()
