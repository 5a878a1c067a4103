"""The life of jobs on every supported PostgreSQL, and the plans of the statements."""

import re
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.db.pool import connect
from duly.jobs import JOB, limits, repository
from duly.jobs.model import DeadLetterFilter, JobRequest, JobStatus, TypeInQueue
from tests.support.jobs.actions import JOB_TYPE, LEASE, ORG, Admin, JobActions
from tests.support.jobs.insert_jobs import insert_jobs

PARAMETER = re.compile(r"%\((\w+)\)[sb]")
SETTLING = ("settle_done", "release", "mark_failed", "retry_or_dead_letter", "mark_expired")
VALUES = {
    "owners": "array_fill('worker-1/token'::text, array[500])",
    "results": "array_fill(null::jsonb, array[500])",
    "seconds": "array_fill(1.0::float8, array[500])",
    "codes": "array_fill('OOPS'::text, array[500])",
    "messages": "array_fill('because'::text, array[500])",
    "tracebacks": "array_fill(null::text, array[500])",
    "max_snoozes": "1000",
    "limit": "500",
    "give_up": "false",
}
TYPES = {
    "keys": "uuid[]",
    "owners": "text[]",
    "results": "jsonb[]",
    "seconds": "float8[]",
    "codes": "text[]",
    "messages": "text[]",
    "tracebacks": "text[]",
    "max_snoozes": "bigint",
    "limit": "bigint",
    "give_up": "boolean",
}


async def test_a_job_runs_through_its_states_on_every_postgresql_major(movable_database: str) -> None:
    with psycopg.connect(movable_database, autocommit=True) as admin:
        async with await connect(make_conninfo(movable_database, user=Names().worker)) as worker:
            await live(JobActions(admin, worker))


async def live(jobs: JobActions) -> None:
    """Enqueue, claim under a limit, fail, crash, snooze, cancel, settle, redrive, purge."""
    worker = jobs.worker
    payloads = [{"n": n} for n in range(20)]
    rows = await insert_jobs(worker, JobRequest(ORG, "work"), payloads, [f"k{n}" for n in range(20)])
    again = await insert_jobs(worker, JobRequest(ORG, "work"), payloads, [f"k{n}" for n in range(20)])
    assert [row["id"] for row in rows] == [row["id"] for row in again]
    await limits.set_concurrency(worker, "work", 8)
    first = await jobs.claim(limit=20)
    assert len(first) == 8
    async with worker.transaction():
        await repository.snooze(worker, first[:2], [1.0, 2.0])
        await repository.settle_failed(worker, first[2:3], ["NEVER"], ["no"], give_up=True)
        await repository.release_jobs(worker, first[3:4])
    await jobs.fail(*first[4:6])
    assert await jobs.steer(repository.cancel_job, ORG, first[6].key, "anna") == JobStatus.RUNNING
    jobs.advance_clock(LEASE + 1)
    assert await jobs.sweep() == 2
    jobs.advance_clock(3600)
    await limits.set_concurrency(worker, "work", None)
    assert await jobs.steer(repository.redrive_many, DeadLetterFilter(ORG), "anna") == [first[2].key]
    while leases := await jobs.claim(limit=7):
        await repository.settle_done(worker, leases, [None] * len(leases))
    assert sorted(jobs.columns("status")) == ["canceled"] + ["succeeded"] * 19
    jobs.verify()
    jobs.advance_clock(31 * 86_400)
    assert await repository.purge(worker) == 20
    jobs.verify()


def explain(admin: Admin, name: str, keys: list[UUID]) -> str:
    """Return the plan of a prepared statement on a worker's connection."""
    text = {**JOB.statements.statements, **repository.SQL.statements}[name]
    names = list(dict.fromkeys(PARAMETER.findall(text)))
    numbered = PARAMETER.sub(lambda match: f"${names.index(match[1]) + 1}", text)
    given = VALUES | {"keys": "array[" + ", ".join(f"'{key}'" for key in keys) + "]::uuid[]"}
    if name == "mark_expired":
        given["keys"] = "null"
    admin.execute(f"prepare asked ({', '.join(TYPES[each] for each in names)}) as {numbered}".encode())
    lines = admin.execute(f"explain (costs off) execute asked ({', '.join(given[each] for each in names)})".encode())
    plan = "\n".join(line for (line,) in lines.fetchall())
    admin.execute("deallocate asked")
    return plan


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
async def test_no_settling_statement_scans_the_table_whatever_its_statistics(
    mode: str, jobs: JobActions, admin: Admin
) -> None:
    for _ in range(2):
        await insert_jobs(jobs.worker, JobRequest(ORG, "work"), [{"n": n} for n in range(10_000)])
    admin.execute("analyze ledger.job")
    keys = [lease.key for lease in await jobs.claim(limit=500)]
    admin.execute(f"set plan_cache_mode = {mode}".encode())
    for name in SETTLING:
        plan = explain(admin, name, keys)
        assert "Seq Scan" not in plan, f"{name}:\n{plan}"
        assert "Join Filter" not in plan, f"{name} compares every row with every other:\n{plan}"


async def test_a_claim_planned_on_an_empty_table_does_not_scan_a_full_one(jobs: JobActions, admin: Admin) -> None:
    for _ in range(8):  # until its plans are made for good
        assert await jobs.claim(limit=10) == []
        jobs.enqueue()
        (lease,) = await jobs.claim(limit=10)
        await repository.settle_done(jobs.worker, [lease], [None])
    for _ in range(2):
        await insert_jobs(jobs.worker, JobRequest(ORG, "work"), [{"n": n} for n in range(10_000)])
    before = await scans(jobs)
    assert len(await jobs.claim(JOB_TYPE, TypeInQueue("default", "other"), limit=10)) == 10
    assert await scans(jobs) == before


async def scans(jobs: JobActions) -> Any:
    """Return how often this connection scanned the whole table, including unreported statistics."""
    await jobs.worker.execute("select pg_stat_force_next_flush()")
    cursor = await jobs.worker.execute("select seq_scan from pg_stat_user_tables where relid = 'ledger.job'::regclass")
    return await cursor.fetchone()
