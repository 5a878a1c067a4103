"""Claims rows of one work type and passes them to the handlers."""

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from duly.crashpoint import crashpoint
from duly.db.pool import Pool
from duly.lease.bisect import affects_every_row, bisect, is_lock_or_timeout_error
from duly.lease.operations import Lease
from duly.lease.work import Work
from duly.logging import get_log
from duly.worker.handlers import HeldRow
from duly.worker.held_rows import HeldRows
from duly.worker.outage import DatabaseContact
from duly.worker.settler import Settler

REFUSED_SECONDS = 60.0  # for how long a row that could not be claimed is skipped

log = get_log("duly.worker")


class Failing(NamedTuple):
    """Since when claims have failed, by our monotonic clock, and the last error."""

    since: float
    error: BaseException


class Claimer:
    """Claims due or expired rows into free slots."""

    def __init__(
        self, work: Work, worker_id: str, pool: Pool, contact: DatabaseContact, held: HeldRows, settler: Settler
    ) -> None:
        self.work = work
        self.worker_id = worker_id
        self.pool = pool
        self.contact = contact
        self.held = held
        self.settler = settler
        self.handlers = held.handlers
        self.metrics = held.metrics
        self.polling = held.polling
        self.refused_until: dict[Any, float] = {}  # rows that could not be claimed, by key: until when they are skipped
        self.is_stopping = False
        self.failing: Failing | None = None  # None once a claim has succeeded

    def can_claim(self) -> bool:
        """Return whether claimed rows would begin: we are not stopping, and the handlers' loop responds."""
        return not self.is_stopping and self.handlers.is_responsive()

    def take_claim_turn(self) -> int:
        """Take the request to claim, and return how many due rows fit into free slots; 0 when there is no request.

        After that neither loop claims until a poll, a notification or a full claim requests it again.
        """
        wanted = min(self.held.slots.free, self.work.tuning.batch)
        if wanted <= 0 or not self.polling.is_claim_requested or not self.can_claim():
            return 0
        self.polling.is_claim_requested = False
        return wanted

    async def claim_up_to(self, wanted: int, *, expired: bool = False) -> int:
        """Claim up to `wanted` due rows, or expired ones, and hand them to the handlers; returns how many."""
        claim = self.work.claim_expired if expired else self.work.claim
        refusal: Exception | None = None
        with self.reserving(wanted) as leases:
            began = time.monotonic()
            self.forget_old_refusals()
            if not self.refused_until:
                try:
                    async with self.pool.transaction() as connection:
                        claimed = await claim(connection, self.worker_id, wanted)
                    leases += claimed
                except Exception as error:
                    if affects_every_row(error) or is_lock_or_timeout_error(error):
                        raise
                    refusal = error
            if refusal or self.refused_until:
                leases += await self.claim_around_refused(wanted, refusal, expired=expired)
            if leases:
                crashpoint("after_claim_commit")
            self.metrics.claimed(self.work.name, len(leases), time.monotonic() - began)
            if leases and not self.can_claim():  # a stop was requested, or the handlers' loop blocked, meanwhile
                await self.settler.release_leases(leases)
                leases.clear()
        if len(leases) == wanted and not expired:
            self.polling.request_claim()
        self.contact.note_answer()
        self.failing = None
        return len(leases)

    @contextmanager
    def reserving(self, wanted: int) -> Generator[list[Lease], None, None]:
        """Reserve slots for a claim; afterwards start the rows that the body has put into the list."""
        leases: list[Lease] = []
        self.held.slots.reserve(wanted)
        self.held.idle.clear()
        try:
            yield leases
        except BaseException as error:
            self.polling.is_claim_requested = True
            self.failing = Failing(self.failing.since if self.failing else time.monotonic(), error)
            leases.clear()  # if the claim was committed and only its answer lost, we do not know the rows: they expire
            raise
        finally:
            self.held.slots.end_claim(wanted, len(leases))
            self.start(leases)

    def forget_old_refusals(self) -> None:
        """Skip rows that could not be claimed no longer than REFUSED_SECONDS."""
        self.refused_until = {key: end for key, end in self.refused_until.items() if end > time.monotonic()}

    async def claim_around_refused(self, wanted: int, refusal: Exception | None, *, expired: bool) -> list[Lease]:
        """Claim rows by their keys; one that cannot be claimed does not delay the others and is skipped for a while."""
        find = self.work.find_expired if expired else self.work.find_due
        claim = self.work.claim_expired if expired else self.work.claim
        leases: list[Lease] = []

        async def claim_piece(piece: Sequence[Any]) -> None:
            async with self.pool.transaction() as connection:
                claimed = await claim(connection, self.worker_id, len(piece) or wanted, piece)
            leases.extend(claimed)

        async with self.pool.transaction() as connection:
            keys = await find(connection, wanted, tuple(self.refused_until))
        if refusal and not keys:
            raise refusal
        if not keys:
            await claim_piece(keys)  # without keys: some work types create due rows in their claim statement
        try:
            refused = await bisect(keys, claim_piece)
        except Exception as error:
            if not leases:
                raise
            self.contact.note_failure(error)  # and run the rows that were claimed before it
            return leases
        for index, error in refused.items():
            self.skip_refused(keys[index], error)
        return leases

    def skip_refused(self, key: Any, error: Exception) -> None:
        """Try a row that could not be claimed again soon if it was locked, else after REFUSED_SECONDS."""
        about = {"work_type": self.work.name, "row_id": str(key)}
        if is_lock_or_timeout_error(error):
            log.info("claim.row_locked", **about, why=str(error))
            self.polling.is_claim_requested = True
        else:
            log.error("claim.refused", **about, retry_seconds=REFUSED_SECONDS, exc_info=error)
            self.refused_until[key] = time.monotonic() + REFUSED_SECONDS

    def start(self, leases: Sequence[Lease]) -> None:
        """Hold the leases and hand them to the handlers in one batch."""
        batch = [HeldRow(self.work, lease) for lease in leases]
        for row in batch:
            self.held.add(row)
        if batch:
            self.polling.stay_awake()
            self.handlers.start(batch, self.held.accept_reports)
        self.held.update_idle()
