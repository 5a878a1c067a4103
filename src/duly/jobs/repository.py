"""One small function per statement: connection in, value out.

The functions that let go of jobs take leases and return the keys that are ours, whether this call let go of them or an
earlier one whose answer was lost; the others are lost. A failure and a sweep are two statements: they belong into one
transaction, which is the caller's.
"""

import json
import time
from collections.abc import Awaitable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from uuid import UUID

from psycopg.errors import CheckViolation
from psycopg.types.json import Jsonb

from duly.canonical_json import Json
from duly.crashpoint import crashpoint
from duly.db.id_prefix import CANDIDATES_LIMIT, IdPrefix
from duly.db.queries import load_queries
from duly.db.rows import (
    Connection,
    Row,
    change,
    find_row,
    find_value,
    get_row,
    get_rows,
    get_rows_planned_anew,
    get_value,
)
from duly.jobs.model import (
    ANY,
    MAX_SNOOZES,
    TOO_MANY_SNOOZES,
    DeadLetters,
    Floor,
    Job,
    JobEvent,
    Kind,
    Limit,
    Options,
    Request,
    Status,
    refuse_naive,
)
from duly.jobs.states import JOB
from duly.lease.operations import Lease, find_settled, keys_and_owners, settle_many
from duly.lease.owner import new_owner
from duly.outcomes import clean_text, invalid_result

__all__ = [
    "END",
    "KEY_REUSED",
    "SQL",
    "act_for",
    "after_failure",
    "cancel_job",
    "cancelled",
    "claim",
    "complete",
    "count_dead",
    "done",
    "enqueue",
    "enqueue_many",
    "erase_job",
    "failed",
    "fence",
    "find_job",
    "find_traceback",
    "gave_up",
    "handed_back",
    "later",
    "list_events",
    "list_job_ids",
    "list_jobs",
    "list_limits",
    "mark_expired",
    "mark_failed",
    "parameters_of",
    "parameters_of_complete",
    "parameters_of_done",
    "pause",
    "put_back",
    "record_progress",
    "redrive",
    "results_refused",
    "resume",
    "retain",
    "retry_job",
    "set_limit",
    "sweep",
    "sweep_jobs",
    "wake",
]

SQL = load_queries(__file__)
RESULT_RULE = "ck_job__result"
KEY_REUSED = "DU002"  # the SQLSTATE of a key that stands for another request
END = (datetime.max.replace(tzinfo=UTC), UUID(int=2**128 - 1))


# Asking ---------------------------------------------------------------------------------------------------------------


async def enqueue(connection: Connection, request: Request) -> Row:
    """Make a job, or find the one that the same request made: its id, and `created` or `existing`."""
    return await get_row(connection, SQL.enqueue, **parameters_of(request))


def parameters_of(request: Request) -> dict[str, object]:
    """A request as the parameters of `enqueue`."""
    return {
        "org": request.org,
        "type": request.type,
        "payload": Jsonb(request.payload),
        "queue": request.queue,
        "key": request.key,
        "run_at": request.run_at,
        "delay_seconds": request.delay_seconds,
        "requested_by": request.requested_by,
        "actor": request.actor,
        "priority": request.options.priority,
        **policy_of(request.options),
    }


async def enqueue_many(
    connection: Connection,
    request: Request,
    payloads: Sequence[Mapping[str, Json]],
    keys: Sequence[str | None] | None = None,
    run_ats: Sequence[datetime] | None = None,
) -> Sequence[Row]:
    """Make many jobs that differ from this request in their payload, key and time; the answers come in that order."""
    for run_at in run_ats or ():
        refuse_naive(run_at)
    return await get_rows(
        connection,
        SQL.enqueue_many,
        org=request.org,
        type=request.type,
        payloads=[json.dumps(payload) for payload in payloads],  # texts go over in one piece, which is what costs
        queue=request.queue,
        keys=None if keys is None else list(keys),
        run_ats=None if run_ats is None else list(run_ats),
        delay_seconds=request.delay_seconds,
        requested_by=request.requested_by,
        actor=request.actor,
        priorities=[request.options.priority] * len(payloads) if request.options.priority else None,
        **policy_of(request.options),
    )


def policy_of(options: Options) -> dict[str, object]:
    """How hard to try, as parameters."""
    return {
        "max_attempts": options.max_attempts,
        "backoff_policy": options.backoff.policy.value,
        "backoff_base_seconds": options.backoff.base_seconds,
        "backoff_cap_seconds": options.backoff.cap_seconds,
        "timeout_seconds": options.timeout_seconds,
        "retain_seconds": options.retain_seconds,
    }


