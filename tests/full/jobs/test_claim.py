"""Claims: the right jobs, in the right order, within limits, and without reading rows that are not due."""

import asyncio
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.db.pool import connect
from duly.jobs import limits, repository
from tests.support.jobs.actions import JOB_TYPE, LEASE, ORG, Admin, JobActions

UNCLAIMABLE = 100_000


async def test_a_concurrency_limit_holds_when_eight_claimers_race(jobs: JobActions, admin: Admin) -> None:
    await limits.set_concurrency(jobs.worker, "work", 5)
    jobs.enqueue(rows=200)
    max_running = 0

    async def drain() -> None:
        nonlocal max_running
        async with await connect(make_conninfo(admin.info.dsn, user=Names().worker)) as connection:
            while jobs.columns("status").count("queued"):
                leases = await repository.claim_jobs(connection, "worker-1", [JOB_TYPE], lease_seconds=LEASE, limit=3)
                max_running = max(max_running, jobs.columns("status").count("running"))
                if leases:
                    await repository.settle_done(connection, leases, [None] * len(leases))

    await asyncio.gather(*(drain() for _ in range(8)))
    assert 1 <= max_running <= 5
    assert max_running_by_log(admin) <= 5
    jobs.verify()


def max_running_by_log(admin: Admin) -> int:
    """Return the maximum number of jobs that ran at once, according to the log."""
    query = (
        "select max(running) from (select sum(case next_status when 'running' then 1 else -1 end)"
        " over (order by ts, next_status) as running from ledger.job_event where seq > 1) as observed"
    )
    (limit,) = admin.execute(query).fetchone() or (None,)
    assert isinstance(limit, int)
    return limit


def add_unclaimable_jobs(admin: Admin, rows: int) -> None:
    """Jobs of our type that are not due, half of them with higher priority, and due jobs of other types."""
    admin.execute(
        "insert into ledger.job (org_id, type, queue, priority, run_at)"
        " select %(org)s, case n %% 3 when 0 then 'work' else 'foreign' end,"
        " case n %% 3 when 1 then 'aside' else 'default' end,"
        " n %% 2, case n %% 3 when 0 then duly.clock() + interval '1 day' else duly.clock() - interval '1 day' end"
        " from generate_series(1, %(rows)s) as n",
        {"org": ORG, "rows": rows},
    )
    admin.execute("analyze ledger.job")


async def count_claim_buffers(jobs: JobActions, admin: Admin) -> int:
    """Return how many pages a claim of ten jobs touches, once its plan is cached."""
    jobs.enqueue(rows=70)
    query = "explain (analyze, buffers, format json) select id from ledger.claim('{default}', '{work}', 'me/1', 60, 10)"
    plans: list[Any] = []
    with psycopg.connect(make_conninfo(admin.info.dsn, user=Names().worker), autocommit=True) as worker:
        for _ in range(7):
            plans += worker.execute(query).fetchone() or ()
    plan = plans[-1][0]["Plan"]
    assert plan["Actual Rows"] == 10
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


async def test_a_claim_does_not_read_jobs_that_it_cannot_claim(jobs: JobActions, admin: Admin) -> None:
    alone = await count_claim_buffers(jobs, admin)
    add_unclaimable_jobs(admin, UNCLAIMABLE)
    crowded = await count_claim_buffers(jobs, admin)
    assert crowded < 2 * alone + 200, f"{alone} pages without, {crowded} pages with {UNCLAIMABLE} jobs in the way"


async def test_a_claim_without_claimable_jobs_reads_few_blocks(jobs: JobActions, admin: Admin) -> None:
    add_unclaimable_jobs(admin, 30_000)
    query = "explain (analyze, buffers, format json) select id from ledger.claim('{default}', '{work}', 'me/1', 60, 10)"
    with psycopg.connect(make_conninfo(admin.info.dsn, user=Names().worker), autocommit=True) as worker:
        plans = [worker.execute(query).fetchone() for _ in range(3)]
    (documents,) = plans[-1] or ([],)
    plan: dict[str, Any] = documents[0]["Plan"]
    assert plan["Actual Rows"] == 0
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 60
