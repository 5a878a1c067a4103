"""One small function per statement of `lease.sql` and `queries.sql`: claim, settle and release, control, read.

The functions that settle or release jobs take leases and return the keys that their owner settled, by this call or by
an earlier one whose answer was lost; the other leases are lost. A failure and a sweep are two statements, which the
caller runs in one transaction.
"""

import json
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from uuid import UUID

from psycopg.errors import CheckViolation
from psycopg.types.json import Jsonb

from duly.bounds import MAX_SNOOZES
from duly.canonical_json import Json
from duly.crashpoint import crashpoint
from duly.db.error_table import BY_CONSTRAINT
from duly.db.id_prefix import CANDIDATES_LIMIT, IdPrefix
from duly.db.queries import load_queries
from duly.db.rows import (
    Connection,
    Row,
    execute,
    find_row,
    find_value,
    get_rows,
    get_rows_unprepared,
    get_value,
)
from duly.jobs.model import (
    TOO_MANY_SNOOZES,
    DeadLetterFilter,
    Floor,
    Job,
    JobEvent,
    JobStatus,
    TypeInQueue,
)
from duly.jobs.states import JOB
from duly.lease.operations import Lease, find_settled, keys_and_owners, settle_rows
from duly.lease.owner import new_owner
from duly.outcomes import clean_text

SQL = load_queries(__file__)
RESULT_RULE = "ck_job__result"
FIRST_PAGE = (datetime.max.replace(tzinfo=UTC), UUID(int=2**128 - 1))


# Claim ----------------------------------------------------------------------------------------------------------------


async def claim_jobs(
    connection: Connection,
    worker_id: str,
    job_types: Sequence[TypeInQueue],
    *,
    lease_seconds: float,
    limit: int,
    floors: Mapping[TypeInQueue, Floor] | None = None,
) -> list[Lease]:
    """Claim up to `limit` due jobs of these types, under one new owner; see `floors_after` for the floors."""
    owner, sent_at = new_owner(worker_id), time.monotonic()
    claim_floors = [(floors or {}).get(job_type) for job_type in job_types]
    rows = await get_rows(
        connection,
        JOB.statements.claim,
        queues=[job_type.queue for job_type in job_types],
        types=[job_type.type for job_type in job_types],
        owner=owner,
        lease_seconds=lease_seconds,
        limit=limit,
        floor_priorities=[floor.priority if floor else None for floor in claim_floors],
        floor_run_ats=[floor.run_at if floor else None for floor in claim_floors],
        floor_ids=[floor.id if floor else None for floor in claim_floors],
    )
    if rows:
        crashpoint("after_claim")
    return [Lease(JOB, owner, row, sent_at) for row in rows]


async def fence(connection: Connection, lease: Lease, role: str) -> bool:
    """Lock a leased job and act for its org, as this role, until the transaction ends; False when the lease is lost."""
    return await get_value(connection, JOB.statements.fence, key=lease.key, owner=lease.owner, role=role)


async def record_progress(connection: Connection, lease: Lease, stage: str | None, progress: int | None) -> bool:
    """Store the progress of a leased job; False when the lease is lost."""
    return bool(
        await find_row(
            connection, JOB.statements.record_progress, key=lease.key, owner=lease.owner, stage=stage, progress=progress
        )
    )


# Settle and release ---------------------------------------------------------------------------------------------------


async def settle_done(connection: Connection, leases: Sequence[Lease], results: Sequence[Json]) -> frozenset[UUID]:
    """Settle succeeded jobs with their results. A result of None stores NULL; if all are None, the array is NULL."""
    values = [None if result is None else json.dumps(result) for result in results]
    with translate_result_errors():
        return await settle_rows(
            connection, leases, JOB.statements.settle_done, results=values if any(values) else None
        )


async def complete(connection: Connection, lease: Lease, result: Json, worker: str | None) -> None:
    """Settle a succeeded job in the transaction that `fence` began; `worker` is the worker's role."""
    crashpoint("before_settle")
    if await get_value(connection, JOB.statements.complete, **complete_parameters(lease, result, worker)):
        crashpoint("after_settle")


def complete_parameters(lease: Lease, result: Json, worker: str | None) -> dict[str, object]:
    """Build the parameters of `complete`; a worker without a role of its own keeps its login."""
    encoded = None if result is None else json.dumps(result)
    return {"key": lease.key, "owner": lease.owner, "result": encoded, "worker": worker or "none"}


