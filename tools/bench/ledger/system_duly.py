"""duly: the real runtime with declared job types, nothing taken out."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID

import psycopg
from psycopg import AsyncConnection, sql
from psycopg.conninfo import make_conninfo

from duly.app import App
from duly.backoff import Backoff, BackoffPolicy
from duly.jobs import repository
from duly.jobs.model import DEFAULT_ORG, JobOptions, JobRequest
from duly.jobs.work import Context, JobWork
from duly.lease.work import Tuning
from duly.logging import configure_logs
from duly.outcomes import Later
from duly.settings import load_settings
from duly.worker.runner import run_worker
from tests.support.jobs.insert_jobs import insert_jobs
from tools.bench.ledger.start_log import StartLog
from tools.bench.ledger.system import BATCH, UNTIMED, Client, System

TUNING = Tuning(slots=2 * BATCH, batch=BATCH)  # two cycles, each of which may hold a full batch
API, WORKER = "duly_api", "duly_worker"
HEARTBEAT = "BENCH_HEARTBEAT_SECONDS"  # a cancel request reaches a handler with the heartbeat
AN_HOUR = 3600.0
START_LOGS: list[StartLog] = []

app = App()


@app.job("noop")
async def noop(_context: Context, n: int) -> None:
    """Do nothing, and record the start."""
    START_LOGS[0].record(n)


@app.job("retry")
async def retry(context: Context, n: int) -> None:
    """Fail the first time; the second attempt succeeds."""
    START_LOGS[0].record(n)
    if context.attempt == 0:
        raise TimeoutError("the service did not answer in 5 s")


@app.job("fail")
async def fail(_context: Context, n: int) -> None:
    """Fail; with one attempt that is a dead letter."""
    START_LOGS[0].record(n)
    raise TimeoutError("the service did not answer in 5 s")


@app.job("later")
async def later(context: Context, n: int) -> Later | None:
    """Go back to the queue once: the statement is that of a release at shutdown."""
    START_LOGS[0].record(n)
    return Later(0) if context.snoozes == 0 else None


@app.job("progress")
async def progress(context: Context, n: int) -> None:
    """Record progress once."""
    START_LOGS[0].record(n)
    await context.progress("halfway", 50)


@app.job("wait")
async def wait(_context: Context, n: int) -> None:
    """Run until it is cancelled."""
    START_LOGS[0].record(n)
    await asyncio.sleep(AN_HOUR)


OPTIONS = {
    "retry": JobOptions(backoff=Backoff(BackoffPolicy.NONE)),
    "fail": JobOptions(max_attempts=1),
}


class DulyClient(Client):
    """A psycopg connection in autocommit, as `duly_api`."""

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self.connection = connection
        self.request = JobRequest(DEFAULT_ORG, "noop")

    async def enqueue_one(self, number: int) -> None:
        await noop.on(self.connection).enqueue(n=number)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        await insert_jobs(self.connection, self.request, [{"n": number} for number in numbers])

    async def enqueue_in_one_commit(self, jobs: int) -> None:
        async with self.connection.transaction():
            await self.enqueue_in_batches(jobs)

    async def enqueue_type(self, job_type: str, jobs: int) -> list[UUID]:
        """Enqueue jobs of a type in one commit; return their ids."""
        request = replace(self.request, type=job_type, options=OPTIONS.get(job_type, JobOptions()))
        ids: list[UUID] = []
        async with self.connection.transaction():
            for begin in range(0, jobs, BATCH):
                payloads = [{"n": UNTIMED}] * min(BATCH, jobs - begin)
                ids += [row["id"] for row in await insert_jobs(self.connection, request, payloads)]
        return ids

    async def cancel(self, ids: Sequence[UUID]) -> None:
        """Cancel jobs one by one, each a commit, as the API does."""
        for job_id in ids:
            async with self.connection.transaction():
                await repository.set_org(self.connection, DEFAULT_ORG)
                await repository.cancel_job(self.connection, DEFAULT_ORG, job_id, "bench")


class Duly(System):
    """duly."""

    name = "duly"
    setting = f"slots {TUNING.slots}, batch {TUNING.batch}"
    unfinished = "unfinished_of_duly"

    def build(self, dsn: str) -> None:
        from duly.db.migrate import migrate  # here: a worker does not need it and would pay its memory
        from duly.db.migrations import Names

        migrate(dsn, Names())
        with psycopg.connect(dsn, autocommit=True) as admin:
            for role in (WORKER, API):
                admin.execute(sql.SQL("alter role {} login").format(sql.Identifier(role)))

    @asynccontextmanager
    async def client(self, dsn: str) -> AsyncGenerator[DulyClient, None]:
        async with await AsyncConnection.connect(make_conninfo(dsn, user=API), autocommit=True) as connection:
            yield DulyClient(connection)

    def work(self, dsn: str, start_log: StartLog) -> None:
        START_LOGS.append(start_log)
        settings = load_settings().model_copy(update={"log_level": "warning"})
        configure_logs(settings, sys.stderr)
        heartbeat = os.environ.get(HEARTBEAT)
        tuning = replace(TUNING, heartbeat_seconds=float(heartbeat)) if heartbeat else TUNING
        run_worker([JobWork(app.handlers(), tuning)], settings, dsn=make_conninfo(dsn, user=WORKER))


SYSTEM = Duly()
