"""Statements of workers read rows in proportion to the batch, on a table analysed while it was idle."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from duly.db.migrations import Names
from duly.db.pool import connect
from duly.jobs import repository
from duly.jobs.enqueue import insert_job
from duly.jobs.model import JobRequest
from duly.lease.operations import Lease, renew_leases
from tests.support.jobs.actions import JOB_TYPE, LEASE, ORG, Connection, JobActions
from tests.support.jobs.insert_jobs import insert_jobs
from tests.support.plans import check_plan

FINISHED = 5_000
BATCH = 500
MAX_ROWS_PER_JOB = 8  # a failure is two updates, and each looks a row up to lock, to change and for its event
PLANS = (
    "load 'auto_explain'",
    "set auto_explain.log_nested_statements = on",
    "set auto_explain.log_analyze = on",
    "set auto_explain.log_timing = off",
    "set auto_explain.log_min_duration = 0",
    "set client_min_messages = log",
)
OF_JOBS = re.compile(r" on job(_event)?\b")
READ = """
select coalesce(sum(seq_tup_read + idx_tup_fetch), 0)
from pg_stat_xact_user_tables
where relid = 'ledger.job'::regclass
"""


@dataclass(frozen=True)
class Watched:
    """A worker's connection, and the plans of its statements, including those inside functions and triggers."""

    connection: Connection
    plans: list[str] = field(default_factory=list[str])

    async def run(self, name: str, work: Callable[[Connection], Awaitable[Any]], jobs: int = BATCH) -> Any:
        """Run an operation on some jobs, and check what it read and its plans."""
        self.plans.clear()
        async with self.connection.transaction():
            before = await self.rows_read()
            result = await work(self.connection)
            read = await self.rows_read() - before
        assert read <= MAX_ROWS_PER_JOB * jobs, f"{name} of {jobs} jobs read {read} rows"
        for plan in filter(OF_JOBS.search, self.plans):
            check_plan(name, plan, tables="job|job_event")
            assert "JIT:" not in plan, f"{name} was compiled:\n{plan}"
        return result

    async def rows_read(self) -> int:
        """Return how many rows of jobs this transaction has read."""
        row = await (await self.connection.execute(READ)).fetchone()
        assert row
        return int(row[0])


@pytest.fixture
async def watched(movable_database: str) -> AsyncGenerator[Watched, None]:
    """A connection with the worker's role whose plans are logged."""
    async with await connect(movable_database) as connection:
        try:
            for statement in PLANS:
                await connection.execute(statement.encode())
        except psycopg.errors.UndefinedFile:
            pytest.skip("this PostgreSQL comes without auto_explain")
        await connection.execute(f"set role {Names().worker}".encode())
        found = Watched(connection)
        connection.add_notice_handler(lambda notice: found.plans.append(notice.message_primary or ""))
        yield found


async def enqueue_and_claim(jobs: JobActions, watched: Watched) -> Sequence[Lease]:
    """Claim a batch of jobs."""
    await insert_jobs(jobs.worker, JobRequest(ORG, "work"), [{"n": n} for n in range(BATCH)])
    leases = await watched.run(
        "claim", lambda it: repository.claim_jobs(it, "worker-1", [JOB_TYPE], lease_seconds=LEASE, limit=BATCH)
    )
    assert len(leases) == BATCH
    return leases


@pytest.mark.parametrize("mode", ["auto", "force_custom_plan", "force_generic_plan"])
async def test_worker_statements_read_linearly_in_the_batch_on_a_table_analysed_while_idle(
    mode: str, jobs: JobActions, admin: psycopg.Connection[Any], watched: Watched
) -> None:
    await insert_jobs(jobs.worker, JobRequest(ORG, "work"), [{"n": n} for n in range(FINISHED)])
    while leases := await jobs.claim(limit=BATCH):
        await repository.settle_done(jobs.worker, leases, [None] * len(leases))
    admin.execute("analyze ledger.job")
    await watched.connection.execute(f"set plan_cache_mode = {mode}".encode())
    nothing, codes, texts = [None] * BATCH, ["OOPS"] * BATCH, ["because"] * BATCH
    leases = await enqueue_and_claim(jobs, watched)
    await watched.run("renew", lambda it: renew_leases(it, leases, lease_seconds=LEASE))
    assert len(await watched.run("done", lambda it: repository.settle_done(it, leases, nothing))) == BATCH
    leases = await enqueue_and_claim(jobs, watched)
    await watched.run("release", lambda it: repository.snooze(it, leases, [3600.0] * BATCH))
    leases = await enqueue_and_claim(jobs, watched)
    await watched.run("mark_failed", lambda it: repository.settle_failed(it, leases, codes, texts))
    leases = await enqueue_and_claim(jobs, watched)
    jobs.advance_clock(LEASE + 1)
    assert len(await watched.run("sweep", lambda it: repository.sweep_jobs(it, limit=BATCH))) == BATCH


async def test_enqueueing_planned_on_an_empty_table_stays_cheap_on_a_full_one(
    jobs: JobActions, admin: psycopg.Connection[Any], watched: Watched
) -> None:
    admin.execute("vacuum analyze ledger.job")
    for _ in range(10):  # until the plans of this session are made
        await insert_job(watched.connection, JobRequest(ORG, "work"))
    await insert_jobs(jobs.worker, JobRequest(ORG, "work"), [{"n": n} for n in range(FINISHED)])
    await watched.run("enqueue", lambda it: insert_job(it, JobRequest(ORG, "work")), jobs=1)
