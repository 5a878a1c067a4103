"""Enqueue jobs: on the caller's connection (psycopg or SQLAlchemy, sync or async, connection or session), or our own.

The statement runs in the caller's transaction: nothing is enqueued unless that commits.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb
from typing_extensions import TypeIs

from duly.canonical_json import Json
from duly.db.error_table import translate_errors
from duly.db.queries import load_queries
from duly.db.rows import Connection, Row, get_row, get_rows
from duly.errors import InvalidArgument
from duly.jobs.model import JobRequest, check_time_zone
from duly.outcomes import Created, Creation, Existing

if TYPE_CHECKING:  # not imported at run time: a caller that passes one has imported it already
    from sqlalchemy import Connection as AlchemyConnection
    from sqlalchemy.ext.asyncio import AsyncConnection as AlchemyAsyncConnection
    from sqlalchemy.ext.asyncio import AsyncSession
    from sqlalchemy.orm import Session

SyncTransaction: TypeAlias = "psycopg.Connection[Any] | AlchemyConnection | Session"
AnyTransaction: TypeAlias = "SyncTransaction | AsyncTransaction"
AsyncTransaction: TypeAlias = "psycopg.AsyncConnection[Any] | AlchemyAsyncConnection | AsyncSession"

SQL = load_queries(__file__, "enqueue.sql")
INSERT_JOB_TEXT = SQL.insert_job.as_string(None)  # for SQLAlchemy
SUPPORTED = "enqueue needs a psycopg 3 connection, or an SQLAlchemy connection or session over psycopg 3, sync or async"
BY_SQL = "with another driver, call the SQL function: select id, outcome from ledger.enqueue(org => ..., type => ...)"
DRIVER = "psycopg"  # SQLAlchemy's name for psycopg 3
ALCHEMY = {"sqlalchemy": ("Connection",), "sqlalchemy.orm": ("Session",)}
ASYNC_ALCHEMY = {"sqlalchemy.ext.asyncio": ("AsyncConnection", "AsyncSession")}


# Supported connections ------------------------------------------------------------------------------------------------


def check_supported(transaction: object) -> None:
    """Raise InvalidArgument unless this is a supported connection or session; the message says what to pass."""
    if not isinstance(transaction, (psycopg.Connection, psycopg.AsyncConnection)) and not is_instance(
        transaction, ALCHEMY | ASYNC_ALCHEMY
    ):
        raise InvalidArgument(f"{SUPPORTED}; not {describe_unsupported(transaction)}")


def describe_unsupported(given: object) -> str:
    """Describe an unsupported value, and what to pass instead."""
    module = type(given).__module__
    name = type(given).__qualname__ if module == "builtins" else f"{module}.{type(given).__qualname__}"
    if given is None:
        return "None"
    if isinstance(given, str):
        return "a string; connect first, and pass the connection"
    if isinstance(given, (psycopg.Cursor, psycopg.AsyncCursor)):
        return f"a cursor ({name}); pass its connection: cursor.connection"
    if module.startswith("django."):
        return f"Django's {name}; inside atomic(), over psycopg 3, pass what it wraps: connection.connection"
    if name.endswith("Engine"):
        return f"an engine ({name}); pass the connection of `with engine.begin() as tx`"
    if name.endswith("scoped_session"):
        return f"{name}; call it, and pass the session that it returns"
    return f"{name}; {BY_SQL}"


def check_driver(connection: "AlchemyConnection | AlchemyAsyncConnection") -> None:
    """Raise InvalidArgument when an SQLAlchemy connection uses another driver than psycopg 3."""
    driver = connection.dialect.driver
    if driver != DRIVER:
        raise InvalidArgument(
            f"{SUPPORTED}; this is SQLAlchemy over {driver}: use an address with postgresql+psycopg://, or, {BY_SQL}"
        )


def is_instance(given: object, classes: Mapping[str, Sequence[str]]) -> bool:
    """Check for an instance of one of these classes; a module that was not imported has no instances."""
    return any(
        isinstance(given, getattr(sys.modules[module], name))
        for module, names in classes.items()
        if module in sys.modules
        for name in names
    )


# On the caller's connection -------------------------------------------------------------------------------------------


def is_async(transaction: AnyTransaction) -> "TypeIs[AsyncTransaction]":
    """Check whether calls on this connection are awaited."""
    return isinstance(transaction, psycopg.AsyncConnection) or is_instance(transaction, ASYNC_ALCHEMY)


def enqueue_sync(transaction: SyncTransaction, request: JobRequest) -> Creation[UUID]:
    """Enqueue on a sync connection."""
    parameters = insert_parameters(request)
    with translate_errors():
        if isinstance(transaction, psycopg.Connection):
            with transaction.cursor(row_factory=dict_row) as cursor:
                return creation_from_row(cursor.execute(SQL.insert_job, parameters).fetchone())
        from sqlalchemy.orm import Session

        connection = transaction.connection() if isinstance(transaction, Session) else transaction
        check_driver(connection)
        return creation_from_row(connection.exec_driver_sql(INSERT_JOB_TEXT, parameters).mappings().one())


async def enqueue_async(transaction: AsyncTransaction, request: JobRequest) -> Creation[UUID]:
    """Enqueue on an async connection."""
    parameters = insert_parameters(request)
    with translate_errors():
        if isinstance(transaction, psycopg.AsyncConnection):
            async with transaction.cursor(row_factory=dict_row) as cursor:
                await cursor.execute(SQL.insert_job, parameters)
                return creation_from_row(await cursor.fetchone())
        from sqlalchemy.ext.asyncio import AsyncSession

        connection = await transaction.connection() if isinstance(transaction, AsyncSession) else transaction
        check_driver(connection)
        return creation_from_row((await connection.exec_driver_sql(INSERT_JOB_TEXT, parameters)).mappings().one())


def creation_from_row(row: Mapping[Any, Any] | None) -> Creation[UUID]:
    """Convert a row of `insert_job` to `Created` or `Existing`."""
    assert row, "insert_job always returns a row"
    return Created(row["id"]) if row["outcome"] == "created" else Existing(row["id"])


# On our own connection ------------------------------------------------------------------------------------------------


async def insert_job(connection: Connection, request: JobRequest) -> Row:
    """Insert a job, or find the one of the same request: return its id, and `created` or `existing`."""
    return await get_row(connection, SQL.insert_job, **insert_parameters(request))


async def insert_jobs(
    connection: Connection,
    request: JobRequest,
    payloads: Sequence[Mapping[str, Json]],
    idempotency_keys: Sequence[str | None] | None = None,
    run_ats: Sequence[datetime] | None = None,
) -> Sequence[Row]:
    """Insert jobs that differ from this request in payload, key and time; return rows in the order of the payloads."""
    for run_at in run_ats or ():
        check_time_zone(run_at)
    return await get_rows(
        connection,
        SQL.insert_jobs,
        payloads=[json.dumps(payload) for payload in payloads],  # as text: binding Jsonb objects one by one is slower
        idempotency_keys=None if idempotency_keys is None else list(idempotency_keys),
        run_ats=None if run_ats is None else list(run_ats),
        priorities=[request.options.priority] * len(payloads) if request.options.priority else None,
        **common_parameters(request),
    )


# Parameters -----------------------------------------------------------------------------------------------------------


def insert_parameters(request: JobRequest) -> dict[str, object]:
    """Build the parameters of `insert_job`."""
    return {
        "payload": Jsonb(request.payload),
        "idempotency_key": request.idempotency_key,
        "run_at": request.run_at,
        "priority": request.options.priority,
        **common_parameters(request),
    }


def common_parameters(request: JobRequest) -> dict[str, object]:
    """Build the parameters that `insert_job` and `insert_jobs` share."""
    options = request.options
    return {
        "org": request.org,
        "type": request.type,
        "queue": request.queue,
        "delay_seconds": request.delay_seconds,
        "requested_by": request.requested_by,
        "actor": request.actor,
        "max_attempts": options.max_attempts,
        "backoff_policy": options.backoff.policy.value,
        "backoff_base_seconds": options.backoff.base_seconds,
        "backoff_cap_seconds": options.backoff.cap_seconds,
        "timeout_seconds": options.timeout_seconds,
        "retain_seconds": options.retain_seconds,
    }
