"""The verbs that doors call: ask for jobs, look at them, steer them. Each is one short transaction of one org."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from uuid import UUID

from duly.canonical_json import checked_json
from duly.db.clock import now
from duly.db.id_prefix import IdPrefix, only_match
from duly.db.pool import Pool
from duly.db.rows import Connection
from duly.errors import IllegalMove, InvalidArgument, NotFound
from duly.jobs import repository
from duly.jobs.drivers import as_our_errors, creation_of
from duly.jobs.model import ANY, DeadLetters, Job, JobEvent, Limit, Request, Status
from duly.outcomes import Created, Creation, Existing
from duly.paging import Page, checked_limit, page_of, read_place

__all__ = [
    "cancel",
    "count_dead",
    "enqueue",
    "erase",
    "find_traceback",
    "get_job",
    "list_events",
    "list_jobs",
    "list_limits",
    "pause",
    "redrive",
    "resolve_id",
    "resume",
    "retry",
]

REDRIVEN_AT_ONCE = 1000
MAX_REASON = 500


# Asking ---------------------------------------------------------------------------------------------------------------


async def enqueue(pool: Pool, request: Request) -> Creation[Job]:
    """Make a job, or find the one that the same request made; KeyReused when its key stands for another."""
    checked_json(request.payload)
    with as_our_errors():
        async with tenant(pool, request.org) as connection:
            made = creation_of(await repository.enqueue(connection, request))
            job = await get(connection, request.org, made.row)
    return Created(job) if isinstance(made, Created) else Existing(job)


# Looking --------------------------------------------------------------------------------------------------------------


async def get_job(pool: Pool, org: UUID, key: UUID) -> Job:
    """A job of this org, or NotFound."""
    async with tenant(pool, org) as connection:
        return await get(connection, org, key)


async def find_traceback(pool: Pool, org: UUID, key: UUID) -> str | None:
    """Where the last try of a job that failed did so, if that is known."""
    async with tenant(pool, org) as connection:
        return await repository.find_traceback(connection, org, key)


async def resolve_id(pool: Pool, org: UUID, prefix: IdPrefix) -> UUID:
    """The id of the one job of this org that begins so; a whole id is not looked up."""
    if prefix.is_whole:
        return prefix.first
    async with tenant(pool, org) as connection:
        return only_match(prefix, "job", await repository.list_job_ids(connection, org, prefix))


async def list_jobs(
    pool: Pool,
    org: UUID,
    *,
    status: Status | None = None,
    type: str | None = None,  # noqa: A002
    queue: str | None = None,
    finished_from: datetime | None = None,
    finished_before: datetime | None = None,
    place: str | None = None,
    limit: int = 100,
) -> Page[Job]:
    """A page of jobs, the newest first."""
    before = repository.END if place is None else read_place(place, datetime.fromisoformat, UUID)
    async with tenant(pool, org) as connection:
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
    return page_of(rows, limit, lambda job: (job.created_at, job.id))


async def list_events(
    pool: Pool, org: UUID, key: UUID, *, place: str | None = None, limit: int = 100
) -> Page[JobEvent]:
    """A page of a job's log, in order."""
    after = 0 if place is None else read_place(place, int)[0]
    async with tenant(pool, org) as connection:
        await get(connection, org, key)
        rows = await repository.list_events(connection, org, key, after_seq=after, limit=checked_limit(limit) + 1)
    return page_of(rows, limit, lambda event: (event.seq,))


# Steering -------------------------------------------------------------------------------------------------------------


async def cancel(
    pool: Pool, org: UUID, key: UUID, actor: str | None, *, now: bool = False, release_key: bool = False
) -> Job:
    """Cancel a waiting job, ask a running one to stop, or stop it `now`; one that has ended refuses.

    `release_key` also frees its key for another request; a job that is canceled already takes that too, and repeated.
    """
    async with tenant(pool, org) as connection:
        status = await repository.cancel_job(connection, org, key, actor, now=now, release_key=release_key)
        job = await get(connection, org, key)
    if status is None and release_key and job.status is Status.CANCELED:
        return job
    if status is None and job.status is Status.RUNNING:
        raise IllegalMove(
            f"job {key} is running, and a key is released only once its job is canceled: cancel it at once (now), "
            "or cancel it and release the key when it has stopped"
        )
    if status is None:
        raise IllegalMove(f"job {key} is {job.status} and cannot be cancelled: it has come to its end")
    return job


