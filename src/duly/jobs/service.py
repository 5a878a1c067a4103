"""The operations that entry points call: enqueue, read and control jobs.

Each is one short transaction of one org; `redrive_jobs` is one per batch.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from duly.canonical_json import checked_json
from duly.db.clock import get_current_time
from duly.db.error_table import translate_errors
from duly.db.id_prefix import IdPrefix, resolve_single_match
from duly.db.pool import Pool
from duly.db.rows import Connection
from duly.errors import IllegalTransition, InvalidArgument, NotFound
from duly.jobs import repository
from duly.jobs.enqueue import insert_job
from duly.jobs.model import DeadLetterFilter, Job, JobEvent, JobRequest, JobStatus
from duly.outcomes import Created, Creation, Existing
from duly.paging import Page, build_page, checked_limit, decode_cursor

REDRIVE_BATCH_SIZE = 1000
MAX_REASON_LENGTH = 500


# Enqueue --------------------------------------------------------------------------------------------------------------


async def enqueue(pool: Pool, request: JobRequest) -> Creation[Job]:
    """Enqueue a job, or find the one of the same request; KeyReused when another request used the key."""
    checked_json(request.payload)
    with translate_errors():
        async with org_transaction(pool, request.org) as connection:
            row = await insert_job(connection, request)
            job = await require_job(connection, request.org, row["id"])
    return Created(job) if row["outcome"] == "created" else Existing(job)


# Read -----------------------------------------------------------------------------------------------------------------


async def get_job(pool: Pool, org: UUID, job_id: UUID) -> Job:
    """Return a job of this org, or raise NotFound."""
    async with org_transaction(pool, org) as connection:
        return await require_job(connection, org, job_id)


async def find_traceback(pool: Pool, org: UUID, job_id: UUID) -> str | None:
    """Return the traceback of a job's last failed attempt, if there is one."""
    async with org_transaction(pool, org) as connection:
        return await repository.find_traceback(connection, org, job_id)


async def resolve_id(pool: Pool, org: UUID, prefix: IdPrefix) -> UUID:
    """Resolve the prefix of an id to the only job of this org that has it; a full id is not looked up."""
    if prefix.is_full_id:
        return prefix.first
    async with org_transaction(pool, org) as connection:
        return resolve_single_match(prefix, "job", await repository.list_job_ids(connection, org, prefix))


async def list_jobs(
    pool: Pool,
    org: UUID,
    *,
    status: JobStatus | None = None,
    type: str | None = None,  # noqa: A002
    queue: str | None = None,
    finished_from: datetime | None = None,
    finished_before: datetime | None = None,
    cursor: str | None = None,
    limit: int = 100,
) -> Page[Job]:
    """Return a page of jobs, newest first."""
    before = repository.FIRST_PAGE if cursor is None else decode_cursor(cursor, datetime.fromisoformat, UUID)
    async with org_transaction(pool, org) as connection:
        rows = await repository.list_jobs(
            connection,
            org,
            status=status,
            type=type,
            queue=queue,
            finished_from=finished_from,
            finished_before=finished_before,
            before=(before[0], before[1]),
            limit=checked_limit(limit) + 1,
        )
    return build_page(rows, limit, lambda job: (job.created_at, job.id))


async def list_events(
    pool: Pool, org: UUID, job_id: UUID, *, cursor: str | None = None, limit: int = 100
) -> Page[JobEvent]:
    """Return a page of a job's log, in order."""
    after = 0 if cursor is None else decode_cursor(cursor, int)[0]
    async with org_transaction(pool, org) as connection:
        await require_job(connection, org, job_id)
        rows = await repository.list_events(connection, org, job_id, after_seq=after, limit=checked_limit(limit) + 1)
    return build_page(rows, limit, lambda event: (event.seq,))


# Control --------------------------------------------------------------------------------------------------------------