@contextmanager
def translate_result_errors() -> Generator[None, None, None]:
    """Translate the violation of the result's size limit into InvalidResult."""
    try:
        yield
    except CheckViolation as error:
        if error.diag.constraint_name == RESULT_RULE:
            raise BY_CONSTRAINT[RESULT_RULE]() from error
        raise


async def snooze(connection: Connection, leases: Sequence[Lease], seconds: Sequence[float]) -> frozenset[UUID]:
    """Release jobs until later without counting a start; one that was snoozed MAX_SNOOZES times fails instead."""
    snoozed = await settle_rows(
        connection, leases, JOB.statements.release, seconds=list(seconds), max_snoozes=MAX_SNOOZES
    )
    rest = [lease for lease in leases if lease.key not in snoozed]
    if not rest:
        return snoozed
    message = f"the handler returned Later more than {MAX_SNOOZES} times"
    return snoozed | await settle_failed(connection, rest, [TOO_MANY_SNOOZES] * len(rest), [message] * len(rest))


async def release_jobs(connection: Connection, leases: Sequence[Lease]) -> frozenset[UUID]:
    """Release unfinished jobs without counting a start: any worker may claim them when it polls."""
    crashpoint("before_release")
    seconds = [None] * len(leases)  # due as before
    released = await settle_rows(connection, leases, JOB.statements.release, seconds=seconds, max_snoozes=MAX_SNOOZES)
    crashpoint("after_release")
    return released


async def settle_cancelled(connection: Connection, leases: Sequence[Lease]) -> frozenset[UUID]:
    """Settle jobs whose handlers stopped after a cancel request."""
    if not leases:
        return frozenset()
    details = [Jsonb({"actor": lease.owner, "reason": "canceled"}) for lease in leases]
    return await settle_rows(connection, leases, JOB.statements.settle_cancelled, details=details)


async def settle_failed(
    connection: Connection,
    leases: Sequence[Lease],
    codes: Sequence[str],
    messages: Sequence[str],
    tracebacks: Sequence[str | None] = (),
    *,
    give_up: bool = False,
) -> frozenset[UUID]:
    """Settle failed jobs: retry by policy, or dead letter, at once with `give_up`. Must run in a transaction."""
    marked = await mark_failed(connection, leases, codes, messages, tracebacks)
    await retry_or_dead_letter(
        connection, [(lease.key, lease.owner) for lease in leases if lease.key in marked], give_up
    )
    return marked if len(marked) == len(leases) else marked | await find_settled(connection, leases)


async def mark_failed(
    connection: Connection,
    leases: Sequence[Lease],
    codes: Sequence[str],
    messages: Sequence[str],
    tracebacks: Sequence[str | None] = (),
) -> frozenset[UUID]:
    """Make the first transition, to failed, which keeps the owner; tracebacks are stored in the events."""
    crashpoint("before_settle")
    rows = await get_rows(
        connection,
        JOB.statements.mark_failed,
        **keys_and_owners(leases),
        codes=list(codes),
        messages=[clean_text(message) for message in messages],
        tracebacks=list(tracebacks) or [None] * len(leases),
    )
    if rows:
        crashpoint("after_settle")
    return frozenset(row["key"] for row in rows)


async def retry_or_dead_letter(
    connection: Connection, failed: Sequence[tuple[UUID, str]], give_up: bool = False
) -> int:
    """Make the second transition, to queued or dead_letter, of failed jobs by key and owner; return how many."""
    if not failed:
        return 0
    keys, owners = [key for key, _ in failed], [owner for _, owner in failed]
    rows = await get_rows(connection, JOB.statements.retry_or_dead_letter, keys=keys, owners=owners, give_up=give_up)
    return len(rows)


async def sweep_jobs(connection: Connection, *, keys: Sequence[UUID] | None = None, limit: int = 100) -> Sequence[Row]:
    """Sweep expired leases; return the jobs, with the owner of each that failed. Must run in a transaction."""
    crashpoint("before_sweep")
    rows = await mark_expired(connection, keys, limit)
    await retry_or_dead_letter(connection, [(row["key"], row["owner"]) for row in rows if row["owner"]])
    if rows:
        crashpoint("after_sweep")
    return rows


async def mark_expired(connection: Connection, keys: Sequence[UUID] | None, limit: int) -> Sequence[Row]:
    """Make the first transition of jobs with expired leases; rows with an owner failed, those without are canceled."""
    return await get_rows(
        connection, JOB.statements.mark_expired, keys=None if keys is None else list(keys), limit=limit
    )


