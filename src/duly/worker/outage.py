"""Tracks whether the database answers, and logs once when it stops answering and once when it is back.

A lost connection alone is not logged: another one is opened and the work goes on. The database counts as unavailable
when no statement at all was answered for some seconds; one is sent at least every second.
"""

import math
import time

from duly.db.pool import NO_CONNECTION, READ_ONLY
from duly.lease.bisect import affects_every_row
from duly.logging import get_log
from duly.redaction import masked
from duly.worker.metrics import Metrics

LOST_SECONDS = 3.5  # without any answer, until the database counts as unavailable
OUTAGE_STATES = ("08", "53", "57P")  # classes of SQLSTATE: connection lost, no resources, shutting down
REPEAT_SECONDS = 60.0  # how often the same error of one source is logged again

log = get_log("duly.worker")


class Outage:
    """The state of the database as the worker sees it; written on the control loop, read from any thread."""

    def __init__(self) -> None:
        self.answered_at = time.monotonic()
        self.lost_at: float | None = None  # when it answered last, while it is unavailable
        self.last_reason: str | None = None
        self.logged: dict[str, tuple[str, float]] = {}  # the last logged error of each source, and when

    def record_answer(self) -> None:
        """Record that the database answered."""
        now = time.monotonic()
        if self.lost_at is not None:
            log.info("database.available", outage_seconds=round(now - self.lost_at, 1))
            self.lost_at = None
        self.answered_at, self.last_reason = now, None

    def record_failure(self, source: str, error: Exception) -> None:
        """Log a failed step of this source: a work type, the probe or the listener.

        A connection error is not logged: it becomes the reason of an outage if nothing else is answered either.
        """
        if not affects_every_row(error):
            log.error("worker.step_failed", source=source, exc_info=error)
            return
        reason = format_reason(error)
        state = getattr(error, "sqlstate", None)
        if (state is None or state.startswith(OUTAGE_STATES)) and reason != READ_ONLY:
            if self.last_reason is None or not reason.startswith(NO_CONNECTION):
                self.last_reason = reason
            log.debug("database.no_answer", source=source, error=reason)
            return
        logged, at = self.logged.get(source, ("", 0.0))
        if reason != logged or time.monotonic() - at > REPEAT_SECONDS:
            self.logged[source] = reason, time.monotonic()
            log.warning("database.refused", source=source, error=reason)

    def check(self) -> None:
        """Log that the database is unavailable once nothing was answered for too long; called at intervals."""
        if self.lost_at is None and self.silent_seconds() > LOST_SECONDS:
            self.lost_at = self.answered_at
            log.warning("database.unavailable", consequence="retrying until it answers", error=self.reason())

    def silent_seconds(self) -> float:
        """Return for how long nothing was answered."""
        return time.monotonic() - self.answered_at

    def reason(self) -> str | None:
        """Explain why the database counts as unavailable; None while it answers."""
        silent = self.silent_seconds()
        if silent <= LOST_SECONDS:
            return None
        return f"the database has not answered for {silent:.0f} s" + (
            f": {self.last_reason}" if self.last_reason else ""
        )


class DatabaseContact:
    """Notes for one work type whether the database answers its statements."""

    def __init__(self, work_type: str, metrics: Metrics, outage: Outage) -> None:
        self.work_type = work_type
        self.metrics = metrics
        self.outage = outage
        self.answered_at = -math.inf  # when the database last answered this work type, by our monotonic clock

    def note_answer(self) -> None:
        """Note that the database answered."""
        self.answered_at = time.monotonic()
        self.outage.record_answer()

    def note_failure(self, error: Exception) -> None:
        """Count and log a step that failed and will be tried again."""
        self.metrics.database_error(self.work_type)
        self.outage.record_failure(self.work_type, error)


def format_reason(error: BaseException) -> str:
    """Format an error in one line and without secrets."""
    return masked(" ".join(str(error).split()))[:500] or type(error).__name__
