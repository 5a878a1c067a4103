"""Whether the database answers: one line in the log when it stops, one when it is back, however many notice.

A lost connection alone is nothing worth a line: another is opened, and the work goes on. The database is lost when
nothing at all was answered for some seconds; somebody asks at least once a second.
"""

import time

from duly.db.pool import READ_ONLY
from duly.lease.bisect import is_the_databases_fault
from duly.logging import get_log, masked

__all__ = ["LOST_SECONDS", "Outage", "reason_of"]

LOST_SECONDS = 3.5  # without any answer
NO_CONNECTION = ("08", "53", "57P")  # classes of SQLSTATE: cut off, no room, shutting down or starting up
NO_REASON = "no connection to the database within"  # a pool does not say why; others who tried may
REPEAT_SECONDS = 60.0  # how often the same trouble of one kind of work is logged again

log = get_log("duly.worker")


class Outage:
    """What a worker knows of its database; used on the control loop, and read from any thread."""

    def __init__(self) -> None:
        self.answered_at = time.monotonic()
        self.lost_at: float | None = None  # when it answered last, while it is lost
        self.last_reason: str | None = None
        self.trouble: dict[str, str] = {}  # what each kind of work met last
        self.logged: dict[str, tuple[str, float]] = {}  # the last trouble of each kind of work, and when

    def note_answer(self) -> None:
        """The database answered."""
        now = time.monotonic()
        if self.lost_at is not None:
            log.info("the database is back", away_seconds=round(now - self.lost_at, 1))
            self.lost_at = None
        self.answered_at, self.last_reason = now, None

    def note_failure(self, kind: str, error: Exception) -> None:
        """Something went wrong: when it is the connection, that is the reason if nothing else is answered either."""
        if not is_the_databases_fault(error):
            log.error("a loop failed and is tried again", kind=kind, exc_info=error)
            return
        reason = reason_of(error)
        self.trouble[kind] = reason
        state = getattr(error, "sqlstate", None)
        if (state is None or state.startswith(NO_CONNECTION)) and reason != READ_ONLY:
            if self.last_reason is None or not reason.startswith(NO_REASON):
                self.last_reason = reason
            log.debug("no answer from the database", kind=kind, error=reason)
            return
        logged, at = self.logged.get(kind, ("", 0.0))
        if reason != logged or time.monotonic() - at > REPEAT_SECONDS:
            self.logged[kind] = reason, time.monotonic()
            log.warning("the database refuses", kind=kind, error=reason)

    def look(self) -> None:
        """Now and then: was nothing answered for too long?"""
        if self.lost_at is None and self.silent_seconds() > LOST_SECONDS:
            self.lost_at = self.answered_at
            log.warning("the database does not answer; trying until it is back", error=self.reason())

    def silent_seconds(self) -> float:
        """For how long nothing was answered."""
        return time.monotonic() - self.answered_at

    def reason(self) -> str | None:
        """Why nothing can be done; None while the database answers."""
        silent = self.silent_seconds()
        if silent <= LOST_SECONDS:
            return None
        return f"the database has not answered for {silent:.0f} s" + (
            f": {self.last_reason}" if self.last_reason else ""
        )


def reason_of(error: BaseException) -> str:
    """What an error says, in one line and without secrets."""
    return masked(" ".join(str(error).split()))[:500] or type(error).__name__
