"""Query jobs in the caller's own transaction, and leave no trace in it."""

from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

import psycopg
from psycopg.rows import dict_row

from duly.db.rows import Row, Statement
from duly.jobs.enqueue import AsyncTransaction, SyncTransaction, check_driver, check_supported
from duly.jobs.repository import SQL


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
