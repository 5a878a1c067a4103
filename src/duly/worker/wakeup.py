"""Listening for hints that there is work. Correctness never depends on it: whoever hears nothing looks by itself."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

import psycopg
from psycopg import sql

from duly.db.pool import connect, is_behind_pooler
from duly.errors import Unavailable
from duly.kernel.backoff import Backoff
from duly.logs import get_log

__all__ = ["listen"]

RETRY = Backoff(base_seconds=0.5, cap_seconds=30.0)
PROBE_SECONDS = 30.0  # a silent connection is asked so often whether it is still there

log = get_log("duly.worker")

Hearers = Mapping[str, Sequence[Callable[[], None]]]


async def listen(dsn: str, hearers: Hearers) -> None:
    """Call the hearer of a channel whenever somebody speaks there; reconnects for ever, unless a pooler is between."""
    failures = 0
    while hearers:
        try:
            async with await connect(dsn, name="duly listener") as connection:
                if await is_behind_pooler(connection):
                    log.warning("behind a pooler nobody can wake us; set DATABASE_DIRECT_URL, or live with polling")
                    return
                for channel in hearers:
                    await connection.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
                for channel in hearers:  # for what was said while nobody listened
                    pass_on(channel, hearers)
                failures = 0
                await hear_for_ever(connection, hearers)
        except (psycopg.Error, Unavailable, OSError, TimeoutError) as error:
            log.warning("deaf until reconnected", error=str(error))
            await asyncio.sleep(RETRY.delay_seconds(failures))
            failures = min(failures + 1, 10)


async def hear_for_ever(connection: psycopg.AsyncConnection[object], hearers: Hearers) -> None:
    """Pass on what is said; a connection that is silent for long is probed, for it may be dead."""
    while True:
        async for word in connection.notifies(timeout=PROBE_SECONDS):
            pass_on(word.channel, hearers)
        async with asyncio.timeout(PROBE_SECONDS):
            await connection.execute("select 1")


def pass_on(channel: str, hearers: Hearers) -> None:
    """Tell everybody who listens on a channel."""
    for hear in hearers.get(channel, ()):
        hear()
