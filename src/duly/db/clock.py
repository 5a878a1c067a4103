"""The database's clock: the only one that all processes share, and that tests can move."""

from datetime import datetime

from duly.db.pool import Pool
from duly.db.queries import load_queries
from duly.db.rows import Connection, get_value

SQL = load_queries(__file__, "clock.sql")


async def get_current_time(pool: Pool) -> datetime:
    """Return the current time, in a transaction of its own."""
    async with pool.transaction() as connection:
        return await get_clock(connection)


async def get_clock(connection: Connection) -> datetime:
    """Return the current time, which is used for timestamps that are written."""
    return await get_value(connection, SQL.get_clock)


async def get_now(connection: Connection) -> datetime:
    """Return the time at the start of the statement, with which due times are compared."""
    return await get_value(connection, SQL.get_now)
