"""The loops of one work type: settle what has finished, claim what fits into free slots, wait when there is neither.

        +--> settle ---> claim ---+            two loops run side by side: while one waits for the database, the other
        |                         v            collects results to settle, so batches grow with the load
       wait <---------- start handlers

Everything here runs on the control thread's event loop. Beside these run polling, a sweep that recovers rows of dead
workers, the heartbeat that renews our leases, and, where a work type has work that needs no lease, a loop that does it.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

from duly.backoff import Backoff
from duly.db.pool import Pool
from duly.lease.heartbeat import Heartbeat, SharedConnection
from duly.lease.work import Work
from duly.worker.claimer import Claimer
from duly.worker.handlers import Handlers
from duly.worker.held_rows import HeldRows
from duly.worker.metrics import Metrics
from duly.worker.outage import DatabaseContact, Outage
from duly.worker.polling import Polling
from duly.worker.settler import RETRY_SECONDS, Settler
from duly.worker.sweeper import Sweeper

SETTLE_AND_CLAIM_LOOPS = 2  # of each work type
RETRY = Backoff(base_seconds=0.1, cap_seconds=5.0)


class WorkLoops:
    """Runs one work type: it settles and claims, polls, sweeps and renews."""

    def __init__(
        self,
        work: Work,
        worker_id: str,
        pool: Pool,
        shared_connection: SharedConnection,
        handlers: Handlers,
        metrics: Metrics,
        outage: Outage,
    ) -> None:
        metrics.begin(work.name, work.tuning.slots)
        self.work = work
        self.contact = DatabaseContact(work.name, metrics, outage)
        self.heartbeat = Heartbeat(
            shared_connection,
            lease_seconds=work.tuning.lease_seconds,
            heartbeat_seconds=work.tuning.heartbeat_seconds,
            role=pool.role,
            on_error=self.contact.note_failure,
            on_beat=outage.record_answer,
        )
        self.polling = Polling(work.tuning.poll_seconds)
        self.held = HeldRows(work, self.heartbeat, handlers, metrics, self.polling)
        self.settler = Settler(work, pool, self.contact, self.held)
        self.claimer = Claimer(work, worker_id, pool, self.contact, self.held, self.settler)
        self.sweeper = Sweeper(work, pool, self.contact, self.claimer)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.heartbeat.run())
            group.create_task(self.polling.run())
            group.create_task(self.repeat(self.sweeper.run_sweeps, self.wait_for_next_sweep))
            if self.work.has_unleased_work:
                group.create_task(self.repeat(self.sweeper.run_unleased_batch, self.polling.wait_poll_interval))
            for _ in range(SETTLE_AND_CLAIM_LOOPS):
                group.create_task(self.repeat(self.settle_and_claim, self.polling.wait_ready))

    async def run_due(self) -> int:
        """Sweep, claim what is due or else what has expired, run it and settle it; returns how many rows it claimed."""
        await self.sweeper.sweep_batch()
        await self.sweeper.run_unleased_batch()
        wanted = min(self.work.tuning.slots, self.work.tuning.batch)
        if not await self.claimer.claim_up_to(wanted) and self.work.table.can_claim_expired:
            await self.claimer.claim_up_to(wanted, expired=True)
        self.polling.is_claim_requested = False  # claim no more: `settle_all` only settles
        renewing = asyncio.create_task(self.heartbeat.run())
        try:
            await self.settle_all()
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
        await self.sweeper.run_unleased_batch()
        return self.held.claimed_rows

    async def settle_all(self) -> None:
        """Settle until we hold nothing; raises when the database fails for longer than a lease lasts."""
        failing_since: float | None = None
        while self.held.rows:
            if not self.held.outcomes:
                await self.polling.wait_ready()
            try:
                await self.settle_and_claim()
            except Exception as error:
                now = time.monotonic()
                failing_since = failing_since or now
                if now - failing_since > self.work.tuning.lease_seconds:
                    raise
                self.contact.note_failure(error)
                await asyncio.sleep(RETRY_SECONDS)
            else:
                failing_since = None

    async def settle_and_claim(self) -> bool:
        """Settle and claim once: the body of the loop; True when another turn may be worth it at once."""
        has_settled = await self.settler.settle_outcomes()
        wanted = self.claimer.take_claim_turn()
        return (wanted > 0 and await self.claimer.claim_up_to(wanted) > 0) or has_settled

    async def repeat(self, step: Callable[[], Awaitable[bool | None]], wait: Callable[[], Awaitable[object]]) -> None:
        """Repeat a step for ever: wait when it has no more to do, back off when it fails."""
        failures = 0
        while True:
            try:
                has_more = await step()
            except Exception as error:
                self.contact.note_failure(error)
                await asyncio.sleep(RETRY.delay_seconds(failures))
                failures = min(failures + 1, 10)
                continue
            failures = 0
            if not has_more:
                await wait()

    async def wait_for_next_sweep(self) -> None:
        """Wait until the next sweep is due, with jitter so that workers do not sweep in step."""
        await asyncio.sleep(self.work.tuning.sweep_seconds * random.uniform(0.8, 1.0))  # noqa: S311

    def note_notification(self) -> None:
        """Claim at once: a notification says that there is work."""
        self.held.metrics.wakeup(self.work.name)
        self.polling.wake()

    # Stopping ---------------------------------------------------------------------------------------------------------

    def stop_claiming(self) -> None:
        """Claim nothing new, and release what has not begun."""
        self.claimer.is_stopping = True
        self.held.stop_all(only_waiting=True)

    def stop_running(self) -> None:
        """Stop the handlers that can be stopped."""
        self.held.stop_all()
