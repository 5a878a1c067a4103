"""Claims: the right jobs, in the right order, within limits, and without reading rows that are not due."""

import asyncio
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.db.pool import connect
from duly.jobs import limits, repository
from duly.jobs.model import Floor, TypeInQueue, floors_after
from tests.support.jobs.actions import JOB_TYPE, LEASE, Admin, Connection, JobActions


async def test_claim_leases_the_job_and_counts_as_a_start(jobs: JobActions) -> None:
    (key,) = jobs.enqueue(payload={"n": 1})
    (lease,) = await jobs.claim()
    assert (lease.key, lease.row["payload"], lease.row["attempt"], lease.row["starts"]) == (key, {"n": 1}, 0, 1)
    assert jobs.columns("status", "attempt", "starts", "lease_owner") == [("running", 0, 1, lease.owner)]
    assert jobs.events(key)[1:] == [("queued", "running", {"actor": lease.owner, "start": 1})]
    assert await jobs.claim() == []
    jobs.verify()


async def test_claim_skips_types_and_queues_that_it_does_not_name(jobs: JobActions) -> None:
    jobs.enqueue("unknown")
    jobs.enqueue(queue="elsewhere")
    assert await jobs.claim() == []
    assert len(await jobs.claim(TypeInQueue("elsewhere", "work"), TypeInQueue("default", "unknown"), limit=9)) == 2


async def test_jobs_are_claimed_by_priority_and_then_by_age(jobs: JobActions) -> None:
    low_old, low_new = jobs.enqueue(priority=-5, rows=2)
    (other_type,) = jobs.enqueue("other", priority=-5)
    (high,) = jobs.enqueue("other", priority=100)
    (plain,) = jobs.enqueue()
    order = [lease.key for _ in range(5) for lease in await jobs.claim(JOB_TYPE, TypeInQueue("default", "other"))]
    assert order == [high, plain, low_old, low_new, other_type]


async def test_at_equal_priority_the_job_type_with_the_oldest_job_is_claimed_first(jobs: JobActions) -> None:
    (one,) = jobs.enqueue("one")
    (two,) = jobs.enqueue("two")
    (three,) = jobs.enqueue("one")
    job_types = [TypeInQueue("default", "two"), TypeInQueue("default", "one")]
    order = [lease.key for _ in range(3) for lease in await jobs.claim(*job_types)]
    assert order == [one, two, three]


async def test_one_claim_spans_several_job_types_and_priorities(jobs: JobActions) -> None:
    for priority in (1, 0, -1):
        jobs.enqueue("one", rows=2, priority=priority)
        jobs.enqueue("two", rows=2, priority=priority)
    leases = await jobs.claim(TypeInQueue("default", "one"), TypeInQueue("default", "two"), limit=7)
    assert sorted(lease.row["priority"] for lease in leases) == [0, 0, 0, 1, 1, 1, 1]
    assert len({lease.owner for lease in leases}) == 1


async def test_job_is_not_claimed_before_run_at(jobs: JobActions) -> None:
    jobs.enqueue(delay_seconds=60.0)
    assert await jobs.claim() == []
    jobs.advance_clock(61)
    assert len(await jobs.claim()) == 1


@pytest.mark.parametrize("what", [{"queue": "default"}, {"type": "work"}, {"queue": "default", "type": "work"}])
async def test_paused_queue_or_type_is_not_claimed_until_it_is_resumed(
    what: dict[str, str], jobs: JobActions, worker: Connection
) -> None:
    jobs.enqueue()
    jobs.enqueue("other", queue="elsewhere")
    since = await limits.put_pause(worker, "anna", **what)
    assert await limits.put_pause(worker, "bert", **what) == since
    assert [(each.paused_by, each.paused_at) for each in await limits.fetch_limits(worker)] == [("anna", since)]
    job_types = (JOB_TYPE, TypeInQueue("elsewhere", "other"))
    assert [lease.row["type"] for lease in await jobs.claim(*job_types, limit=9)] == ["other"]
    assert await limits.drop_pause(worker, **what)
    assert not await limits.drop_pause(worker, **what)
    assert await limits.fetch_limits(worker) == []
    assert [lease.row["type"] for lease in await jobs.claim(*job_types, limit=9)] == ["work"]


