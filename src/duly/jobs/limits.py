"""Pause and resume queues and types, and limit how many jobs of a type run at once over all workers."""

from collections.abc import Sequence
from datetime import datetime

from duly.db.error_table import translate_errors
from duly.db.pool import Pool
from duly.db.queries import load_queries
from duly.db.rows import Connection, execute, find_row, get_rows, get_value
from duly.errors import InvalidArgument
from duly.jobs.model import ANY, JobLimit
from duly.jobs.repository import wake_workers

SQL = load_queries(__file__, "limits.sql")
MAX_LIMITS = 1000  # of pauses and limits in a list


# Operations -----------------------------------------------------------------------------------------------------------


async def pause(pool: Pool, actor: str | None, *, queue: str = ANY, type: str = ANY) -> datetime:  # noqa: A002
    """Pause a queue, a type, or a type in a queue; return since when it is paused."""
    check_pause_target(queue, type)
    with translate_errors():
        async with pool.transaction() as connection:
            return await put_pause(connection, actor, queue=queue, type=type)


async def resume(pool: Pool, *, queue: str = ANY, type: str = ANY) -> bool:  # noqa: A002
    """Resume after a pause; return False when there was none."""
    check_pause_target(queue, type)
    async with pool.transaction() as connection:
        is_resumed = await drop_pause(connection, queue=queue, type=type)
        if is_resumed:
            await wake_workers(connection)
    return is_resumed


async def list_limits(pool: Pool) -> Sequence[JobLimit]:
    """List all pauses and limits."""
    async with pool.transaction() as connection:
        return await fetch_limits(connection)


def check_pause_target(queue: str, type: str) -> None:  # noqa: A002
    """Raise InvalidArgument unless a pause names a queue or a type."""
    if queue == type == ANY:
        raise InvalidArgument("name a queue, a type, or both; to pause everything, stop the workers")


# Statements -----------------------------------------------------------------------------------------------------------


async def put_pause(connection: Connection, actor: str | None, *, queue: str = ANY, type: str = ANY) -> datetime:  # noqa: A002
    """Store a pause, unless it is stored already; return since when it is paused."""
    return await get_value(connection, SQL.put_pause, queue=queue, type=type, actor=actor)


async def drop_pause(connection: Connection, *, queue: str = ANY, type: str = ANY) -> bool:  # noqa: A002
    """Remove a pause; return False when there was none."""
    return bool(await find_row(connection, SQL.drop_pause, queue=queue, type=type))


async def set_concurrency(connection: Connection, type: str, concurrency: int | None) -> bool:  # noqa: A002
    """Limit how many jobs of a type run at once, None lifts the limit; return False when nothing changed."""
    return bool(await execute(connection, SQL.set_concurrency, type=type, concurrency=concurrency))


async def fetch_limits(connection: Connection) -> Sequence[JobLimit]:
    """Fetch all pauses and limits."""
    return [JobLimit(**row) for row in await get_rows(connection, SQL.fetch_limits, limit=MAX_LIMITS)]