# Holding --------------------------------------------------------------------------------------------------------------


async def claim(
    connection: Connection,
    worker_id: str,
    kinds: Sequence[Kind],
    *,
    lease_seconds: float,
    limit: int,
    floors: Mapping[Kind, Floor] | None = None,
) -> list[Lease]:
    """Hold up to `most` due jobs of these kinds, under one fresh owner; see `floors_after` for the floors."""
    owner, sent_at = new_owner(worker_id), time.monotonic()
    above = [(floors or {}).get(kind) for kind in kinds]
    rows = await get_rows(
        connection,
        SQL.claim,
        queues=[kind.queue for kind in kinds],
        types=[kind.type for kind in kinds],
        owner=owner,
        lease_seconds=lease_seconds,
        limit=limit,
        floor_priorities=[floor.priority if floor else None for floor in above],
        floor_run_ats=[floor.run_at if floor else None for floor in above],
        floor_ids=[floor.id if floor else None for floor in above],
    )
    if rows:
        crashpoint("after_claim")
    return [Lease(JOB, owner, row, sent_at) for row in rows]


async def fence(connection: Connection, lease: Lease, role: str) -> bool:
    """Lock a job that we hold and act for its org, as this role, until the transaction ends; False when it is lost."""
    return await get_value(connection, SQL.fence, key=lease.key, owner=lease.owner, role=role)


async def record_progress(connection: Connection, lease: Lease, stage: str | None, progress: int | None) -> bool:
    """Say how far we are with a job that we hold; False when it is no longer ours."""
    return bool(
        await find_row(
            connection, SQL.record_progress, key=lease.key, owner=lease.owner, stage=stage, progress=progress
        )
    )


# Letting go -----------------------------------------------------------------------------------------------------------


async def done(connection: Connection, leases: Sequence[Lease], results: Sequence[Json]) -> frozenset[UUID]:
    """The work is done; a result of None is none."""
    asked = get_rows(connection, SQL.done, **parameters_of_done(leases, results))
    return await settle(connection, leases, asked)


async def complete(connection: Connection, lease: Lease, result: Json, worker: str | None) -> None:
    """The work is done, in the transaction that `fence` began, whose worker has this role."""
    crashpoint("before_settle")
    if await get_value(connection, SQL.complete, **parameters_of_complete(lease, result, worker)):
        crashpoint("after_settle")


def parameters_of_complete(lease: Lease, result: Json, worker: str | None) -> dict[str, object]:
    """One result as the parameters of `complete`; a worker without a role of its own has its login's."""
    written = None if result is None else json.dumps(result)
    return {"key": lease.key, "owner": lease.owner, "result": written, "worker": worker or "none"}


def parameters_of_done(leases: Sequence[Lease], results: Sequence[Json]) -> dict[str, object]:
    """Results as the parameters of `done`; mostly there are none."""
    values = [None if result is None else json.dumps(result) for result in results]
    return {**keys_and_owners(leases), "results": values if any(values) else None}


@contextmanager
def results_refused() -> Generator[None, None, None]:
    """Say of a result that it is too large as the database stores it, where that is what was refused."""
    try:
        yield
    except CheckViolation as error:
        if error.diag.constraint_name == RESULT_RULE:
            raise invalid_result("$: it is too large as the database stores it") from error
        raise


async def later(connection: Connection, leases: Sequence[Lease], seconds: Sequence[float]) -> frozenset[UUID]:
    """Not now: to be tried again after so many seconds, without blame; a thousand times, and then it is a failure."""
    snoozed = await write(put_back(connection, leases, seconds))
    rest = [lease for lease in leases if lease.key not in snoozed]
    if not rest:
        return snoozed
    message = f"the handler said 'later' {MAX_SNOOZES} times"
    return snoozed | await failed(connection, rest, [TOO_MANY_SNOOZES] * len(rest), [message] * len(rest))


async def handed_back(connection: Connection, leases: Sequence[Lease]) -> frozenset[UUID]:
    """Unfinished and unblamed: to be claimed by another at once."""
    crashpoint("before_release")
    released = await settle(connection, leases, put_back(connection, leases, [None] * len(leases)))
    crashpoint("after_release")
    return released


async def put_back(connection: Connection, leases: Sequence[Lease], seconds: Sequence[float | None]) -> Sequence[Row]:
    """Let jobs wait again, unblamed: after so many seconds, or due as they were."""
    return await get_rows(
        connection, SQL.put_back, **keys_and_owners(leases), seconds=list(seconds), most_snoozes=MAX_SNOOZES
    )


