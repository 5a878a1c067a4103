"""One SQL call on whatever connection the caller has: psycopg or SQLAlchemy, sync or async, connection or session.

The call runs in the caller's own transaction: nothing exists unless they commit. Whoever only looks leaves nothing.
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
from duly.jobs.model import Request
from duly.jobs.repository import KEY_REUSED, SQL, parameters_of
from duly.outcomes import Created, Creation, Existing

if TYPE_CHECKING:  # a worker need not have it in memory; whoever gives us one of these has imported it
    from sqlalchemy import Connection as AlchemyConnection
    from sqlalchemy.ext.asyncio import AsyncConnection as AlchemyAsyncConnection
    from sqlalchemy.ext.asyncio import AsyncSession
    from sqlalchemy.orm import Session

__all__ = [
    "AnyTransaction",
    "AsyncTransaction",
    "SyncTransaction",
    "as_our_errors",
    "ask",
    "ask_async",
    "creation_of",
    "is_async",
    "look",
    "look_async",
    "refuse_unsupported",
]

SyncTransaction: TypeAlias = "psycopg.Connection[Any] | AlchemyConnection | Session"
AnyTransaction: TypeAlias = "SyncTransaction | AsyncTransaction"
AsyncTransaction: TypeAlias = "psycopg.AsyncConnection[Any] | AlchemyAsyncConnection | AsyncSession"

STATEMENT = SQL.enqueue.as_string(None)
NAME = "1 to 100 characters of A-Z a-z 0-9 _ . : / - and begins with a letter or digit"
RULES = {
    "ck_job__type": f"a type has {NAME}",
    "ck_job__queue": f"a queue has {NAME}",
    "ck_job__max_attempts": "max_attempts: between 1 and 1000",
    "ck_job__priority": "priority: between -100 and 100",
    "ck_job__idempotency_key": "a key has 1 to 255 characters",
    "ck_job__payload": f"payload: an object of at most {MAX_BYTES} bytes as the database stores it",
    "ck_job__timeout_seconds": "timeout: more than 0 and at most 366 days",
    "ck_job__backoff": "backoff: 0 <= base <= cap, and a cap of at most 366 days",
    "ck_job__retain_for": "retain: between 1 and 3660 days",
    "ck_job__years_2000_to_2200": "times lie between the years 2000 and 2200",
    "ck_job_limit__queue": f"a queue has {NAME}",
    "ck_job_limit__type": f"a type has {NAME}",
}
REFUSED = ("22", "23")  # classes of SQLSTATE: a value, or a rule that it breaks
SUPPORTED = (
    "a job is asked for on a psycopg 3 connection, or on an SQLAlchemy connection or session over psycopg 3,"
    " sync or async"
)
BY_SQL = "with another driver, call the SQL function: select id, outcome from ledger.enqueue(org => ..., type => ...)"
DRIVER = "psycopg"  # SQLAlchemy's name for psycopg 3
ALCHEMY = {"sqlalchemy": ("Connection",), "sqlalchemy.orm": ("Session",)}
ASYNC_ALCHEMY = {"sqlalchemy.ext.asyncio": ("AsyncConnection", "AsyncSession")}


# Which connections ----------------------------------------------------------------------------------------------------


def refuse_unsupported(transaction: object) -> None:
    """Refuse anything but a connection or session on which a job can be asked for, in words that name both."""
    if not isinstance(transaction, (psycopg.Connection, psycopg.AsyncConnection)) and not is_one_of(
        transaction, ALCHEMY | ASYNC_ALCHEMY
    ):
        raise InvalidArgument(f"{SUPPORTED}; not {described(transaction)}")


def described(given: object) -> str:
    """What was given instead of a connection, and what to give."""
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
        return f"an engine ({name}); pass what `with engine.begin() as tx` gives"
    if name.endswith("scoped_session"):
        return f"{name}; call it, and pass the session that it gives"
    return f"{name}; {BY_SQL}"


def refuse_other_driver(connection: "AlchemyConnection | AlchemyAsyncConnection") -> None:
    """Refuse an SQLAlchemy connection that speaks through another driver than psycopg 3."""
    driver = connection.dialect.driver
    if driver != DRIVER:
        raise InvalidArgument(
            f"{SUPPORTED}; this is SQLAlchemy over {driver}: begin its address with postgresql+psycopg://, or, {BY_SQL}"
        )


def is_one_of(given: object, classes: Mapping[str, Sequence[str]]) -> bool:
    """Is it an instance of one of these classes? Nobody has one of a module that was not imported."""
    return any(
        isinstance(given, getattr(sys.modules[module], name))
        for module, names in classes.items()
        if module in sys.modules
        for name in names
    )


# Asking ---------------------------------------------------------------------------------------------------------------


def is_async(transaction: AnyTransaction) -> "TypeIs[AsyncTransaction]":
    """Must what we ask here be awaited?"""
    return isinstance(transaction, psycopg.AsyncConnection) or is_one_of(transaction, ASYNC_ALCHEMY)


def ask(transaction: SyncTransaction, request: Request) -> Creation[UUID]:
    """Enqueue on a connection that is not async."""
    parameters = parameters_of(request)
    with as_our_errors():
        if isinstance(transaction, psycopg.Connection):
            with transaction.cursor(row_factory=dict_row) as cursor:
                return creation_of(cursor.execute(SQL.enqueue, parameters).fetchone())
        from sqlalchemy.orm import Session

        connection = transaction.connection() if isinstance(transaction, Session) else transaction
        refuse_other_driver(connection)
        return creation_of(connection.exec_driver_sql(STATEMENT, parameters).mappings().one())


async def ask_async(transaction: AsyncTransaction, request: Request) -> Creation[UUID]:
    """Enqueue on an async connection."""
    parameters = parameters_of(request)
    with as_our_errors():
        if isinstance(transaction, psycopg.AsyncConnection):
            async with transaction.cursor(row_factory=dict_row) as cursor:
                await cursor.execute(SQL.enqueue, parameters)
                return creation_of(await cursor.fetchone())
        from sqlalchemy.ext.asyncio import AsyncSession

        connection = await transaction.connection() if isinstance(transaction, AsyncSession) else transaction
        refuse_other_driver(connection)
        return creation_of((await connection.exec_driver_sql(STATEMENT, parameters)).mappings().one())


def look(transaction: SyncTransaction, org: UUID, statement: Statement, parameters: Row) -> Sequence[Row]:
    """Ask about an org's jobs as this transaction sees them, whoever its login is; afterwards it is as it was.

    The tenant is set inside a savepoint, or a transaction where none is open, which is rolled back: by psycopg itself,
    for SQLAlchemy need not know.
    """
    refuse_unsupported(transaction)
    driver = plain_driver_of(transaction)
    assert isinstance(driver, psycopg.Connection), "other drivers were refused"
    with driver.transaction(force_rollback=True), driver.cursor(row_factory=dict_row) as cursor:
        cursor.execute(SQL.act_for, {"org": org})
        return cursor.execute(statement, parameters).fetchall()


def plain_driver_of(transaction: SyncTransaction) -> object:
    """The connection beneath."""
    if isinstance(transaction, psycopg.Connection):
        return transaction
    from sqlalchemy.orm import Session

    connection = transaction.connection() if isinstance(transaction, Session) else transaction
    refuse_other_driver(connection)
    return connection.connection.driver_connection


async def look_async(transaction: AsyncTransaction, org: UUID, statement: Statement, parameters: Row) -> Sequence[Row]:
    """The same on an async connection."""
    refuse_unsupported(transaction)
    driver = await driver_of(transaction)
    async with driver.transaction(force_rollback=True), driver.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(SQL.act_for, {"org": org})
        await cursor.execute(statement, parameters)
        return await cursor.fetchall()


async def driver_of(transaction: AsyncTransaction) -> psycopg.AsyncConnection[Any]:
    """The connection beneath an async one."""
    if isinstance(transaction, psycopg.AsyncConnection):
        return transaction
    from sqlalchemy.ext.asyncio import AsyncSession

    connection = await transaction.connection() if isinstance(transaction, AsyncSession) else transaction
    refuse_other_driver(connection)
    driver: Any = (await connection.get_raw_connection()).driver_connection
    assert isinstance(driver, psycopg.AsyncConnection), "other drivers were refused"
    return cast("psycopg.AsyncConnection[Any]", driver)


def creation_of(row: Mapping[Any, Any] | None) -> Creation[UUID]:
    """What the database said: made now, or there before."""
    assert row, "enqueue always answers"
    return Created(row["id"]) if row["outcome"] == "created" else Existing(row["id"])


@contextmanager
def as_our_errors() -> Generator[None, None, None]:
    """A refusal of the database becomes one of ours; SQLAlchemy wraps it once more."""
    try:
        yield
    except Exception as error:
        cause = error if isinstance(error, psycopg.Error) else getattr(error, "orig", None)
        if not isinstance(cause, psycopg.Error):
            raise
        state = cause.sqlstate or ""
        words = RULES.get(cause.diag.constraint_name or "") or cause.diag.message_primary or str(cause)
        if state == KEY_REUSED:
            hint = cause.diag.message_hint
            raise KeyReused(f"{words}; {hint}" if hint else words) from error
        if state.startswith(REFUSED):
            raise InvalidArgument(words) from error
        raise
