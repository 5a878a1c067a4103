"""The rows that a worker holds of one work type, and the slots they occupy."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from duly.lease.heartbeat import Heartbeat
from duly.lease.work import Stop, Work
from duly.logging import get_log
from duly.worker.handlers import Handlers, Running, RunReport
from duly.worker.metrics import Metrics
from duly.worker.polling import Polling

log = get_log("duly.worker")


class Slots:
    """Counts the slots of one work type: those that run a row, and those reserved by a claim in progress."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.busy = 0  # running a row, or reserved
        self.reserved = 0
        self.claims_in_progress = 0

    @property
    def free(self) -> int:
        """Slots that neither run a row nor are reserved; negative while the extra slot for expired rows is used."""
        return self.total - self.busy

    @property
    def working(self) -> int:
        """Slots that run a row."""
        return self.busy - self.reserved

    def reserve(self, count: int) -> None:
        """Reserve slots for a claim that begins."""
        self.busy += count
        self.reserved += count
        self.claims_in_progress += 1

    def end_claim(self, reserved: int, claimed: int) -> None:
        """End a claim: slots for which it found no row are free again."""
        self.busy -= reserved - claimed
        self.reserved -= reserved
        self.claims_in_progress -= 1

    def free_one(self) -> None:
        """Free the slot of a handler that has ended."""
        self.busy -= 1


class HeldRows:
    """Every row that we hold, from its claim until it is settled, released or lost; used on the control loop only."""

    def __init__(
        self, work: Work, heartbeat: Heartbeat, handlers: Handlers, metrics: Metrics, polling: Polling
    ) -> None:
        self.work = work
        self.heartbeat = heartbeat
        self.handlers = handlers
        self.metrics = metrics
        self.polling = polling
        self.slots = Slots(work.tuning.slots)
        self.finished: list[tuple[Running, object]] = []  # outcomes that are not settled yet
        self.running: dict[Running, None] = {}  # everything we hold, in the order of claiming
        self.by_key: dict[Any, Running] = {}  # the same, each row once: its latest claim
        self.claimed_rows = 0
        self.idle = asyncio.Event()  # we hold nothing, and no claim is in progress
        self.idle.set()

    def __contains__(self, running: Running) -> bool:
        return running in self.running

    def __iter__(self) -> Iterator[Running]:
        return iter(self.running)

    # From claim to outcome --------------------------------------------------------------------------------------------

    def add(self, running: Running) -> None:
        """Hold a row and renew its lease; an earlier claim of the same row is given up."""
        if earlier := self.by_key.get(running.lease.key):
            self.supersede(earlier)
        self.by_key[running.lease.key] = running
        running.held = self.heartbeat.add(
            running.lease, on_lost=lambda: self.stop_lost(running), on_cancel=lambda: self.stop_cancelled(running)
        )
        self.running[running] = None
        self.claimed_rows += 1

    def supersede(self, earlier: Running) -> None:
        """Give up an earlier claim of a row that we claimed again: its outcome must not be settled."""
        self.note_lost(earlier, "this worker has claimed the row again")
        if not earlier.has_ended:
            self.handlers.stop([earlier], Stop.LOST, self.deliver)
        self.remove(earlier)

    def stop_lost(self, running: Running) -> None:
        """Stop the handler of a row that is no longer ours; once the handler has ended, its settle notices the loss."""
        if not running.has_ended and running.held and running.held.lost:
            self.note_lost(running, running.held.lost)
            self.handlers.stop([running], Stop.LOST, self.deliver)

    def stop_cancelled(self, running: Running) -> None:
        """Stop the handler of a row whose cancellation was requested."""
        self.handlers.stop([running], Stop.CANCELLED, self.deliver)

    def stop_all(self, *, only_waiting: bool = False) -> None:
        """Stop every handler for a shutdown, or only those that have not begun."""
        self.handlers.stop(list(self.running), Stop.SHUTDOWN, self.deliver, only_waiting=only_waiting)

    def deliver(self, reports: Sequence[RunReport]) -> None:
        """Accept outcomes to settle, and slots that are free again, from the handlers' side."""
        for each in reports:
            if each.has_outcome:
                self.finished.append((each.running, each.outcome))
                self.metrics.ran(self.work.name, each.seconds)
            if each.is_free:
                self.slots.free_one()
        self.polling.ready.set()

    def take_finished(self) -> list[tuple[Running, object]]:
        """Remove and return the outcomes that are to be settled."""
        finished, self.finished = self.finished, []
        return finished

    def put_back(self, finished: Sequence[tuple[Running, object]]) -> None:
        """Put outcomes whose settle failed back, before the others, for rows that we still hold."""
        self.finished = [*(each for each in finished if each[0] in self.running), *self.finished]

    def retry(self, finished: tuple[Running, object]) -> None:
        """Add an outcome to those that are to be settled, and wake a cycle."""
        self.finished.append(finished)
        self.polling.ready.set()

    def remove(self, running: Running) -> None:
        """Stop holding a row: it is settled, released or lost."""
        self.running.pop(running, None)
        if self.by_key.get(running.lease.key) is running:
            del self.by_key[running.lease.key]
        if running.held:
            self.heartbeat.remove(running.held)
        self.update_idle()

    # State ------------------------------------------------------------------------------------------------------------

    def update_idle(self) -> None:
        """Set or clear `idle`: is nothing held, and no claim in progress?"""
        if self.running or self.slots.claims_in_progress:
            self.idle.clear()
        else:
            self.idle.set()

    def note_lost(self, running: Running, why: str) -> None:
        """Log and count, once per claim, that a row is no longer ours and that nothing was written."""
        if not running.is_known_lost:
            running.is_known_lost = True
            self.metrics.lost(self.work.name)
            log.info("lease.lost", kind=self.work.name, key=str(running.lease.key), why=why)
