"""One line in the log when the database goes, one when it is back; a pool that connects anew logs every try."""

import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from duly.logging import get_log, masked

__all__ = ["telling_outages"]

log = get_log("duly.http")


class FailedTries(logging.Filter):
    """Drops a pool's lines about tries that failed, and tells the first of an outage in our words."""

    def __init__(self) -> None:
        super().__init__()
        self.lost_at: float | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Is this line for the log? Not when it tells of another try."""
        if not record.getMessage().startswith(("error connecting", "reconnection attempt")):
            return True
        if self.lost_at is None:
            self.lost_at = time.monotonic()
            reason = " ".join(record.getMessage().partition(": ")[2].split())
            log.warning("the database does not answer; trying until it is back", error=masked(reason)[:500])
        return False

    def note_connected(self) -> None:
        """A connection was made."""
        if self.lost_at is not None:
            log.info("the database is back", away_seconds=round(time.monotonic() - self.lost_at, 1))
            self.lost_at = None


@asynccontextmanager
async def telling_outages() -> AsyncGenerator[Callable[[], None], None]:
    """Tell of outages; yields what is to be called whenever a connection was made."""
    tries = FailedTries()
    logger = logging.getLogger("psycopg.pool")
    logger.addFilter(tries)
    try:
        yield tries.note_connected
    finally:
        logger.removeFilter(tries)
