"""Release of a canceled job's key, and erasure of a job: both only on request."""

from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.db.pool import Pool, open_pool
from duly.errors import IllegalTransition, NotFound
from duly.jobs import repository, service
from duly.jobs.model import JobStatus
from tests.support.jobs.actions import ORG, OTHER_ORG, Admin, JobActions


@pytest.fixture
async def pool(admin: Admin) -> Any:
    """Connections with the API's role."""
    async with open_pool(make_conninfo(admin.info.dsn, user=Names().api), size=2, idle=0) as pool:
        yield pool


@pytest.fixture
async def owner(admin: Admin) -> Any:
    """Connections of the owner of the tables."""
    async with open_pool(admin.info.dsn, size=1, idle=0, role=Names().owner) as pool:
        yield pool


# A key that is released -----------------------------------------------------------------------------------------------


async def test_cancel_of_a_queued_job_releases_its_key_and_logs_it(jobs: JobActions, pool: Pool) -> None:
    (first,) = jobs.enqueue(key="order:42")
    job = await service.cancel_job(pool, ORG, first, "anna", release_key=True)
    assert (job.status, job.idempotency_key) == (JobStatus.CANCELED, None)
    assert jobs.events(first)[1:] == [
        ("queued", "canceled", {"actor": "anna", "reason": "cancel_requested"}),
        ("canceled", "canceled", {"actor": "anna", "reason": "key_released", "released_key": "order:42"}),
    ]
    assert jobs.enqueue(key="order:42", queue="images") != [first]
    jobs.verify()


async def test_cancel_without_release_key_keeps_the_key(jobs: JobActions, pool: Pool) -> None:
    (first,) = jobs.enqueue(key="order:42")
    await service.cancel_job(pool, ORG, first, "anna")
    assert jobs.enqueue(key="order:42") == [first]


async def test_repeated_cancel_with_release_key_releases_the_key_of_a_canceled_job(
    jobs: JobActions, pool: Pool
) -> None:
    (first,) = jobs.enqueue(key="order:42")
    await service.cancel_job(pool, ORG, first, "anna")
    jobs.advance_clock(3600)
    before = jobs.columns("finished_at", "retain_until", "cancel_requested_at")
    for _ in range(2):  # repeated, it is the same
        job = await service.cancel_job(pool, ORG, first, "bert", release_key=True)
        assert (job.status, job.idempotency_key) == (JobStatus.CANCELED, None)
    expected_detail = {"actor": "bert", "reason": "key_released", "released_key": "order:42"}
    assert jobs.events(first)[1:] == [
        ("queued", "canceled", {"actor": "anna", "reason": "cancel_requested"}),
        ("canceled", "canceled", expected_detail),
    ]
    assert jobs.columns("finished_at", "retain_until", "cancel_requested_at") == before
    assert jobs.enqueue(key="order:42") != [first]
    jobs.verify()


async def test_key_of_a_running_job_is_released_only_by_an_immediate_cancel(jobs: JobActions, pool: Pool) -> None:
    (first,) = jobs.enqueue(key="order:42")
    (lease,) = await jobs.claim()
    with pytest.raises(IllegalTransition, match="its idempotency key can be released only once it is canceled"):
        await service.cancel_job(pool, ORG, first, "anna", release_key=True)
    assert jobs.columns("status", "idempotency_key", "cancel_requested_at") == [("running", "order:42", None)]
    job = await service.cancel_job(pool, ORG, first, "anna", now=True, release_key=True)
    assert (job.status, job.idempotency_key) == (JobStatus.CANCELED, None)
    assert await repository.settle_done(jobs.worker, [lease], [None]) == frozenset()
    jobs.verify()


@pytest.mark.parametrize("end", ["succeeded", "dead_letter"])
async def test_key_of_a_succeeded_or_dead_job_is_not_released(end: str, jobs: JobActions, pool: Pool) -> None:
    (first,) = jobs.enqueue(key="order:42", max_attempts=1)
    (lease,) = await jobs.claim()
    await (repository.settle_done(jobs.worker, [lease], [None]) if end == "succeeded" else jobs.fail(lease))
    with pytest.raises(IllegalTransition, match=f"is {end} and cannot be cancelled"):
        await service.cancel_job(pool, ORG, first, "anna", release_key=True)
    assert jobs.columns("idempotency_key") == ["order:42"]


async def test_key_of_another_orgs_job_cannot_be_released(jobs: JobActions, pool: Pool) -> None:
    (first,) = jobs.enqueue(key="order:42")
    jobs.admin.execute("update ledger.job set status = 'canceled'")
    with pytest.raises(NotFound):
        await service.cancel_job(pool, OTHER_ORG, first, "anna", release_key=True)
    for tenant in ("", str(OTHER_ORG)):
        async with pool.transaction() as connection:
            await connection.execute("select set_config('app.current_org_id', %s, true)", [tenant])
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match=f"does not act for org {ORG}"):
                async with connection.transaction():
                    await connection.execute("select ledger.release_key(%s, %s)", [ORG, first])
    assert jobs.columns("status", "idempotency_key") == [("canceled", "order:42")]


