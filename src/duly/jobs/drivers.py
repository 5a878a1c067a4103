"""Enqueue and query on the caller's connection: psycopg or SQLAlchemy, sync or async, connection or session.

Statements run in the caller's transaction: nothing is enqueued unless it commits. A query leaves no trace in it.
"""

import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from uuid import UUID

import psycopg
from psycopg.rows import dict_row
from typing_extensions import TypeIs

from duly.canonical_json import MAX_BYTES
from duly.db.rows import Row, Statement
from duly.errors import InvalidArgument, KeyReused
from duly.jobs.model import JobRequest
from duly.jobs.repository import KEY_REUSED, SQL, enqueue_parameters
from duly.outcomes import Created, Creation, Existing

if TYPE_CHECKING:  # not imported at run time: a caller that passes one has imported it already
    from sqlalchemy import Connection as AlchemyConnection
    from sqlalchemy.ext.asyncio import AsyncConnection as AlchemyAsyncConnection
    from sqlalchemy.ext.asyncio import AsyncSession
    from sqlalchemy.orm import Session

SyncTransaction: TypeAlias = "psycopg.Connection[Any] | AlchemyConnection | Session"
AnyTransaction: TypeAlias = "SyncTransaction | AsyncTransaction"
AsyncTransaction: TypeAlias = "psycopg.AsyncConnection[Any] | AlchemyAsyncConnection | AsyncSession"

ENQUEUE_TEXT = SQL.enqueue.as_string(None)
NAME = "must have 1 to 100 characters of A-Z a-z 0-9 _ . : / - and begin with a letter or digit"
RULES = {
    "ck_job__type": f"type: {NAME}",
    "ck_job__queue": f"queue: {NAME}",
    "ck_job__max_attempts": "max_attempts: must be between 1 and 1000",
    "ck_job__priority": "priority: must be between -100 and 100",
    "ck_job__idempotency_key": "key: must have 1 to 255 characters",
    "ck_job__payload": f"payload: must be an object of at most {MAX_BYTES} bytes as the database stores it",
    "ck_job__timeout_seconds": "timeout: must be more than 0 and at most 366 days",
    "ck_job__backoff": "backoff: must satisfy 0 <= base <= cap, with a cap of at most 366 days",
    "ck_job__retain_for": "retain: must be between 1 and 3660 days",
    "ck_job__years_2000_to_2200": "times must be between the years 2000 and 2200",
    "ck_job_limit__queue": f"queue: {NAME}",
    "ck_job_limit__type": f"type: {NAME}",
}
REFUSED_SQLSTATES = ("22", "23")  # SQLSTATE classes: data exception, integrity constraint violation
SUPPORTED = "enqueue needs a psycopg 3 connection, or an SQLAlchemy connection or session over psycopg 3, sync or async"
BY_SQL = "with another driver, call the SQL function: select id, outcome from ledger.enqueue(org => ..., type => ...)"
DRIVER = "psycopg"  # SQLAlchemy's name for psycopg 3
ALCHEMY = {"sqlalchemy": ("Connection",), "sqlalchemy.orm": ("Session",)}
ASYNC_ALCHEMY = {"sqlalchemy.ext.asyncio": ("AsyncConnection", "AsyncSession")}


# Supported connections ------------------------------------------------------------------------------------------------


