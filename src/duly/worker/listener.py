"""Listening for hints that there is work. Correctness never depends on it: whoever hears nothing looks by itself."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

import psycopg
from psycopg import sql

from duly.backoff import Backoff
from duly.db.pool import connect, is_behind_pooler
from duly.errors import Unavailable
from duly.logging import get_log
from duly.worker.outage import Outage, reason_of

__all__ = ["listen"]

RETRY = Backoff(base_seconds=0.5, cap_seconds=30.0)
QUIET_SECONDS = 10.0  # a connection that is back by then was not worth a line
PROBE_SECONDS = 30.0  # a silent connection is asked so often whether it is still there

log = get_log("duly.worker")

Hearers = Mapping[str, Sequence[Callable[[], None]]]


async def listen(dsn: str, hearers: Hearers, outage: Outage) -> None:
    """Call the hearer of a channel whenever somebody speaks there; reconnects for ever, unless a pooler is between."""
    failures = 0
    lost_at: float | None = None  # when we last could listen
    is_logged = False
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
                if is_logged:
                    log.info("the LISTEN connection is back")
                failures, lost_at, is_logged = 0, None, False
                await hear_for_ever(connection, hearers)
        except (psycopg.Error, Unavailable, OSError, TimeoutError) as error:
            lost_at = lost_at or time.monotonic()
            outage.note_failure("listen", error)
            if not is_logged and outage.reason() is None and time.monotonic() - lost_at > QUIET_SECONDS:
                is_logged = True  # the database itself is there
                log.warning("the LISTEN connection is lost; polling until it is back", error=reason_of(error))
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
