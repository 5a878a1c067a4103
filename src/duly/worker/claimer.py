"""Claims rows of one work type and hands them to the handlers."""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from duly.crashpoint import crashpoint
from duly.db.pool import Pool
from duly.lease.bisect import bisect, is_lock_or_timeout_error, is_server_error
from duly.lease.operations import Lease
from duly.lease.work import Work
from duly.logging import get_log
from duly.worker.handlers import Running
from duly.worker.held import HeldRows
from duly.worker.outage import DatabaseContact
from duly.worker.settler import Settler

REFUSED_SECONDS = 60.0  # for how long a row that could not be claimed is left alone

log = get_log("duly.worker")


class ClaimSource(NamedTuple):
    """What is claimed: the claim, and the query for the keys of what it would claim next."""

    claim: Callable[..., Awaitable[list[Lease]]]
    find: Callable[..., Awaitable[list[Any]]]


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
        self.refusing: dict[Any, float] = {}  # rows that could not be claimed, and until when they are left alone
        self.is_stopping = False

    def can_claim(self) -> bool:
        """Are we not stopping, and does the handlers' loop turn? Otherwise claimed rows would not begin."""
        return not self.is_stopping and self.handlers.is_turning()

    async def claim_into_free_slots(self) -> bool:
        """Claim due rows into the free slots; True when there were some."""
        wanted = min(self.held.slots.free, self.work.tuning.batch)
        if wanted <= 0 or not self.polling.may_be_more or not self.can_claim():
            return False
        self.polling.may_be_more = False  # one cycle claims at a time, until a claim was filled
        claimed = await self.claim_due(wanted)
        if claimed == wanted:
            self.polling.poll()
        return claimed > 0

    async def claim_due(self, limit: int) -> int:
        """Claim up to `limit` due rows and start them; returns how many."""
        return await self.claim(ClaimSource(self.work.claim, self.work.find_due), limit)

    async def claim_expired(self, limit: int) -> int:
        """Claim up to `limit` rows whose leases have expired and start them; returns how many."""
        return await self.claim(ClaimSource(self.work.claim_expired, self.work.find_expired), limit)

    async def claim(self, source: ClaimSource, wanted: int) -> int:
        """Claim up to `wanted` rows and hand them to the handlers; returns how many there were."""
        self.held.slots.reserve(wanted)
        self.held.idle.clear()
        leases: list[Lease] = []
        began = time.monotonic()
        try:
            leases = await self.claim_around_refusals(source, wanted)
            if leases:
                crashpoint("after_claim_commit")
            self.metrics.claimed(self.work.name, len(leases), time.monotonic() - began)
            if leases and not self.can_claim():  # a stop was requested, or the handlers' loop blocked, meanwhile
                await self.settler.release(leases)
                leases = []
        except BaseException:
            self.polling.may_be_more = True
            leases = []  # if it was committed after all, its owner is unknown: the leases expire
            raise
        finally:
            self.held.slots.end_claim(wanted, len(leases))
            self.start(leases)
        self.contact.note_answer()
        return len(leases)

    async def claim_around_refusals(self, source: ClaimSource, wanted: int) -> list[Lease]:
        """Claim rows; one that cannot be claimed does not delay the others and is left alone for a while."""
        self.refusing = {key: end for key, end in self.refusing.items() if end > time.monotonic()}
        refusal: Exception | None = None
        if not self.refusing:
            try:
                return await self.claim_in_transaction(source, wanted, None)
            except Exception as error:
                if is_server_error(error) or is_lock_or_timeout_error(error):
                    raise
                refusal = error
        async with self.pool.transaction() as connection:
            keys = await source.find(connection, wanted, list(self.refusing))
        if refusal and not keys:
            raise refusal
        if not keys:
            return await self.claim_in_transaction(source, wanted, keys)  # a domain may make rows due as it claims
        leases: list[Lease] = []

        async def claim_piece(piece: Sequence[Any]) -> None:
            leases.extend(await self.claim_in_transaction(source, len(piece), piece))

        for index, error in (await bisect(keys, claim_piece)).items():
            self.leave_alone(keys[index], error)
        return leases

    async def claim_in_transaction(self, source: ClaimSource, limit: int, keys: Sequence[Any] | None) -> list[Lease]:
        """Claim rows, or those with these keys, in one transaction."""
        async with self.pool.transaction() as connection:
            return await source.claim(connection, self.worker_id, limit, keys)

    def leave_alone(self, key: Any, error: Exception) -> None:
        """Retry a row that could not be claimed at the next poll if it was locked, else much later."""
        about = {"kind": self.work.name, "key": str(key)}
        if is_lock_or_timeout_error(error):
            log.info("claim.row_locked", **about, why=str(error))
            self.polling.may_be_more = True
        else:
            log.error("claim.refused", **about, retry_seconds=REFUSED_SECONDS, exc_info=error)
            self.refusing[key] = time.monotonic() + REFUSED_SECONDS

    def start(self, leases: Sequence[Lease]) -> None:
        """Hold the leases and hand them to the handlers in one batch."""
        batch = [Running(lease, self.work.call, self.work.report_failure) for lease in leases]
        for running in batch:
            self.held.add(running)
        if batch:
            self.polling.stay_awake()
            self.handlers.start(batch, self.held.deliver)
        self.held.update_idle()
