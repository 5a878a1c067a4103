"""The database's time: the only clock that everybody shares, and that tests can move."""

from datetime import datetime

from duly.db.pool import Pool
from duly.db.queries import load_queries
from duly.db.rows import Connection, get_value

__all__ = ["get_clock", "get_now", "now"]

SQL = load_queries(__file__, "clock.sql")


async def now(pool: Pool) -> datetime:
    """This instant, for who has no transaction."""
    async with pool.transaction() as connection:
        return await get_clock(connection)


async def get_clock(connection: Connection) -> datetime:
    """This instant, by which stamps are written."""
    return await get_value(connection, SQL.get_clock)


async def get_now(connection: Connection) -> datetime:
    """The time at the start of the statement, by which rows are due."""
    return await get_value(connection, SQL.get_now)