async def cancel_job(
    pool: Pool, org: UUID, job_id: UUID, actor: str | None, *, now: bool = False, release_key: bool = False
) -> Job:
    """Cancel a queued job, request that a running one stops, or cancel it `now`; IllegalTransition when it is finished.

    `release_key` also frees its idempotency key for another request; this works on a canceled job too, and repeatedly.
    """
    async with org_transaction(pool, org) as connection:
        status = await repository.cancel_job(connection, org, job_id, actor, now=now, release_key=release_key)
        job = await require_job(connection, org, job_id)
    if status is None and release_key and job.status is JobStatus.CANCELED:
        return job
    if status is None and job.status is JobStatus.RUNNING:
        raise IllegalTransition(
            f"job {job_id} is running, and its idempotency key can be released only once it is canceled: cancel it at "
            "once (now), or cancel it and release the key when it has stopped"
        )
    if status is None:
        raise IllegalTransition(f"job {job_id} is {job.status} and cannot be cancelled: it is finished")
    return job


async def erase_job(pool: Pool, org: UUID, job_id: UUID, actor: str, reason: str | None = None) -> None:
    """Delete one finished job with its events; the audit log records who did it. Only for the owner of the tables."""
    if reason is not None and not 1 <= len(reason) <= MAX_REASON_LENGTH:
        raise InvalidArgument(f"reason of {len(reason)} characters: must have 1 to {MAX_REASON_LENGTH}")
    async with org_transaction(pool, org) as connection:
        if await repository.erase_job(connection, org, job_id, actor, reason):
            return
        job = await require_job(connection, org, job_id)
    fix = f"cancel it first (duly jobs cancel {job_id} --now)"
    raise IllegalTransition(f"job {job_id} is {job.status} and cannot be erased: {fix}")


async def redrive_job(pool: Pool, org: UUID, job_id: UUID, actor: str | None) -> Job:
    """Put one dead letter back in the queue, its attempts counted from zero; IllegalTransition for other jobs."""
    async with org_transaction(pool, org) as connection:
        is_redriven = await repository.redrive(connection, org, job_id, actor)
        job = await require_job(connection, org, job_id)
        if not is_redriven:
            raise IllegalTransition(
                f"job {job_id} is {job.status} and cannot be put back in the queue: it is no dead letter"
            )
    return job


async def count_dead_letters(pool: Pool, matching: DeadLetterFilter) -> int:
    """Count the dead letters that a redrive would put back in the queue."""
    async with org_transaction(pool, matching.org) as connection:
        return await repository.count_dead_letters(connection, matching)


async def redrive_jobs(
    pool: Pool, matching: DeadLetterFilter, actor: str | None, on_progress: Callable[[int], None] = lambda _: None
) -> int:
    """Put all matching dead letters back in the queue, in batches.

    Locked ones are skipped, and so are those that fail again meanwhile. Returns how many; calls `on_progress` with the
    number so far after each batch.
    """
    now = await get_current_time(pool)
    finished_before = min(matching.finished_before, now) if matching.finished_before else now
    bounded = replace(matching, finished_before=finished_before)
    redriven = 0
    while True:
        async with org_transaction(pool, matching.org) as connection:
            batch = await repository.redrive_many(connection, bounded, actor, REDRIVE_BATCH_SIZE)
        redriven += len(batch)
        on_progress(redriven)
        if len(batch) < REDRIVE_BATCH_SIZE:
            return redriven


# Helpers --------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def org_transaction(pool: Pool, org: UUID) -> AsyncGenerator[Connection, None]:
    """Open a transaction in which only this org's jobs are visible."""
    async with pool.transaction() as connection:
        await repository.set_org(connection, org)
        yield connection


async def require_job(connection: Connection, org: UUID, job_id: UUID) -> Job:
    """Return a job of this org, or raise NotFound."""
    if job := await repository.find_job(connection, org, job_id):
        return job
    raise NotFound(f"there is no job {job_id}")
