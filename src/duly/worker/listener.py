"""Listens for notifications that there is work. They are hints: without them, workers poll."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

import psycopg
from psycopg import sql

from duly.backoff import Backoff
from duly.db.pool import connect, is_behind_pooler
from duly.errors import Unavailable
from duly.logging import get_log
from duly.worker.outage import Outage, format_reason

RETRY = Backoff(base_seconds=0.5, cap_seconds=30.0)
QUIET_SECONDS = 10.0  # a shorter loss of the connection is not logged
PROBE_SECONDS = 30.0  # how often a silent connection is tested

log = get_log("duly.worker")

Callbacks = Mapping[str, Sequence[Callable[[], None]]]


async def listen(dsn: str, callbacks: Callbacks, outage: Outage) -> None:
    """Call the callbacks of a channel at every notification, for ever; where none can come, wait for ever."""
    if callbacks:
        await listen_directly(dsn, callbacks, outage)
    await asyncio.Event().wait()


async def listen_directly(dsn: str, callbacks: Callbacks, outage: Outage) -> None:
    """Listen, and connect again whenever the connection is lost; returns behind a pooler."""
    failures = 0
    lost_at: float | None = None  # when the connection was lost
    is_logged = False
    while True:
        try:
            async with await connect(dsn, name="duly listener") as connection:
                if await is_behind_pooler(connection):
                    log.warning(
                        "listen.unavailable",
                        reason="DATABASE_URL goes through a pooler, so NOTIFY is unavailable; polling instead",
                        fix="set DATABASE_DIRECT_URL to an address of the server itself",
                    )
                    return
                for channel in callbacks:
                    await connection.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
                for channel in callbacks:  # for notifications sent while we were not listening
                    call_back(channel, callbacks)
                if is_logged:
                    log.info("listen.restored")
                failures, lost_at, is_logged = 0, None, False
                await dispatch_notifications(connection, callbacks)
        except (psycopg.Error, Unavailable, OSError, TimeoutError) as error:
            lost_at = lost_at or time.monotonic()
            outage.record_failure("listen", error)
            if not is_logged and outage.reason() is None and time.monotonic() - lost_at > QUIET_SECONDS:
                is_logged = True  # the database answers other connections
                log.warning("listen.lost", consequence="polling until it is restored", error=format_reason(error))
            await asyncio.sleep(RETRY.delay_seconds(failures))
            failures = min(failures + 1, 10)


async def dispatch_notifications(connection: psycopg.AsyncConnection[object], callbacks: Callbacks) -> None:
    """Dispatch notifications; a connection that is silent for long is tested, because it may be dead."""
    while True:
        async for notification in connection.notifies(timeout=PROBE_SECONDS):
            call_back(notification.channel, callbacks)
        async with asyncio.timeout(PROBE_SECONDS):
            await connection.execute("select 1")


def call_back(channel: str, callbacks: Callbacks) -> None:
    """Call every callback of a channel."""
    for callback in callbacks.get(channel, ()):
        callback()