async def test_concurrency_limit_counts_running_jobs_of_its_type_in_all_queues(
    jobs: JobActions, worker: Connection
) -> None:
    assert await limits.set_concurrency(worker, "work", 3)
    assert not await limits.set_concurrency(worker, "work", 3)
    jobs.enqueue(rows=4, priority=2)
    jobs.enqueue(rows=4, queue="slow")
    jobs.enqueue("other", rows=4)
    job_types = (JOB_TYPE, TypeInQueue("slow", "work"), TypeInQueue("default", "other"))
    first = await jobs.claim(*job_types, limit=2)
    second = await jobs.claim(*job_types, limit=9)
    assert [lease.row["type"] for lease in first] == ["work", "work"]
    assert sorted(lease.row["type"] for lease in second) == ["other"] * 4 + ["work"]
    await repository.settle_done(worker, first, [None, None])
    assert len(await jobs.claim(*job_types, limit=9)) == 2
    await limits.set_concurrency(worker, "work", None)
    assert len(await jobs.claim(*job_types, limit=9)) == 3


async def test_open_claim_of_a_limited_type_does_not_block_claims_of_other_types(
    jobs: JobActions, other: Connection
) -> None:
    await limits.set_concurrency(jobs.worker, "work", 5)
    jobs.enqueue(rows=2)
    jobs.enqueue("other")
    async with other.transaction():
        assert len(await repository.claim_jobs(other, "worker-2", [JOB_TYPE], lease_seconds=LEASE, limit=1)) == 1
        async with asyncio.timeout(10):
            leases = await jobs.claim(JOB_TYPE, TypeInQueue("default", "other"), limit=9)
        assert [lease.row["type"] for lease in leases] == ["other"]
    assert len(await jobs.claim(limit=9)) == 1


async def test_eight_concurrent_claimers_claim_each_job_exactly_once(jobs: JobActions, admin: Admin) -> None:
    jobs.enqueue(rows=300)

    async def drain() -> list[Any]:
        async with await connect(make_conninfo(admin.info.dsn, user=Names().worker)) as connection:
            claimed_keys: list[Any] = []
            while leases := await repository.claim_jobs(
                connection, "worker-1", [JOB_TYPE], lease_seconds=LEASE, limit=7
            ):
                claimed_keys += [lease.key for lease in leases]
            return claimed_keys

    claimed = [key for keys in await asyncio.gather(*(drain() for _ in range(8))) for key in keys]
    assert len(claimed) == len(set(claimed)) == 300
    assert jobs.columns("starts") == [1] * 300


async def test_claim_with_a_floor_skips_only_jobs_before_the_floor(jobs: JobActions, worker: Connection) -> None:
    first, second = jobs.enqueue(rows=2)
    (low,) = jobs.enqueue(priority=-1)
    (high,) = jobs.enqueue(priority=1)
    (row,) = jobs.admin.execute("select run_at from ledger.job where id = %s", [second]).fetchall()
    floors = {JOB_TYPE: Floor(0, row[0], second)}
    leases = await repository.claim_jobs(worker, "worker-1", [JOB_TYPE], lease_seconds=LEASE, limit=9, floors=floors)
    assert {lease.key for lease in leases} == {high, second, low}
    assert [lease.key for lease in await jobs.claim()] == [first]


def test_floor_is_the_latest_row_of_a_type_whose_rows_share_one_priority() -> None:
    rows: list[dict[str, Any]] = [
        {"queue": "q", "type": "one", "priority": 0, "run_at": 5, "id": 9},
        {"queue": "q", "type": "one", "priority": 0, "run_at": 7, "id": 2},
        {"queue": "q", "type": "one", "priority": 0, "run_at": 7, "id": 1},
        {"queue": "q", "type": "two", "priority": 0, "run_at": 7, "id": 3},
        {"queue": "q", "type": "two", "priority": 1, "run_at": 7, "id": 4},
    ]
    assert floors_after(rows) == {TypeInQueue("q", "one"): (0, 7, 2)}
