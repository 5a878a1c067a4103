"""Enqueue jobs: in the transaction of the caller, on any driver (`db/drivers.py`), or on our own connection.

Nothing is enqueued unless the caller's transaction commits. The options that a type declares are constants in the text
of its statement, and only the payload and the options of one call are parameters: so a driver prepares one statement
per type.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any
from uuid import UUID

import orjson
from psycopg import sql
from psycopg.types.json import Jsonb

from duly.bounds import MAX_PRIORITY, MIN_PRIORITY
from duly.canonical_json import Json
from duly.db.drivers import DriverStatement
from duly.db.queries import load_queries
from duly.db.rows import Connection, Row, get_row
from duly.errors import InvalidArgument
from duly.jobs.model import JobOptions, JobRequest, check_time_zone
from duly.jobs.validation import check_integer, parse_seconds
from duly.outcomes import Created, Creation, Existing

MAX_BATCH = 10_000  # jobs in one call: the max_batch of ledger.enqueue_many
MAX_BATCH_CHARACTERS = 16 * 1024 * 1024  # of the payloads of one call, which are sent as one jsonb value
END = object()

SQL = load_queries(__file__, "enqueue.sql")
ONE_JOB = "select id::text, outcome from ledger.enqueue({})"
MANY_JOBS = "select id::text, outcome from ledger.enqueue_many({}) order by nth"
ARGUMENTS: Mapping[str, str] = {  # how the argument of this name is written: {} is a parameter, which is sent as text
    "org": "{}::uuid",
    "type": "{}",
    "payload": "{}::jsonb",
    "key": "{}",
    "queue": "{}",
    "priority": "{}::integer",
    "run_at": "{}::timestamptz",
    "delay_seconds": "{}::double precision",
    "requested_by": "{}",
    "payloads": "array(select jsonb_array_elements({}::jsonb))",
    "keys": "array(select jsonb_array_elements_text({}::jsonb))",
    "priorities": "array(select jsonb_array_elements_text({}::jsonb)::integer)",
    "run_ats": "array(select jsonb_array_elements_text({}::jsonb)::timestamptz)",
}


# In the caller's transaction ------------------------------------------------------------------------------------------


def build_statement(text: str, parameters: Sequence[str], constants: Mapping[str, object]) -> DriverStatement:
    """Build a call of one of the functions, with these parameters and the declared values of others."""
    given = [f"{name} => {ARGUMENTS[name].format(f'%({name})s::text')}" for name in parameters]
    declared = [
        f"{name} => {sql.Literal(value).as_string(None)}" for name, value in constants.items() if name not in parameters
    ]
    return DriverStatement.from_text(text.format(", ".join([*given, *declared])))


def declared_constants(org: UUID, type_name: str, queue: str, options: JobOptions) -> Mapping[str, object]:
    """List what a declaration says of each job of a type."""
    return {
        "org": str(org),
        "type": type_name,
        "queue": queue,
        "priority": options.priority,
        "max_attempts": options.max_attempts,
        "backoff_policy": options.backoff.policy.value,
        "backoff_base_seconds": options.backoff.base_seconds,
        "backoff_cap_seconds": options.backoff.cap_seconds,
        "timeout_seconds": options.timeout_seconds,
        "retain_for": f"{options.retain_seconds} s",
    }


def encode_options(subject: str, options: Mapping[str, Any]) -> dict[str, str | None]:
    """Encode the options of one request as parameters; InvalidArgument names the subject, the option and its value."""
    parameters: dict[str, str | None] = {}
    for name, value in options.items():
        if value is not None:
            column, encode = OPTIONS[name]
            parameters[column] = encode(f"{name}={value!r} of {subject}", value)
    return parameters


def encode_text(subject: str, value: object) -> str:
    """Encode a string."""
    if not isinstance(value, str):
        raise InvalidArgument(f"{subject}: must be a string")
    return value


def encode_org(subject: str, value: object) -> str:
    """Encode the id of an org."""
    if not isinstance(value, UUID):
        raise InvalidArgument(f"{subject}: must be a UUID, the id of an org (duly orgs list)")
    return str(value)


def encode_time(subject: str, value: object) -> str:
    """Encode a time that has a zone."""
    if not isinstance(value, datetime):
        raise InvalidArgument(f"{subject}: must be a datetime with a time zone")
    check_time_zone(value)
    return value.isoformat()


def encode_priority(subject: str, value: object) -> str:
    """Encode a priority."""
    check_integer(subject, value, MIN_PRIORITY, MAX_PRIORITY)
    return str(value)


OPTIONS: Mapping[str, tuple[str, Callable[[str, Any], str]]] = {  # the parameter of an option, and how it is encoded
    "org": ("org", encode_org),
    "key": ("key", encode_text),
    "delay": ("delay_seconds", lambda subject, value: repr(parse_seconds(subject, value))),
    "run_at": ("run_at", encode_time),
    "priority": ("priority", encode_priority),
    "requested_by": ("requested_by", encode_text),
}


def encode_json(value: Mapping[str, Json] | Sequence[Json]) -> str:
    """Encode JSON that was checked."""
    return orjson.dumps(value).decode()


def encode_batches(
    subject: str,
    payloads: Iterable[str],
    keys: Iterable[str | None] | None,
    run_ats: Iterable[datetime] | None,
    priority: int,
) -> Iterator[dict[str, str | None]]:
    """Yield the parameters of each call that enqueues many jobs, in batches within the limits."""
    all_keys = None if keys is None else iter(keys)
    all_times = None if run_ats is None else iter(run_ats)
    batch: list[str] = []
    size = 0
    for payload in payloads:
        if batch and (len(batch) == MAX_BATCH or size + len(payload) > MAX_BATCH_CHARACTERS):
            yield encode_batch(subject, batch, all_keys, all_times, priority)
            batch, size = [], 0
        batch.append(payload)
        size += len(payload)
    last = encode_batch(subject, batch, all_keys, all_times, priority)
    for name, rest in (("keys", all_keys), ("run_ats", all_times)):
        if rest is not None and next(rest, END) is not END:
            raise InvalidArgument(f"{subject}: more {name} than payloads; give one for each, or none at all")
    if batch:
        yield last


def encode_batch(
    subject: str,
    payloads: Sequence[str],
    keys: Iterator[str | None] | None,
    run_ats: Iterator[datetime] | None,
    priority: int,
) -> dict[str, str | None]:
    """Encode the parameters of one call of `ledger.enqueue_many`."""
    number = len(payloads)
    parameters: dict[str, str | None] = {"payloads": f"[{','.join(payloads)}]"}
    each_of: tuple[tuple[str, Iterator[Any] | None, Callable[[str, Any], str]], ...] = (
        ("keys", keys, encode_text),
        ("run_ats", run_ats, encode_time),
    )
    for name, values, encode in each_of:
        if values is None:
            continue
        taken = list(islice(values, number))
        if len(taken) != number:
            raise InvalidArgument(f"{subject}: fewer {name} than payloads; give one for each, or none at all")
        parameters[name] = encode_json(
            [None if value is None else encode(f"{name}=[..., {value!r}] of {subject}", value) for value in taken]
        )
    if priority:
        parameters["priorities"] = encode_json([priority] * number)
    return parameters


def creation_from_columns(columns: Sequence[Any]) -> Creation[UUID]:
    """Convert the columns of an answer, an id as text and an outcome, to `Created` or `Existing`."""
    job_id, outcome = columns
    return Created(UUID(job_id)) if outcome == "created" else Existing(UUID(job_id))


# On our own connection ------------------------------------------------------------------------------------------------


async def insert_job(connection: Connection, request: JobRequest) -> Row:
    """Insert a job, or find the one of the same request: return its id, and `created` or `existing`."""
    return await get_row(connection, SQL.insert_job, **insert_parameters(request))


def insert_parameters(request: JobRequest) -> dict[str, object]:
    """Build the parameters of `insert_job`."""
    options = request.options
    return {
        "org": request.org,
        "type": request.type,
        "payload": Jsonb(request.payload),
        "queue": request.queue,
        "idempotency_key": request.idempotency_key,
        "run_at": request.run_at,
        "delay_seconds": request.delay_seconds,
        "priority": options.priority,
        "requested_by": request.requested_by,
        "actor": request.actor,
        "max_attempts": options.max_attempts,
        "backoff_policy": options.backoff.policy.value,
        "backoff_base_seconds": options.backoff.base_seconds,
        "backoff_cap_seconds": options.backoff.cap_seconds,
        "timeout_seconds": options.timeout_seconds,
        "retain_seconds": options.retain_seconds,
    }