async def erase(pool: Pool, org: UUID, key: UUID, actor: str, reason: str | None = None) -> None:
    """Remove one finished job with its events, for good; who did it is written down. For the owner of the tables."""
    if reason is not None and not 1 <= len(reason) <= MAX_REASON:
        raise InvalidArgument(f"a reason of {len(reason)} characters: must have 1 to {MAX_REASON}")
    async with tenant(pool, org) as connection:
        if await repository.erase_job(connection, org, key, actor, reason):
            return
        job = await get(connection, org, key)
    raise IllegalMove(f"job {key} is {job.status} and cannot be erased: cancel it first (duly jobs cancel {key} --now)")


async def retry(pool: Pool, org: UUID, key: UUID, actor: str | None) -> Job:
    """Let a dead letter wait again as though it were new; anything else refuses."""
    async with tenant(pool, org) as connection:
        is_redriven = await repository.retry_job(connection, org, key, actor)
        job = await get(connection, org, key)
        if not is_redriven:
            raise IllegalMove(f"job {key} is {job.status} and cannot be retried: only a dead_letter can")
        await repository.wake(connection)
    return job


async def count_dead(pool: Pool, which: DeadLetters) -> int:
    """How many a redrive would take."""
    async with tenant(pool, which.org) as connection:
        return await repository.count_dead(connection, which)


async def redrive(
    pool: Pool, which: DeadLetters, actor: str | None, on_progress: Callable[[int], None] = lambda _: None
) -> int:
    """Let all that match wait again, a transaction for every thousand; what dies meanwhile is not taken again."""
    began = await now(pool)
    until = min(which.finished_before, began) if which.finished_before else began
    bounded = DeadLetters(which.org, which.type, which.queue, which.code, which.finished_from, until)
    taken = 0
    while True:
        async with tenant(pool, which.org) as connection:
            rows = await repository.redrive(connection, bounded, actor, REDRIVEN_AT_ONCE)
            if rows:
                await repository.wake(connection)
        taken += len(rows)
        on_progress(taken)
        if len(rows) < REDRIVEN_AT_ONCE:
            return taken


async def pause(pool: Pool, actor: str | None, *, queue: str = ANY, type: str = ANY) -> datetime:  # noqa: A002
    """Let a queue, a type, or a type within a queue rest; since when it does."""
    refuse_everything(queue, type)
    with as_our_errors():
        async with pool.transaction() as connection:
            return await repository.pause(connection, actor, queue=queue, type=type)


async def list_limits(pool: Pool) -> Sequence[Limit]:
    """Every pause, and how many of a type may run at once."""
    async with pool.transaction() as connection:
        return await repository.list_limits(connection)


async def resume(pool: Pool, *, queue: str = ANY, type: str = ANY) -> bool:  # noqa: A002
    """End a pause; False when there was none."""
    refuse_everything(queue, type)
    async with pool.transaction() as connection:
        is_resumed = await repository.resume(connection, queue=queue, type=type)
        if is_resumed:
            await repository.wake(connection)
    return is_resumed


# Within ---------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def tenant(pool: Pool, org: UUID) -> AsyncGenerator[Connection, None]:
    """A transaction in which only this org's jobs can be seen."""
    async with pool.transaction() as connection:
        await repository.act_for(connection, org)
        yield connection


async def get(connection: Connection, org: UUID, key: UUID) -> Job:
    """A job of this org, or NotFound."""
    if job := await repository.find_job(connection, org, key):
        return job
    raise NotFound(f"there is no job {key}")


def refuse_everything(queue: str, type: str) -> None:  # noqa: A002
    """A pause names something."""
    if queue == type == ANY:
        raise InvalidArgument("name a queue, a type, or both: pausing everything is stopping the workers")
