"""Run one statement and return one shape of result: `find_` may return None, `get_` must not."""

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg import AsyncConnection, sql
from psycopg.rows import dict_row

Row = Mapping[str, Any]
Statement = sql.SQL | sql.Composed
Connection = AsyncConnection[Any]


async def get_rows(connection: Connection, statement: Statement, **parameters: object) -> Sequence[Row]:
    """Return all rows of the statement."""
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(statement, parameters)
        return await cursor.fetchall()


async def get_rows_unprepared(connection: Connection, statement: Statement, **parameters: object) -> Sequence[Row]:
    """Return all rows, planned for these parameter values: for filters that only a partial index serves."""
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(statement, parameters, prepare=False)
        return await cursor.fetchall()


async def find_row(connection: Connection, statement: Statement, **parameters: object) -> Row | None:
    """Return the only row, or None; more than one is a bug."""
    rows = await get_rows(connection, statement, **parameters)
    assert len(rows) < 2, "a statement for one row returned several"
    return rows[0] if rows else None


async def get_row(connection: Connection, statement: Statement, **parameters: object) -> Row:
    """Return the only row; none is a bug."""
    row = await find_row(connection, statement, **parameters)
    assert row is not None, "a statement that always returns a row returned none"
    return row


async def find_value(connection: Connection, statement: Statement, **parameters: object) -> Any:
    """Return the first column of the only row, or None."""
    row = await find_row(connection, statement, **parameters)
    return next(iter(row.values())) if row else None


async def get_value(connection: Connection, statement: Statement, **parameters: object) -> Any:
    """Return the first column of the only row; none is a bug."""
    return next(iter((await get_row(connection, statement, **parameters)).values()))


async def execute(connection: Connection, statement: Statement, **parameters: object) -> int:
    """Run a statement that changes rows; return how many it changed."""
    cursor = await connection.execute(statement, parameters)
    return cursor.rowcount
