"""Infrastructure errors never fail a session; it is retried.

They are a database or object store that does not answer, rejected credentials, a missing OCR engine: any other session
would meet the same error. The worker retries for a while under its lease and then releases the session without counting
the start. Each error is logged.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import psycopg

from duly.backoff import Backoff
from duly.errors import Misconfigured, Unavailable
from duly.lease.bisect import affects_every_row
from duly.logging import get_log

RETRY = Backoff(base_seconds=0.5, cap_seconds=15.0)
T = TypeVar("T")

log = get_log("duly.ingest")


class InfrastructureRetriesExhausted(Exception):
    """The error persisted for as long as we retry."""


async def retry_infrastructure_errors(act: Callable[[], Awaitable[T]], seconds: float, **fields: str) -> T:
    """Return the result of an action, repeated while it meets infrastructure errors; other errors pass through.

    Raises InfrastructureRetriesExhausted after `seconds`. `fields` are added to the log lines.
    """
    failures, deadline = 0, time.monotonic() + seconds
    while True:
        try:
            return await act()
        except Exception as error:
            if not is_infrastructure_error(error):
                raise
            _log_error(error, **fields)
            detail = str(error)
        if time.monotonic() >= deadline:
            raise InfrastructureRetriesExhausted(detail)
        await asyncio.sleep(RETRY.delay_seconds(min(failures, 10)))
        failures += 1


def is_infrastructure_error(error: Exception) -> bool:
    """Return whether any other session would have met the same error."""
    if isinstance(error, psycopg.Error):
        return affects_every_row(error)
    return isinstance(error, Unavailable | Misconfigured)


def _log_error(error: Exception, **fields: str) -> None:
    """Log at error what an operator must fix, at warning what may pass by itself."""
    log_line = log.error if isinstance(error, Misconfigured) else log.warning
    event = "ingest.misconfigured" if isinstance(error, Misconfigured) else "ingest.unavailable"
    log_line(event, **fields, reason=str(error))
