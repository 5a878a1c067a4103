"""The rows that a worker holds of one work type, and the slots they occupy.

Held is a row from its claim until its outcome is settled or released; its slot is free earlier, once its handler ends.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from duly.lease.heartbeat import Heartbeat
from duly.lease.work import Stop, Work
from duly.logging import get_log
from duly.worker.handlers import Handlers, HeldRow, RunReport
from duly.worker.metrics import Metrics
from duly.worker.polling import Polling

log = get_log("duly.worker")


class RowOutcome(NamedTuple):
    """A held row, and the outcome that is to be settled or released."""

    row: HeldRow
    outcome: object


class Slots:
    """Counts the slots of one work type: those whose handler has not ended, and those reserved by a claim."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.used = 0  # by rows whose handler has not ended, or reserved by a claim
        self.reserved = 0
        self.claims_in_progress = 0

    @property
    def free(self) -> int:
        """Slots that are not in use; negative while the extra slot for expired rows is used."""
        return self.total - self.used

    @property
    def running(self) -> int:
        """Slots whose handler has not ended."""
        return self.used - self.reserved

    def reserve(self, count: int) -> None:
        """Reserve slots for a claim that begins."""
        self.used += count
        self.reserved += count
        self.claims_in_progress += 1

    def end_claim(self, reserved: int, claimed: int) -> None:
        """End a claim: slots for which it found no row are free again."""
        self.used -= reserved - claimed
        self.reserved -= reserved
        self.claims_in_progress -= 1

    def free_one(self) -> None:
        """Free the slot of a handler that has ended."""
        self.used -= 1


class HeldRows:
    """Every row that we hold; used on the control loop only. A lost row is held until its handler has ended."""

    def __init__(
        self, work: Work, heartbeat: Heartbeat, handlers: Handlers, metrics: Metrics, polling: Polling
    ) -> None:
        self.work = work
        self.heartbeat = heartbeat
        self.handlers = handlers
        self.metrics = metrics
        self.polling = polling
        self.slots = Slots(work.tuning.slots)
        self.outcomes: list[RowOutcome] = []  # not settled yet
        self.rows: dict[HeldRow, None] = {}  # everything we hold, in the order of claiming
        self.by_key: dict[Any, HeldRow] = {}  # the same, by key
        self.claimed_rows = 0
        self.idle = asyncio.Event()  # we hold nothing, and no claim is in progress
        self.idle.set()

    def __contains__(self, row: HeldRow) -> bool:
        return row in self.rows

    def __iter__(self) -> Iterator[HeldRow]:
        return iter(self.rows)

    # From claim to outcome --------------------------------------------------------------------------------------------

    def add(self, row: HeldRow) -> None:
        """Hold a row and renew its lease; an earlier claim of the same row is abandoned."""
        if earlier := self.by_key.get(row.lease.key):
            self.abandon_earlier(earlier)
        self.by_key[row.lease.key] = row
        row.watched_lease = self.heartbeat.watch(
            row.lease, on_lost=lambda: self.stop_lost(row), on_cancel=lambda: self.stop_cancelled(row)
        )
        self.rows[row] = None
        self.claimed_rows += 1

    def abandon_earlier(self, earlier: HeldRow) -> None:
        """Abandon an earlier claim of a row that we claimed again: its outcome must not be settled."""
        self.note_lost(earlier, "this worker has claimed the row again")
        if not earlier.has_ended:
            self.handlers.stop([earlier], Stop.LOST, self.accept_reports)
        self.remove(earlier)

    def stop_lost(self, row: HeldRow) -> None:
        """Stop the handler of a lost row; once the handler has ended, a settle or release shows whether it was ours."""
        if not row.has_ended and row.watched_lease and row.watched_lease.lost_reason:
            self.note_lost(row, row.watched_lease.lost_reason)
            self.handlers.stop([row], Stop.LOST, self.accept_reports)

    def stop_cancelled(self, row: HeldRow) -> None:
        """Stop the handler of a row whose cancellation was requested."""
        self.handlers.stop([row], Stop.CANCELLED, self.accept_reports)

    def stop_all(self, *, only_waiting: bool = False) -> None:
        """Stop every handler for a shutdown, or only those that have not begun."""
        self.handlers.stop(list(self.rows), Stop.SHUTDOWN, self.accept_reports, only_waiting=only_waiting)

    def accept_reports(self, reports: Sequence[RunReport]) -> None:
        """Accept outcomes to settle, and slots that are free again, from the handlers' side."""
        for each in reports:
            if each.has_outcome:
                self.outcomes.append(RowOutcome(each.row, each.outcome))
                self.metrics.ran(self.work.name, each.seconds)
            if each.frees_slot:
                self.slots.free_one()
        self.polling.ready.set()

    def take_outcomes(self) -> list[RowOutcome]:
        """Remove and return the outcomes that are to be settled."""
        outcomes, self.outcomes = self.outcomes, []
        return outcomes

    def put_back(self, outcomes: Sequence[RowOutcome]) -> None:
        """Put outcomes whose settle failed back, before the others, for rows that we still hold."""
        self.outcomes = [*(each for each in outcomes if each.row in self.rows), *self.outcomes]

    def add_outcome(self, outcome: RowOutcome) -> None:
        """Add an outcome to those that are to be settled, and wake a loop."""
        self.outcomes.append(outcome)
        self.polling.ready.set()

    def remove(self, row: HeldRow) -> None:
        """Stop holding a row."""
        self.rows.pop(row, None)
        if self.by_key.get(row.lease.key) is row:
            del self.by_key[row.lease.key]
        if row.watched_lease:
            self.heartbeat.unwatch(row.watched_lease)
        self.update_idle()

    # State ------------------------------------------------------------------------------------------------------------

    def update_idle(self) -> None:
        """Set `idle` when nothing is held and no claim is in progress, and clear it otherwise."""
        if self.rows or self.slots.claims_in_progress:
            self.idle.clear()
        else:
            self.idle.set()

    def note_lost(self, row: HeldRow, why: str) -> None:
        """Log and count, once per claim, that a lease is lost: the row is another's, or may be."""
        if not row.is_loss_logged:
            row.is_loss_logged = True
            self.metrics.lost(self.work.name)
            log.info("lease.lost", work_type=self.work.name, row_id=str(row.lease.key), why=why)
