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
from sqlalchemy import Connection as AlchemyConnection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
from typing_extensions import TypeIs

from duly.db.rows import Row, Statement
from duly.errors import InvalidArgument, KeyReused
from duly.kernel.outcome import Created, Creation, Existing
from duly.ledger.model import Request
from duly.ledger.store import KEY_REUSED, SQL, parameters_of

if TYPE_CHECKING:  # needs a package of its own, which only those have who use it
    from sqlalchemy.ext.asyncio import AsyncConnection as AlchemyAsyncConnection
    from sqlalchemy.ext.asyncio import AsyncSession

__all__ = [
    "AsyncTransaction",
    "SyncTransaction",
    "as_our_errors",
    "ask",
    "ask_async",
    "creation_of",
    "is_async",
    "look",
    "look_async",
]

SyncTransaction: TypeAlias = psycopg.Connection[Any] | AlchemyConnection | Session
AsyncTransaction: TypeAlias = "psycopg.AsyncConnection[Any] | AlchemyAsyncConnection | AsyncSession"

STATEMENT = SQL.enqueue.as_string(None)
REFUSED = ("22", "23")  # classes of SQLSTATE: a value, or a rule that it breaks


def is_async(transaction: SyncTransaction | AsyncTransaction) -> "TypeIs[AsyncTransaction]":
    """Must what we ask here be awaited?"""
    if isinstance(transaction, psycopg.AsyncConnection):
        return True
    alchemy = sys.modules.get("sqlalchemy.ext.asyncio")  # nobody has one of these who did not import it
    return alchemy is not None and isinstance(transaction, (alchemy.AsyncConnection, alchemy.AsyncSession))


def ask(transaction: SyncTransaction, request: Request) -> Creation[UUID]:
    """Enqueue on a connection that is not async."""
    parameters = parameters_of(request)
    with as_our_errors():
        if isinstance(transaction, psycopg.Connection):
            with transaction.cursor(row_factory=dict_row) as cursor:
                return creation_of(cursor.execute(SQL.enqueue, parameters).fetchone())
        connection = transaction.connection() if isinstance(transaction, Session) else transaction
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
        return creation_of((await connection.exec_driver_sql(STATEMENT, parameters)).mappings().one())


def look(transaction: SyncTransaction, org: UUID, statement: Statement, parameters: Row) -> Sequence[Row]:
    """Ask about an org's jobs as this transaction sees them, whoever its login is; afterwards it is as it was.

    The tenant is set inside a savepoint, or a transaction where none is open, which is rolled back: by psycopg itself,
    for SQLAlchemy need not know.
    """
    connection = transaction.connection() if isinstance(transaction, Session) else transaction
    driver = connection if isinstance(connection, psycopg.Connection) else connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection), "we speak through psycopg"
    with driver.transaction(force_rollback=True), driver.cursor(row_factory=dict_row) as cursor:
        cursor.execute(SQL.act_for, {"org": org})
        return cursor.execute(statement, parameters).fetchall()


async def look_async(transaction: AsyncTransaction, org: UUID, statement: Statement, parameters: Row) -> Sequence[Row]:
    """The same on an async connection."""
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
    driver: Any = (await connection.get_raw_connection()).driver_connection
    assert isinstance(driver, psycopg.AsyncConnection), "we speak through psycopg"
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
    except (psycopg.Error, DBAPIError) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        state = getattr(cause, "sqlstate", None) or ""
        words = getattr(getattr(cause, "diag", None), "message_primary", None) or str(cause)
        if state == KEY_REUSED:
            raise KeyReused(words) from error
        if state.startswith(REFUSED):
            raise InvalidArgument(words) from error
        raise