def check_supported(transaction: object) -> None:
    """Raise InvalidArgument unless this is a supported connection or session; the message says what to pass."""
    if not isinstance(transaction, (psycopg.Connection, psycopg.AsyncConnection)) and not is_instance_of(
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


def is_instance_of(given: object, classes: Mapping[str, Sequence[str]]) -> bool:
    """Check for an instance of one of these classes; a module that was not imported has no instances."""
    return any(
        isinstance(given, getattr(sys.modules[module], name))
        for module, names in classes.items()
        if module in sys.modules
        for name in names
    )


# Enqueue and query ----------------------------------------------------------------------------------------------------


def is_async(transaction: AnyTransaction) -> "TypeIs[AsyncTransaction]":
    """Check whether calls on this connection are awaited."""
    return isinstance(transaction, psycopg.AsyncConnection) or is_instance_of(transaction, ASYNC_ALCHEMY)


def enqueue_sync(transaction: SyncTransaction, request: JobRequest) -> Creation[UUID]:
    """Enqueue on a sync connection."""
    parameters = enqueue_parameters(request)
    with translate_errors():
        if isinstance(transaction, psycopg.Connection):
            with transaction.cursor(row_factory=dict_row) as cursor:
                return creation_from_row(cursor.execute(SQL.enqueue, parameters).fetchone())
        from sqlalchemy.orm import Session

        connection = transaction.connection() if isinstance(transaction, Session) else transaction
        check_driver(connection)
        return creation_from_row(connection.exec_driver_sql(ENQUEUE_TEXT, parameters).mappings().one())


async def enqueue_async(transaction: AsyncTransaction, request: JobRequest) -> Creation[UUID]:
    """Enqueue on an async connection."""
    parameters = enqueue_parameters(request)
    with translate_errors():
        if isinstance(transaction, psycopg.AsyncConnection):
            async with transaction.cursor(row_factory=dict_row) as cursor:
                await cursor.execute(SQL.enqueue, parameters)
                return creation_from_row(await cursor.fetchone())
        from sqlalchemy.ext.asyncio import AsyncSession

        connection = await transaction.connection() if isinstance(transaction, AsyncSession) else transaction
        check_driver(connection)
        return creation_from_row((await connection.exec_driver_sql(ENQUEUE_TEXT, parameters)).mappings().one())


def query_sync(transaction: SyncTransaction, org: UUID, statement: Statement, parameters: Row) -> Sequence[Row]:
    """Query an org's jobs as this transaction sees them, and restore its settings afterwards.

    The tenant is set inside a savepoint, or a transaction where none is open, which psycopg rolls back without
    SQLAlchemy noticing.
    """
    check_supported(transaction)
    driver = sync_driver_connection(transaction)
    assert isinstance(driver, psycopg.Connection), "other drivers were refused"
    with driver.transaction(force_rollback=True), driver.cursor(row_factory=dict_row) as cursor:
        cursor.execute(SQL.set_tenant, {"org": org})
        return cursor.execute(statement, parameters).fetchall()


def sync_driver_connection(transaction: SyncTransaction) -> object:
    """Return the psycopg connection below a sync one."""
    if isinstance(transaction, psycopg.Connection):
        return transaction
    from sqlalchemy.orm import Session

    connection = transaction.connection() if isinstance(transaction, Session) else transaction
    check_driver(connection)
    return connection.connection.driver_connection


async def query_async(transaction: AsyncTransaction, org: UUID, statement: Statement, parameters: Row) -> Sequence[Row]:
    """Query on an async connection; see `query_sync`."""
    check_supported(transaction)
    driver = await async_driver_connection(transaction)
    async with driver.transaction(force_rollback=True), driver.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(SQL.set_tenant, {"org": org})
        await cursor.execute(statement, parameters)
        return await cursor.fetchall()


async def async_driver_connection(transaction: AsyncTransaction) -> psycopg.AsyncConnection[Any]:
    """Return the psycopg connection below an async one."""
    if isinstance(transaction, psycopg.AsyncConnection):
        return transaction
    from sqlalchemy.ext.asyncio import AsyncSession

    connection = await transaction.connection() if isinstance(transaction, AsyncSession) else transaction
    check_driver(connection)
    driver: Any = (await connection.get_raw_connection()).driver_connection
    assert isinstance(driver, psycopg.AsyncConnection), "other drivers were refused"
    return cast("psycopg.AsyncConnection[Any]", driver)


def creation_from_row(row: Mapping[Any, Any] | None) -> Creation[UUID]:
    """Convert a row of `enqueue` to `Created` or `Existing`."""
    assert row, "enqueue always returns a row"
    return Created(row["id"]) if row["outcome"] == "created" else Existing(row["id"])


@contextmanager
def translate_errors() -> Generator[None, None, None]:
    """Translate constraint violations, which SQLAlchemy wraps, into errors of duly."""
    try:
        yield
    except Exception as error:
        cause = error if isinstance(error, psycopg.Error) else getattr(error, "orig", None)
        if not isinstance(cause, psycopg.Error):
            raise
        state = cause.sqlstate or ""
        message = RULES.get(cause.diag.constraint_name or "") or cause.diag.message_primary or str(cause)
        if state == KEY_REUSED:
            hint = cause.diag.message_hint
            raise KeyReused(f"{message}; {hint}" if hint else message) from error
        if state.startswith(REFUSED_SQLSTATES):
            raise InvalidArgument(message) from error
        raise