# Control --------------------------------------------------------------------------------------------------------------


async def cancel_job(
    connection: Connection, org: UUID, job_id: UUID, actor: str | None, *, now: bool = False, release_key: bool = False
) -> JobStatus | None:
    """Cancel a queued job, request that a running one stops, or cancel it `now`; return its status, None if unchanged.

    `release_key` frees the idempotency key of the job that this call, or an earlier one, canceled.
    """
    status = await find_value(
        connection, SQL.cancel_job, org=org, job_id=job_id, actor=actor, now=now, release_key=release_key
    )
    return JobStatus(status) if status else None


async def erase_job(connection: Connection, org: UUID, job_id: UUID, actor: str, reason: str | None) -> bool:
    """Delete one finished job with its events; False when it does not exist or is not finished."""
    return bool(await find_value(connection, SQL.erase_job, org=org, job_id=job_id, actor=actor, reason=reason))


async def redrive(connection: Connection, org: UUID, job_id: UUID, actor: str | None) -> bool:
    """Put one dead letter back in the queue; False when the job is none."""
    return bool(await find_value(connection, SQL.redrive, org=org, job_id=job_id, actor=actor))


async def count_dead_letters(connection: Connection, matching: DeadLetterFilter) -> int:
    """Count the dead letters that a redrive would put back in the queue."""
    return await get_value(connection, SQL.count_dead_letters, **asdict(matching))


async def redrive_many(
    connection: Connection, matching: DeadLetterFilter, actor: str | None, limit: int = 1000
) -> Sequence[UUID]:
    """Put up to `limit` matching dead letters back in the queue; return their ids."""
    rows = await get_rows(connection, SQL.redrive_many, **asdict(matching), actor=actor, limit=limit)
    return [row["id"] for row in rows]


async def wake_workers(connection: Connection) -> None:
    """Notify the workers, when this commits, that a job is due."""
    await execute(connection, SQL.wake_workers)


async def purge(connection: Connection, limit: int = 1000) -> int:
    """Delete up to `limit` jobs whose retention is over; return how many."""
    return await get_value(connection, SQL.purge, limit=limit)


async def set_org(connection: Connection, org: UUID) -> None:
    """Make only this org's jobs visible until the transaction ends."""
    await get_value(connection, SQL.set_org, org=org)


# Read -----------------------------------------------------------------------------------------------------------------


async def list_job_ids(connection: Connection, org: UUID, prefix: IdPrefix) -> Sequence[Row]:
    """List the first few jobs of this org whose ids have the prefix."""
    return await get_rows(
        connection, SQL.list_job_ids, org=org, first=prefix.first, last=prefix.last, limit=CANDIDATES_LIMIT
    )


async def find_job(connection: Connection, org: UUID, job_id: UUID) -> Job | None:
    """Find a job of this org."""
    row = await find_row(connection, SQL.find_job, org=org, job_id=job_id)
    return Job(**row) if row else None


async def list_jobs(
    connection: Connection,
    org: UUID,
    *,
    status: JobStatus | None = None,
    type: str | None = None,  # noqa: A002
    queue: str | None = None,
    finished_from: datetime | None = None,
    finished_before: datetime | None = None,
    before: tuple[datetime, UUID] = FIRST_PAGE,
    limit: int = 100,
) -> Sequence[Job]:
    """List jobs after a cursor, newest first; `before` is the sort key that the cursor encodes."""
    rows = await get_rows_unprepared(
        connection,
        SQL.list_jobs,
        org=org,
        status=status,
        type=type,
        queue=queue,
        finished_from=finished_from,
        finished_before=finished_before,
        before_at=before[0],
        before_id=before[1],
        limit=limit,
    )
    return [Job(**row) for row in rows]


async def find_traceback(connection: Connection, org: UUID, job_id: UUID) -> str | None:
    """Find the traceback of a job's last failed attempt, if there is one."""
    return await find_value(connection, SQL.find_traceback, org=org, job_id=job_id)


async def list_events(
    connection: Connection, org: UUID, job_id: UUID, after_seq: int = 0, limit: int = 1000
) -> Sequence[JobEvent]:
    """List the events of a job after a sequence number, in order."""
    rows = await get_rows(connection, SQL.list_events, org=org, job_id=job_id, after_seq=after_seq, limit=limit)
    return [JobEvent(**row) for row in rows]