@pytest.mark.parametrize(
    "change",
    [
        "idempotency_key = 'other'",
        "idempotency_key = null, request_digest = null",
        "idempotency_key = 'other', status = 'canceled'",
    ],
)
def test_key_cannot_be_changed_and_is_removed_only_from_a_canceled_job(
    change: str, jobs: JobActions, admin: Admin
) -> None:
    jobs.enqueue(key="order:42")
    with pytest.raises(psycopg.DatabaseError, match="can change only by its release") as refusal:
        admin.execute(f"update ledger.job set {change}".encode())
    assert refusal.value.sqlstate == "DU001"
    jobs.enqueue("keyless")
    with pytest.raises(psycopg.DatabaseError, match="can change only by its release"):
        admin.execute(
            "update ledger.job set idempotency_key = 'new', request_digest = sha256('') where idempotency_key is null"
        )


# A job that is erased -------------------------------------------------------------------------------------------------


def erasures(admin: Admin) -> list[Any]:
    """Return who erased which job."""
    query = "select key, next_status, actor, detail_json from duly.transition where machine = 'job_erasure'"
    return admin.execute(query).fetchall()


async def test_erase_deletes_a_finished_job_and_its_events_and_logs_the_actor(
    jobs: JobActions, owner: Pool, admin: Admin
) -> None:
    (kept, erased) = jobs.enqueue(rows=2, payload={"name": "Anna"}, key=None)
    for lease in await jobs.claim(limit=2):
        await repository.settle_done(jobs.worker, [lease], [{"name": "Anna"}])
    await service.erase_job(owner, ORG, erased, "cli:bert", "art. 17")
    assert jobs.columns("id") == [kept]
    assert admin.execute("select distinct job_id from ledger.job_event").fetchall() == [(kept,)]
    ((key, status, actor, detail),) = erasures(admin)
    assert (UUID(key), status, actor) == (erased, "erased", "cli:bert")
    assert detail.pop("created_at")
    assert detail == {
        "org_id": str(ORG),
        "type": "work",
        "queue": "default",
        "status": "succeeded",
        "events": 3,
        "reason": "art. 17",
    }
    jobs.verify()


@pytest.mark.parametrize("status", ["queued", "running"])
async def test_erase_refuses_an_unfinished_job(status: str, jobs: JobActions, owner: Pool, admin: Admin) -> None:
    (key,) = jobs.enqueue()
    if status == "running":
        await jobs.claim()
    with pytest.raises(IllegalTransition, match=f"is {status} and cannot be erased: cancel it first"):
        await service.erase_job(owner, ORG, key, "cli:bert")
    assert jobs.columns("status") == [status]
    assert erasures(admin) == []


async def test_erase_of_an_unknown_job_is_not_found(jobs: JobActions, owner: Pool, admin: Admin) -> None:
    (key,) = jobs.enqueue()
    admin.execute("update ledger.job set status = 'canceled'")
    for org, job in ((OTHER_ORG, key), (ORG, uuid4())):
        with pytest.raises(NotFound):
            await service.erase_job(owner, org, job, "cli:bert")
    assert jobs.columns("id") == [key]


@pytest.mark.parametrize("role", [Names().worker, Names().api, Names().readonly])
def test_only_the_owner_of_the_tables_may_erase(role: str, jobs: JobActions, admin: Admin) -> None:
    (key,) = jobs.enqueue()
    admin.execute("update ledger.job set status = 'canceled'")
    with (
        psycopg.connect(make_conninfo(admin.info.dsn, user=role), autocommit=True) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute("select ledger.erase(%s, %s, 'me')", [ORG, key])
    assert jobs.columns("id") == [key]


async def test_delete_of_a_job_is_refused_also_after_an_erasure(jobs: JobActions, admin: Admin) -> None:
    (first, second) = jobs.enqueue(rows=2)
    admin.execute("update ledger.job set status = 'canceled'")
    with admin.transaction(force_rollback=True):
        assert admin.execute("select ledger.erase(%s, %s, 'me')::text", [ORG, first]).fetchone() == ("canceled",)
        with pytest.raises(psycopg.errors.RestrictViolation, match="append-only"), admin.transaction():
            admin.execute("delete from ledger.job where id = %s", [second])
    for statement in (b"delete from ledger.job", b"delete from ledger.job_event"):
        with pytest.raises(psycopg.errors.RestrictViolation, match="append-only"):
            admin.execute(statement)
