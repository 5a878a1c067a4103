"""Settles outcomes of one work type, in as few transactions as rows that are refused allow."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence

from duly.crashpoint import crashpoint
from duly.db.pool import Pool
from duly.errors import LeaseLost
from duly.lease.bisect import bisect, is_lock_or_timeout_error
from duly.lease.operations import Lease
from duly.lease.work import LeaseOutcome, Work
from duly.logging import get_log
from duly.outcomes import Released, Settled
from duly.worker.handlers import HeldRow
from duly.worker.held_rows import HeldRows, RowOutcome
from duly.worker.metrics import OUTCOMES
from duly.worker.outage import DatabaseContact

RETRY_SECONDS = 0.2  # when a row that another transaction has locked is settled again

log = get_log("duly.worker")


class Settler:
    """Records what came of held rows, and releases those that are to be run again."""

    def __init__(self, work: Work, pool: Pool, contact: DatabaseContact, held: HeldRows) -> None:
        self.work = work
        self.pool = pool
        self.contact = contact
        self.held = held
        self.metrics = held.metrics

    async def settle_outcomes(self) -> bool:
        """Settle every outcome, and stop holding each row as soon as that is committed.

        Returns True when there was something.
        """
        outcomes = self.held.take_outcomes()
        if not outcomes:
            return False
        try:
            to_settle, to_release = self.split(outcomes)
            if to_settle:
                began = time.monotonic()
                try:
                    await self.settle_batch(to_settle)
                except Exception as error:  # `bisect` raises it again if it affects every row
                    await self.settle_in_pieces(to_settle, error)
                self.metrics.settled_in(self.work.name, len(to_settle), time.monotonic() - began)
            if to_release:
                await self.release_batch(to_release)
            self.contact.note_answer()
        except BaseException:  # settling is repeatable: nothing is lost by trying again
            self.held.put_back(outcomes)
            raise
        return True

    def split(self, outcomes: Sequence[RowOutcome]) -> tuple[list[RowOutcome], list[RowOutcome]]:
        """Split outcomes into rows to settle and rows to release, without those that need neither."""
        to_settle: list[RowOutcome] = []
        to_release: list[RowOutcome] = []
        for row, outcome in outcomes:
            if row not in self.held:  # abandoned meanwhile
                continue
            if isinstance(outcome, Settled):  # by the handler, in its own transaction
                self.metrics.settled(self.work.name, "done")
                self.held.remove(row)
            elif self.is_left_to_expire(row, outcome):
                self.held.remove(row)
            else:
                (to_release if isinstance(outcome, Released) else to_settle).append(RowOutcome(row, outcome))
        return to_settle, to_release

    def is_left_to_expire(self, row: HeldRow, outcome: object) -> bool:
        """Return whether to leave a row unreleased: its lease ran out, and this work type renews none.

        The expiry counts the start. A release would not, and the row would be started for ever.
        """
        is_lost = row.watched_lease is not None and row.watched_lease.lost_reason is not None
        return is_lost and isinstance(outcome, Released) and not self.held.heartbeat.is_renewing

    async def settle_batch(self, batch: Sequence[RowOutcome]) -> None:
        """Settle a batch in one transaction; rows that turn out to be another's are logged as lost."""
        async with self.pool.transaction() as connection:
            settled = await self.work.settle(connection, [LeaseOutcome(each.lease, outcome) for each, outcome in batch])
        if settled:
            crashpoint("after_settle_commit")
        names = (OUTCOMES.get(type(outcome), "done") for each, outcome in batch if each.lease.key in settled)
        for outcome, rows in Counter(names).items():
            self.metrics.settled(self.work.name, outcome, rows)
        for row, _ in batch:
            if row.lease.key not in settled:
                self.held.note_lost(row, "its settle found another owner")
            self.held.remove(row)

    async def settle_in_pieces(self, batch: Sequence[RowOutcome], refusal: Exception) -> None:
        """Settle a batch that was refused as a whole; a row that is refused is handled alone."""
        for index, error in (await bisect(batch, self.settle_batch, refusal)).items():
            await self.settle_refused(batch[index], error)

    async def settle_refused(self, refused: RowOutcome, error: Exception) -> None:
        """Settle the row again if it was locked, drop it if it was lost, else settle it as failed.

        If the failure is refused too, the lease expires.
        """
        row = refused.row
        about = {"work_type": self.work.name, "row_id": str(row.lease.key)}
        if is_lock_or_timeout_error(error):
            log.info("settle.row_locked", **about, retry_seconds=RETRY_SECONDS, why=str(error))
            asyncio.get_running_loop().call_later(RETRY_SECONDS, self.held.add_outcome, refused)
            return
        if isinstance(error, LeaseLost):
            self.held.note_lost(row, str(error))
        else:
            log.error("settle.refused", **about, exc_info=error)
            failure = [RowOutcome(row, self.work.outcome_for_refusal(error))]
            for second in (await bisect(failure, self.settle_batch)).values():
                log.error("settle.failure_refused", **about, consequence="the lease will expire", exc_info=second)
        self.held.remove(row)

    async def release_batch(self, batch: Sequence[RowOutcome]) -> None:
        """Release rows; one that is refused keeps its lease until that expires."""

        async def release_piece(piece: Sequence[RowOutcome]) -> None:
            await self.release_leases([row.lease for row, _ in piece])

        for error in (await bisect(batch, release_piece)).values():
            log.error("release.refused", work_type=self.work.name, consequence="the lease will expire", exc_info=error)
        for row, _ in batch:
            self.held.remove(row)

    async def release_leases(self, leases: Sequence[Lease]) -> None:
        """Release rows unfinished, without counting their starts."""
        async with self.pool.transaction() as connection:
            released = await self.work.release(connection, leases)
        crashpoint("after_release_commit")
        self.metrics.released(self.work.name, len(released))
        log.info("lease.released", work_type=self.work.name, rows=len(released))

    async def release_held(self) -> None:
        """Release everything that we still hold, right before the process ends."""
        watched = (each.watched_lease for each in self.held)
        if leases := [each.lease for each in watched if each and each.lost_reason is None]:
            await self.release_leases(leases)
