"""What is no session's fault is waited out: a database or a store that is away, a key that opens nothing, no engine.

A session fails for what it shows, never for the house that it came to. Whoever meets such trouble tries again, for a
while with the session in hand, and then lets it go unblamed: another worker may be better off, and this one comes back
to it. The log says each time what is wrong.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import psycopg

from duly.backoff import Backoff
from duly.errors import Misconfigured, Unavailable
from duly.lease.bisect import is_the_databases_fault
from duly.logging import get_log

__all__ = ["NotNow", "patiently"]

RETRY = Backoff(base_seconds=0.5, cap_seconds=15.0)
T = TypeVar("T")

log = get_log("duly.ingest")


class NotNow(Exception):
    """It was tried for as long as we wait, and the trouble lasts."""


async def patiently(act: Callable[[], Awaitable[T]], seconds: float, **about: str) -> T:
    """What comes of an act that may meet trouble on its way; NotNow when that outlasts so many seconds."""
    failures, deadline = 0, time.monotonic() + seconds
    while True:
        try:
            return await act()
        except Exception as error:
            if not is_nobodys_fault(error):
                raise
            tell(error, **about)
            why = str(error)
        if time.monotonic() >= deadline:
            raise NotNow(why)
        await asyncio.sleep(RETRY.delay_seconds(min(failures, 10)))
        failures += 1


def is_nobodys_fault(error: Exception) -> bool:
    """Would any other session have met the same?"""
    if isinstance(error, psycopg.Error):
        return is_the_databases_fault(error)
    return isinstance(error, Unavailable | Misconfigured)


def tell(error: Exception, **about: str) -> None:
    """Say what is wrong: what passes by itself, and louder what somebody must mend."""
    if isinstance(error, Misconfigured):
        log.error("no session can be read until this is fixed; sessions wait", **about, why=str(error))
    else:
        log.warning("a session cannot be looked at now; trying again", **about, why=str(error))