async def cancelled(connection: Connection, leases: Sequence[Lease]) -> frozenset[UUID]:
    """Somebody asked, and it stopped."""
    if not leases:
        return frozenset()
    said = [Jsonb({"actor": lease.owner, "reason": "canceled"}) for lease in leases]
    return await settle_many(connection, leases, Status.CANCELED, {"said": ("jsonb", said)})


async def failed(
    connection: Connection,
    leases: Sequence[Lease],
    codes: Sequence[str],
    messages: Sequence[str],
    tracebacks: Sequence[str | None] = (),
) -> frozenset[UUID]:
    """It did not work this time: to be tried again by policy, or a dead letter. Belongs into a transaction."""
    return await fail(connection, leases, codes, messages, tracebacks, give_up=False)


async def gave_up(
    connection: Connection,
    leases: Sequence[Lease],
    codes: Sequence[str],
    messages: Sequence[str],
    tracebacks: Sequence[str | None] = (),
) -> frozenset[UUID]:
    """It will never work: a dead letter. Belongs into a transaction."""
    return await fail(connection, leases, codes, messages, tracebacks, give_up=True)


async def fail(
    connection: Connection,
    leases: Sequence[Lease],
    codes: Sequence[str],
    messages: Sequence[str],
    tracebacks: Sequence[str | None],
    *,
    give_up: bool,
) -> frozenset[UUID]:
    """Both halves of a failure."""
    marked = await mark_failed(connection, leases, codes, messages, tracebacks)
    await after_failure(connection, [(lease.key, lease.owner) for lease in leases if lease.key in marked], give_up)
    return marked if len(marked) == len(leases) else marked | await find_settled(connection, leases)


async def mark_failed(
    connection: Connection,
    leases: Sequence[Lease],
    codes: Sequence[str],
    messages: Sequence[str],
    tracebacks: Sequence[str | None] = (),
) -> frozenset[UUID]:
    """The first half: they failed, and we still have them; where each failed is kept with its event."""
    texts = [clean_text(message) for message in messages]
    traces = list(tracebacks) or [None] * len(leases)
    return await write(
        get_rows(
            connection,
            SQL.mark_failed,
            **keys_and_owners(leases),
            codes=list(codes),
            messages=texts,
            tracebacks=traces,
        )
    )


async def after_failure(connection: Connection, held: Sequence[tuple[UUID, str]], give_up: bool = False) -> int:
    """The second half: of these keys and owners, what has failed waits again or is dead; how many there were."""
    if not held:
        return 0
    keys, owners = [key for key, _ in held], [owner for _, owner in held]
    return len(await get_rows(connection, SQL.after_failure, keys=keys, owners=owners, give_up=give_up))


async def sweep(connection: Connection, *, keys: Sequence[UUID] | None = None, limit: int = 100) -> int:
    """Take jobs, or these of them, from holders that are gone; how many there were. Belongs into a transaction."""
    return len(await sweep_jobs(connection, keys=keys, limit=limit))


async def sweep_jobs(connection: Connection, *, keys: Sequence[UUID] | None = None, limit: int = 100) -> Sequence[Row]:
    """The same; which jobs there were, with the owners of those that failed by it."""
    crashpoint("before_sweep")
    rows = await mark_expired(connection, keys, limit)
    await after_failure(connection, [(row["key"], row["owner"]) for row in rows if row["owner"]])
    if rows:
        crashpoint("after_sweep")
    return rows


async def mark_expired(connection: Connection, keys: Sequence[UUID] | None, limit: int) -> Sequence[Row]:
    """The first half: their leases lapsed; those with an owner failed, those without were cancelled."""
    return await get_rows(connection, SQL.mark_expired, keys=None if keys is None else list(keys), limit=limit)


async def settle(connection: Connection, leases: Sequence[Lease], asked: Awaitable[Sequence[Row]]) -> frozenset[UUID]:
    """Let go of what we hold; what we had let go of before counts as well."""
    settled = await write(asked)
    return settled if len(settled) == len(leases) else settled | await find_settled(connection, leases)


async def write(asked: Awaitable[Sequence[Row]]) -> frozenset[UUID]:
    """Let go of what we hold; the keys of it."""
    crashpoint("before_settle")
    rows = await asked
    if rows:
        crashpoint("after_settle")
    return frozenset(row["key"] for row in rows)


# Steering -------------------------------------------------------------------------------------------------------------


