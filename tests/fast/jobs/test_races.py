"""Asking for jobs from many sides at once, and claiming past what is in the way.

`test_enqueue.py` shows a hundred equal requests make one job; `test_claim.py` that a limit
holds with eight claimers, and that 300,000 jobs in the way are not read. Here: two requests under one key, batches that
overlap, and what an old snapshot does to a claim.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.db.pool import connect
from duly.jobs import repository
from duly.jobs.enqueue import insert_job
from duly.jobs.model import Floor, JobRequest, TypeInQueue, floors_after
from tests.support.jobs.actions import JOB_TYPE, LEASE, ORG, OTHER_ORG, Admin, Connection, JobActions
from tests.support.jobs.fixtures import admin, jobs, other, worker
from tests.support.jobs.insert_jobs import insert_jobs
from tests.support.locks import wait_until_blocked

__all__ = ["admin", "jobs", "other", "worker"]
SECONDS = 60.0
BATCH = 100


def at_once(number: int, act: Callable[[int, Admin], None], address: str) -> None:
    """Run this on several connections that begin together; raise what any of them raises."""
    start, failures = threading.Barrier(number), list[BaseException]()

    def run(nth: int) -> None:
        try:
            with psycopg.connect(address, autocommit=True) as connection:
                start.wait(SECONDS)
                act(nth, connection)
        except BaseException as failure:  # handed on below
            failures.append(failure)
            start.abort()

    threads = [threading.Thread(target=run, args=[nth]) for nth in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert not any(thread.is_alive() for thread in threads)
    if failures:
        raise failures[0]


@pytest.mark.parametrize(("end", "outcome"), [("commit", "existing"), ("rollback", "created")])
async def test_concurrent_enqueue_of_one_key_follows_the_first_ones_commit_or_rollback(
    end: str, outcome: str, jobs: JobActions, admin: Admin
) -> None:
    with psycopg.connect(make_conninfo(admin.info.dsn, user=Names().api)) as first:
        first.execute("select ledger.enqueue(%s, 'work', '{}', 'once')", [ORG])
        waiting = asyncio.create_task(insert_job(jobs.worker, JobRequest(ORG, "work", idempotency_key="once")))
        await asyncio.to_thread(wait_until_blocked, admin.info.dsn)
        getattr(first, end)()
    assert (await waiting)["outcome"] == outcome
    assert len(jobs.columns("id")) == 1
    jobs.verify()


def test_concurrent_enqueues_of_one_key_create_one_job_per_org(jobs: JobActions, admin: Admin) -> None:
    orgs = [ORG, OTHER_ORG]

    def enqueue(nth: int, connection: Admin) -> None:
        connection.execute("select ledger.enqueue(%s, 'work', '{}', 'once')", [orgs[nth % 2]])

    at_once(20, enqueue, make_conninfo(admin.info.dsn, user=Names().api))
    assert sorted(jobs.columns("org_id")) == orgs


async def test_overlapping_batches_in_open_transactions_wait_without_deadlock(
    jobs: JobActions, other: Connection, admin: Admin
) -> None:
    """The first transaction locks every key that the second needs, in the opposite order, until it commits."""
    keys = [f"key-{n}" for n in range(50)]
    payloads = [{"key": key} for key in keys]
    async with other.transaction():
        first = await insert_jobs(other, JobRequest(ORG, "work"), payloads, keys)
        query = insert_jobs(jobs.worker, JobRequest(ORG, "work"), payloads[::-1], keys[::-1])
        waiting = asyncio.create_task(query)
        await asyncio.to_thread(wait_until_blocked, admin.info.dsn)
    second = await waiting
    assert [row["id"] for row in second] == [row["id"] for row in first][::-1]
    assert {row["outcome"] for row in second} == {"existing"}


def test_concurrent_enqueue_and_enqueue_many_create_each_job_once(jobs: JobActions, admin: Admin) -> None:
    keys = [f"key-{n:02}" for n in range(40)]
    outcomes: list[str] = []

    def enqueue(nth: int, connection: Admin) -> None:
        if nth % 2:
            query = "select outcome from ledger.enqueue_many(%s, 'work', array_fill('{}'::jsonb, array[40]), %s)"
            outcomes.extend(
                outcome for (outcome,) in connection.execute(query, [ORG, keys[:: -1 if nth % 4 == 1 else 1]])
            )
        else:
            for key in keys[nth:] + keys[:nth]:
                query = "select outcome from ledger.enqueue(%s, 'work', '{}', %s)"
                outcomes.extend(outcome for (outcome,) in connection.execute(query, [ORG, key]))

    at_once(12, enqueue, make_conninfo(admin.info.dsn, user=Names().api))
    assert Counter(outcomes) == {"created": 40, "existing": 40 * 11}
    jobs.verify()


# A claim where the dead cannot be cleared -----------------------------------------------------------------------------


async def drain(connection: Connection, *, limit: int) -> Floor:
    """Claim and settle jobs in batches, each from the floor of the previous one; return the last floor."""
    floors: dict[TypeInQueue, Floor] = {}
    for _ in range(limit // BATCH):
        leases = await repository.claim_jobs(
            connection, "worker-1", [JOB_TYPE], lease_seconds=LEASE, limit=BATCH, floors=floors
        )
        assert len(leases) == BATCH
        floors = floors_after([lease.row for lease in leases])
        await repository.settle_done(connection, leases, [None] * BATCH)
    return floors[JOB_TYPE]


async def test_draining_with_floors_claims_every_job_once(jobs: JobActions, admin: Admin) -> None:
    await insert_jobs(jobs.worker, JobRequest(ORG, "work"), [{"n": n} for n in range(1_000)])
    async with await connect(make_conninfo(admin.info.dsn, user=Names().worker)) as connection:
        await drain(connection, limit=1_000)
    assert jobs.columns("status", "starts") == [("succeeded", 1)] * 1_000
    jobs.verify()
