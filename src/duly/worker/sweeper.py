"""Recovers rows of workers that died, and does the work of a work type that needs no lease."""

import random
import time
from collections.abc import Sequence
from typing import Any

from duly.crashpoint import crashpoint
from duly.db.pool import Pool
from duly.lease.bisect import affects_every_row, bisect, is_lock_or_timeout_error
from duly.lease.work import Work
from duly.logging import get_log
from duly.worker.claimer import Claimer
from duly.worker.outage import DatabaseContact

MAX_SWEEPS = 100  # in a row
MAINTENANCE_SECONDS = 60.0  # between two maintenances of a table

log = get_log("duly.worker")


class Sweeper:
    """Sweeps or claims expired rows, runs unleased work, and has the table maintained."""

    def __init__(self, work: Work, pool: Pool, contact: DatabaseContact, claimer: Claimer) -> None:
        self.work = work
        self.pool = pool
        self.contact = contact
        self.claimer = claimer
        self.metrics = claimer.metrics
        self.polling = claimer.polling
        self.maintain_at = 0.0  # our monotonic clock

    async def run_sweeps(self) -> None:
        """Sweep expired rows, claim those that are claimed instead, and maintain the table."""
        if self.claimer.is_stopping:
            return
        for _ in range(MAX_SWEEPS):
            swept = await self.sweep_batch()
            self.contact.note_answer()
            if not swept:
                break
            self.polling.request_claim()
        await self.claim_expired()
        await self.maintain_table()

    async def sweep_batch(self) -> int:
        """Sweep one batch of expired rows; one that is refused does not delay the others."""
        try:
            return await self.sweep_in_transaction(None)
        except Exception as error:
            if affects_every_row(error):
                raise
        swept, seen = 0, list[Any]()

        async def sweep_piece(piece: Sequence[Any]) -> None:
            nonlocal swept
            swept += await self.sweep_in_transaction(piece)

        for _ in range(MAX_SWEEPS):
            async with self.pool.transaction() as connection:
                keys = await self.work.find_expired(connection, excluded_keys=seen)
            for index, error in (await bisect(keys, sweep_piece)).items():
                about = {"work_type": self.work.name, "row_id": str(keys[index])}
                if is_lock_or_timeout_error(error):
                    log.info("sweep.row_locked", **about, why=str(error))
                else:
                    log.error("sweep.refused", **about, exc_info=error)
            if not keys:
                break
            seen += keys
        return swept

    async def sweep_in_transaction(self, keys: Sequence[Any] | None) -> int:
        """Sweep expired rows, or those of them with these keys, in one transaction."""
        async with self.pool.transaction() as connection:
            swept = await self.work.sweep(connection, keys)
        if swept:
            crashpoint("after_sweep_commit")
            self.metrics.swept(self.work.name, swept)
            log.info("lease.swept", work_type=self.work.name, rows=swept)
        return swept

    async def claim_expired(self) -> int:
        """Where expired rows are reclaimed: claim some, into free slots or the extra one that is kept for them."""
        free = self.claimer.held.slots.free + 1
        if not self.work.table.can_claim_expired or free <= 0 or not self.claimer.can_claim():
            return 0
        return await self.claimer.claim_up_to(min(free, self.work.tuning.batch), expired=True)

    async def run_unleased_batch(self) -> bool:
        """Do what is due and needs no lease; True when there may be more of it."""
        if self.claimer.is_stopping:
            return False
        async with self.pool.transaction() as connection:
            rows = await self.work.run_unleased(connection)
        self.contact.note_answer()
        if rows:
            log.debug("unleased.done", work_type=self.work.name, rows=rows)
        return rows > 0

    async def maintain_table(self) -> None:
        """Maintain the table once in a while: remove rows past their retention, for example."""
        if time.monotonic() < self.maintain_at:
            return
        self.maintain_at = time.monotonic() + MAINTENANCE_SECONDS * random.uniform(0.8, 1.0)  # noqa: S311
        for _ in range(MAX_SWEEPS):
            async with self.pool.transaction() as connection:
                rows = await self.work.maintain(connection)
            if not rows or self.claimer.is_stopping:
                return
            log.info("rows.purged", work_type=self.work.name, rows=rows)