async def cancel_job(
    connection: Connection, org: UUID, key: UUID, actor: str | None, *, now: bool = False, release_key: bool = False
) -> Status | None:
    """Cancel a waiting job, ask a running one to stop, or stop it `now`; its status, None when nothing was changed.

    `release_key` frees the key of the job that this cancels, or that was canceled before.
    """
    status = await find_value(
        connection, SQL.cancel_job, org=org, key=key, actor=actor, now=now, release_key=release_key
    )
    return Status(status) if status else None


async def erase_job(connection: Connection, org: UUID, key: UUID, actor: str, reason: str | None) -> bool:
    """Remove one finished job with its events; False when there is none of this id, or it has not finished."""
    return bool(await find_value(connection, SQL.erase_job, org=org, key=key, actor=actor, reason=reason))


async def retry_job(connection: Connection, org: UUID, key: UUID, actor: str | None) -> bool:
    """Let a dead letter wait again; False when it is none."""
    return bool(await find_value(connection, SQL.retry_job, org=org, key=key, actor=actor))


async def count_dead(connection: Connection, which: DeadLetters) -> int:
    """How many a redrive would take."""
    return await get_value(connection, SQL.count_dead, **asdict(which))


async def redrive(connection: Connection, which: DeadLetters, actor: str | None, limit: int = 1000) -> Sequence[UUID]:
    """Let so many of these wait again; which it were."""
    rows = await get_rows(connection, SQL.redrive, **asdict(which), actor=actor, limit=limit)
    return [row["id"] for row in rows]


async def pause(connection: Connection, actor: str | None, *, queue: str = ANY, type: str = ANY) -> datetime:  # noqa: A002
    """Let a queue, a type, or a type within a queue rest; since when it does."""
    return await get_value(connection, SQL.pause, queue=queue, type=type, actor=actor)


async def resume(connection: Connection, *, queue: str = ANY, type: str = ANY) -> bool:  # noqa: A002
    """End a pause; False when there was none."""
    return bool(await find_row(connection, SQL.resume, queue=queue, type=type))


async def set_limit(connection: Connection, type: str, limit: int | None) -> bool:  # noqa: A002
    """Let at most so many jobs of a type run at once, None is any number; False when that was so already."""
    return bool(await change(connection, SQL.set_limit, type=type, limit=limit))


async def list_limits(connection: Connection, limit: int = 1000) -> Sequence[Limit]:
    """Every pause and limit."""
    return [Limit(**row) for row in await get_rows(connection, SQL.list_limits, limit=limit)]


async def wake(connection: Connection) -> None:
    """Tell the workers, when this commits, that something is due."""
    await change(connection, SQL.wake)


async def retain(connection: Connection, limit: int = 1000) -> int:
    """Remove so many jobs whose time is over; how many went."""
    return await get_value(connection, SQL.retain, limit=limit)


async def act_for(connection: Connection, org: UUID) -> None:
    """See only this org's jobs until the transaction ends."""
    await get_value(connection, SQL.act_for, org=org)


# Looking --------------------------------------------------------------------------------------------------------------


async def list_job_ids(connection: Connection, org: UUID, prefix: IdPrefix) -> Sequence[Row]:
    """The jobs of this org whose ids begin so, a few of them."""
    return await get_rows(
        connection, SQL.list_job_ids, org=org, first=prefix.first, last=prefix.last, limit=CANDIDATES_LIMIT
    )


async def find_job(connection: Connection, org: UUID, key: UUID) -> Job | None:
    """A job of this org."""
    row = await find_row(connection, SQL.find_job, org=org, key=key)
    return Job(**row) if row else None


async def list_jobs(
    connection: Connection,
    org: UUID,
    *,
    status: Status | None = None,
    type: str | None = None,  # noqa: A002
    queue: str | None = None,
    finished_from: datetime | None = None,
    finished_before: datetime | None = None,
    before: tuple[datetime, UUID] = END,
    limit: int = 100,
) -> Sequence[Job]:
    """A page of jobs, the newest first."""
    rows = await get_rows_planned_anew(
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


async def find_traceback(connection: Connection, org: UUID, key: UUID) -> str | None:
    """Where the last try of a job that failed did so, if that is known."""
    return await find_value(connection, SQL.find_traceback, org=org, key=key)


async def list_events(
    connection: Connection, org: UUID, key: UUID, after_seq: int = 0, limit: int = 1000
) -> Sequence[JobEvent]:
    """A page of a job's log, in order."""
    rows = await get_rows(connection, SQL.list_events, org=org, key=key, after_seq=after_seq, limit=limit)
    return [JobEvent(**row) for row in rows]
