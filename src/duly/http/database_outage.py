"""Logs one line when the database becomes unavailable and one when it is back, not one per connection attempt."""

import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from duly.logging import get_log
from duly.redaction import masked

log = get_log("duly.http")


class ConnectionAttemptFilter(logging.Filter):
    """Drops the pool's log records about failed attempts, and logs `database.unavailable` for the first of them."""

    def __init__(self) -> None:
        super().__init__()
        self.lost_at: float | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to keep a log record; records about failed attempts are dropped."""
        if not record.getMessage().startswith(("error connecting", "reconnection attempt")):
            return True
        if self.lost_at is None:
            self.lost_at = time.monotonic()
            reason = " ".join(record.getMessage().partition(": ")[2].split())
            log.warning("database.unavailable", error=masked(reason)[:500])
        return False

    def note_connected(self) -> None:
        """Log the end of an outage; called whenever a connection was made."""
        if self.lost_at is not None:
            log.info("database.available", outage_seconds=round(time.monotonic() - self.lost_at, 1))
            self.lost_at = None


@asynccontextmanager
async def log_database_outages() -> AsyncGenerator[Callable[[], None], None]:
    """Log outages; yields the function to call whenever a connection was made."""
    attempts = ConnectionAttemptFilter()
    logger = logging.getLogger("psycopg.pool")
    logger.addFilter(attempts)
    try:
        yield attempts.note_connected
    finally:
        logger.removeFilter(attempts)
