"""Random states of jobs."""

from random import Random
from uuid import UUID

from duly.db.pool import Pool
from duly.jobs import limits, repository
from duly.jobs.explain import JobReason, explain
from duly.jobs.model import TypeInQueue
from duly.lease.operations import Lease
from tests.support.explain.registered_workers import (
    NAMES,
    RegisteredWorker,
    delete_all_rows,
    lock_some_rows,
    register_workers,
    workers_with_free_slot,
)
from tests.support.jobs.actions import LEASE, ORG, OTHER_ORG, JobActions

TYPES = ("work", "b/c")
JOB_TYPES = [TypeInQueue(queue, name) for queue in ("default", "a/b") for name in TYPES]


async def check_jobs(seed: int, jobs: JobActions, pool: Pool) -> set[JobReason]:
    """Compare the explanation of every job with the rows; return the reasons."""
    random = Random(seed)  # noqa: S311 (no secret)
    delete_all_rows(jobs.admin)
    jobs.set_clock("2026-11-16T10:00:00+00:00")
    await make_jobs(random, jobs, pool)
    registered = register_workers(
        random, jobs.admin, "ledger", *(f"ledger:{job_type.queue}/{job_type.type}" for job_type in JOB_TYPES)
    )
    if random.random() < 0.1:
        jobs.advance_clock(random.choice([-1, -20]))
    with lock_some_rows(random, jobs.admin, "ledger.job") as locked:
        if random.random() < 0.1:
            jobs.admin.execute("select from ledger.job_limit for update")
        claimed = await claim_next(jobs, registered)
        found = {key: await explain(pool, org, key) for key, org in jobs.columns("id", "org_id")}
    for key, each in found.items():
        about = f"seed {seed}: {each.sentence}"
        assert (each.reason is JobReason.DUE) == (key in claimed), about
        check(jobs, key, each.reason, registered, locked, about)
    return {each.reason for each in found.values()}


async def make_jobs(random: Random, jobs: JobActions, pool: Pool) -> None:
    """Create jobs of random types in random states."""
    for name in TYPES:
        if random.random() < 0.4:
            await limits.set_concurrency(jobs.worker, name, random.randint(1, 2))
    for _ in range(random.randint(1, 3)):
        for _ in range(random.randint(1, 3)):
            job_type = random.choice(JOB_TYPES)
            jobs.enqueue(
                job_type.type,
                rows=random.randint(1, 2),
                queue=job_type.queue,
                org=random.choice([ORG, ORG, OTHER_ORG]),
                priority=random.choice([0, 0, 1]),
                delay_seconds=random.choice([0, 0, 0, 100]),
                max_attempts=random.randint(1, 3),
            )
        owner, several = random.choice(NAMES), random.randint(0, 3)
        lease = random.choice([LEASE, 10_000.0])
        held = (
            await repository.claim_jobs(jobs.worker, owner, JOB_TYPES, lease_seconds=lease, limit=several)
            if several
            else []
        )
        for one in held:
            await random.choice([finish, fail, snooze, leave_running, leave_running])(jobs, one)
        jobs.advance_clock(random.choice([0, 1, 70]))
        if random.random() < 0.3:
            await jobs.sweep()
    if random.random() < 0.3:
        await limits.pause(pool, "anna", queue=random.choice(["default", "a/b"]))


async def finish(jobs: JobActions, lease: Lease) -> None:
    """Settle it as done."""
    await repository.settle_done(jobs.worker, [lease], [None])


async def fail(jobs: JobActions, lease: Lease) -> None:
    """Settle it as failed."""
    await jobs.fail(lease)


async def snooze(jobs: JobActions, lease: Lease) -> None:
    """Snooze it."""
    await repository.snooze(jobs.worker, [lease], [30])


async def leave_running(jobs: JobActions, lease: Lease) -> None:
    """Leave it running."""


async def claim_next(jobs: JobActions, registered: list[RegisteredWorker]) -> set[UUID]:
    """Return what the next claim of each live worker with a free slot returns; it is rolled back."""
    owners = jobs.values(
        "select lease_owner from ledger.job where status = 'running' and lease_expires_at >= duly.clock()"
    )
    claimed: set[UUID] = set()
    for each in workers_with_free_slot(registered, owners):
        job_types = [job_type for job_type in JOB_TYPES if f"ledger:{job_type.queue}/{job_type.type}" in each.job_types]
        if job_types:
            async with jobs.worker.transaction(force_rollback=True):
                leases = await repository.claim_jobs(jobs.worker, each.name, job_types, lease_seconds=LEASE, limit=1)
            claimed |= {lease.key for lease in leases}
    return claimed


def check(
    jobs: JobActions, key: UUID, reason: JobReason, registered: list[RegisteredWorker], locked: set[object], about: str
) -> None:
    """Check a reason against the rows."""
    ((status, queue, type_, is_early, is_expired, owner),) = jobs.rows(
        "select status::text, queue, type::text, run_at > duly.clock(), lease_expires_at < duly.clock(), lease_owner"
        " from ledger.job where id = %s",
        key,
    )
    live = [each for each in registered if each.is_live]
    handlers = [each for each in live if f"ledger:{queue}/{type_}" in each.job_types]
    limit, running = jobs.rows(
        "select (select max_running from ledger.job_limit where queue = '*' and type = %s),"
        " (select count(*) from ledger.job where status = 'running' and type = %s)",
        type_,
        type_,
    )[0]
    expected = {
        JobReason.NO_WORKER: not [each for each in registered if each.is_live or has_other_work_type(jobs, each)],
        JobReason.NOT_HANDLED: not handlers,
        JobReason.LIMIT_REACHED: bool(handlers) and limit is not None and running >= limit,
        JobReason.EXPIRED: is_expired,
        JobReason.EXPIRED_NO_WORKER: is_expired and not live,
        JobReason.RUNNING: status == "running" and not is_expired,
        JobReason.HOLDER_GONE: status == "running" and not is_expired and is_owner_not_live(registered, owner),
        JobReason.SNOOZED: is_early,
        JobReason.DELAYED: is_early,
        JobReason.BACKING_OFF: is_early,
        JobReason.CLOCK_SET_BACK: is_early,
        JobReason.LOCKED: key in locked or limit is not None,
        JobReason.DUE: key not in locked and bool(handlers),
    }
    assert expected.get(reason, True), about


def has_other_work_type(jobs: JobActions, registered: RegisteredWorker) -> bool:
    """Check whether a live worker of this name has another work type."""
    statement = (
        "select count(*) from duly.workers where worker_id = %s and stopped_at is null and stopping_at is null"
        " and seen_at > duly.clock() - interval '30 s'"
    )
    return jobs.one(statement, registered.name) > 0


def is_owner_not_live(registered: list[RegisteredWorker], owner: str) -> bool:
    """Check whether the owner of a lease is a registered worker that is not live."""
    return any(owner.startswith(f"{each.name}/") and not each.is_live for each in registered)
