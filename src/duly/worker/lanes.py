"""Two lanes over one kind of work: each settles what has finished, claims what fits, and rests when there is neither.

        +--> settle ---> claim ---+            while one lane waits for the database the other has results to settle,
        |                         v            so batches grow with the load and neither side stands still
       rest <------------- hand over to the handlers

Everything here runs on the control loop. Beside the lanes a pulse looks for work now and then, a sweep brings back what
dead workers held, and a keeper renews what we hold.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

import psycopg

from duly.db.pool import Pool
from duly.errors import LeaseLost, Unavailable
from duly.kernel.backoff import Backoff
from duly.kernel.halves import in_halves
from duly.kernel.keeper import Connect, Keeper
from duly.kernel.lease import Lease
from duly.kernel.outcome import Cancelled, Failed, GiveUp, HandedBack, Later, Settled, failure_of
from duly.kernel.work import Finished, Stop, Work
from duly.logs import get_log
from duly.worker.handlers import Handlers, News, Running
from duly.worker.metrics import Metrics

__all__ = ["LANES", "Lanes"]

LANES = 2
EAGER_SECONDS = 0.005  # how often a worker that was just woken looks again
AWAKE_SECONDS = 0.1  # and for how long: two windows of the wake-up, whose later rows come unannounced
MOST_SWEEPS = 100  # in a row
RETRY = Backoff(base_seconds=0.1, cap_seconds=5.0)
OUTCOMES: dict[type, str] = {
    Later: "later",
    GiveUp: "gave_up",
    Failed: "failed",
    Cancelled: "cancelled",
}  # whatever else: done
NOT_THE_ROWS_FAULT = (psycopg.OperationalError, Unavailable, OSError)

log = get_log("duly.worker")


class Lanes:
    """The lanes, pulse, sweep and keeper of one kind of work."""

    def __init__(
        self, work: Work, worker_id: str, pool: Pool, connect: Connect, handlers: Handlers, metrics: Metrics
    ) -> None:
        self.work = work
        self.worker_id = worker_id
        self.pool = pool
        self.handlers = handlers
        self.metrics = metrics
        metrics.begin(work.name, work.pace.slots)
        self.keeper = Keeper(
            connect,
            lease_seconds=work.pace.lease_seconds,
            heartbeat_seconds=work.pace.heartbeat_seconds,
            role=pool.role,
            on_trouble=self.note_trouble,
        )
        self.bell = asyncio.Event()  # something for a lane to do
        self.woken = asyncio.Event()  # somebody says there is work
        self.idle = asyncio.Event()  # we hold nothing
        self.idle.set()
        self.finished: list[tuple[Running, object]] = []
        self.running: dict[Running, None] = {}  # everything we hold, in the order of claiming
        self.busy = 0  # slots taken, or spoken for by a claim under way
        self.may_be_more = True  # a look at the table may be worth it
        self.awake_until = 0.0
        self.is_stopping = False
        self.answered_at = 0.0  # when the database last did, by our monotonic clock

    # Loops ------------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.keeper.run())
            group.create_task(self.pulse())
            group.create_task(self.again_and_again(self.sweep, self.until_next_sweep))
            for _ in range(LANES):
                group.create_task(self.again_and_again(self.turn, self.until_bell))

    async def again_and_again(self, act: Callable[[], Awaitable[bool]], rest: Callable[[], Awaitable[object]]) -> None:
        """Act; rest when there is no more to do; when the database is in trouble, wait a little and try again."""
        failures = 0
        while True:
            try:
                is_more = await act()
            except Exception as error:
                self.note_trouble(error)
                await asyncio.sleep(RETRY.delay_seconds(failures))
                failures = min(failures + 1, 10)
                continue
            failures = 0
            if not is_more:
                await rest()

    async def until_bell(self) -> None:
        """Rest until there is something for a lane to do."""
        await self.bell.wait()
        self.bell.clear()

    async def until_next_sweep(self) -> None:
        """Rest until the next sweep is due, not in step with the other workers."""
        await asyncio.sleep(self.work.pace.sweep_seconds * random.uniform(0.8, 1.0))  # noqa: S311

    async def pulse(self) -> None:
        """Look for work now and then, whether or not anybody woke us: a wake-up is only a hint."""
        while True:
            is_awake = time.monotonic() < self.awake_until
            pause = EAGER_SECONDS if is_awake else self.work.pace.poll_seconds * random.uniform(0.8, 1.2)  # noqa: S311
            try:
                async with asyncio.timeout(pause):
                    await self.woken.wait()
            except TimeoutError:
                pass
            self.woken.clear()
            self.look()

    def wake(self) -> None:
        """Somebody says there is work: look at once, and a few times more."""
        self.metrics.wakeup(self.work.name)
        self.awake_until = time.monotonic() + AWAKE_SECONDS
        self.woken.set()

    def look(self) -> None:
        """Have a lane look at the table."""
        self.may_be_more = True
        self.bell.set()

    # A turn of a lane -------------------------------------------------------------------------------------------------

    async def turn(self) -> bool:
        """Settle what has finished, claim what fits; True when it may be worth another turn at once."""
        finished, self.finished = self.finished, []
        if finished:
            try:
                await self.record(finished)
            except BaseException:
                self.finished = [*finished, *self.finished]  # settling is repeatable: nothing is lost by trying again
                raise
        claimed = await self.claim_what_fits()
        return bool(finished) or claimed

    async def claim_what_fits(self) -> bool:
        """Claim due rows into the free slots; True when we got some."""
        wanted = min(self.work.pace.slots - self.busy, self.work.pace.batch)
        if wanted <= 0 or not self.may_be_more or self.is_stopping:
            return False
        self.may_be_more = False  # one lane looks at a time, until the table has shown that it has plenty
        got = await self.claim(self.work.claim, wanted)
        if got == wanted:
            self.look()
        if got:
            self.awake_until = max(self.awake_until, time.monotonic() + AWAKE_SECONDS)
        return got > 0

    async def claim(self, claim: Callable[..., Awaitable[list[Lease]]], wanted: int) -> int:
        """Hold up to `wanted` rows and hand them to the handlers; how many there were."""
        self.busy += wanted
        leases: list[Lease] = []
        began = time.monotonic()
        try:
            async with self.pool.transaction() as connection:
                leases = await claim(connection, self.worker_id, wanted)
        except BaseException:
            self.may_be_more = True
            leases = []  # if it was committed after all, nobody knows this owner: the rows lapse
            raise
        finally:
            self.busy -= wanted - len(leases)
        self.answered_at = time.monotonic()
        self.metrics.claimed(self.work.name, len(leases), self.answered_at - began)
        if leases:
            self.begin(leases)
        return len(leases)

    def begin(self, leases: Sequence[Lease]) -> None:
        """Take the leases into care and hand the batch over, whole."""
        batch = [Running(lease, self.work.call) for lease in leases]
        for running in batch:
            running.held = self.keeper.keep(
                running.lease, self.stopper(running, Stop.LOST), self.stopper(running, Stop.CANCELLED)
            )
            self.running[running] = None
        self.idle.clear()
        self.handlers.start(batch, self.deliver)

    def stopper(self, running: Running, why: Stop) -> Callable[[], None]:
        """What the keeper calls when this row is lost, or somebody wants it cancelled."""
        return lambda: self.handlers.stop([running], why, self.deliver)

    def deliver(self, news: Sequence[News]) -> None:
        """On the control loop: outcomes to settle, and slots that are free again."""
        for each in news:
            if each.has_outcome:
                self.finished.append((each.running, each.outcome))
                self.metrics.ran(self.work.name, each.seconds)
            if each.is_free:
                self.busy -= 1
        self.bell.set()

    # Recording outcomes -----------------------------------------------------------------------------------------------

    async def record(self, finished: Sequence[tuple[Running, object]]) -> None:
        """Settle a batch: what is still ours is written down, the rest is let go with a line in the log."""
        ours = [(running, outcome) for running, outcome in finished if not self.was_lost(running)]
        back = [running.lease for running, outcome in ours if isinstance(outcome, HandedBack)]
        rest = [
            Finished(running.lease, outcome)
            for running, outcome in ours
            if not isinstance(outcome, HandedBack | Settled)
        ]
        if back:
            await self.hand_back(back)
        if rest:
            await self.settle(rest)
        self.answered_at = time.monotonic()
        for running, _ in finished:
            self.forget(running)

    def was_lost(self, running: Running) -> bool:
        """Did the keeper say that somebody else may hold this row?"""
        why = running.held.lost if running.held else None
        if why is None:
            return False
        self.note_lost(running.lease, why)
        return True

    async def settle(self, finished: Sequence[Finished]) -> None:
        """Write outcomes in as few transactions as bad rows allow."""
        began = time.monotonic()
        settled: set[object] = set()

        async def write(piece: Sequence[Finished]) -> None:
            async with self.pool.transaction() as connection:
                keys = await self.work.settle(connection, piece)
            settled.update(keys)

        bad = await in_halves(finished, write)
        for place, error in bad.items():
            if not isinstance(error, LeaseLost):
                await self.settle_as_failed(finished[place], error, write)
        self.metrics.settled_in(self.work.name, len(finished), time.monotonic() - began)
        counts = Counter(OUTCOMES.get(type(outcome), "done") for lease, outcome in finished if lease.key in settled)
        for outcome, rows in counts.items():
            self.metrics.settled(self.work.name, outcome, rows)
        for lease, _ in finished:
            if lease.key not in settled:
                self.note_lost(lease, "its settle found another owner")

    async def settle_as_failed(
        self, finished: Finished, error: Exception, write: Callable[[Sequence[Finished]], Awaitable[None]]
    ) -> None:
        """An outcome that cannot be written is a failure of its row; if even that cannot, the lease lapses."""
        log.error("an outcome could not be recorded", kind=self.work.name, key=str(finished.lease.key), exc_info=error)
        try:
            await write([Finished(finished.lease, failure_of(error))])
        except NOT_THE_ROWS_FAULT:
            raise
        except Exception:
            log.exception("nor could its failure", kind=self.work.name, key=str(finished.lease.key))

    async def hand_back(self, leases: Sequence[Lease]) -> None:
        """Give rows back unfinished and unblamed."""
        async with self.pool.transaction() as connection:
            await self.work.release(connection, leases)
        self.metrics.handed_back(self.work.name, len(leases))
        log.info("handed back", kind=self.work.name, rows=len(leases))

    def forget(self, running: Running) -> None:
        """We no longer hold this row."""
        self.running.pop(running, None)
        if running.held:
            self.keeper.drop(running.held)
        if not self.running:
            self.idle.set()

    # The dead, and our own end ----------------------------------------------------------------------------------------

    async def sweep(self) -> bool:
        """Bring back what dead workers held; True when there may be more of it."""
        if self.is_stopping:
            return False
        for _ in range(MOST_SWEEPS):
            async with self.pool.transaction() as connection:
                swept = await self.work.sweep(connection)
            self.answered_at = time.monotonic()
            if not swept:
                break
            self.metrics.swept(self.work.name, swept)
            log.info("swept", kind=self.work.name, rows=swept)
            self.look()
        await self.take_over()
        return False

    async def take_over(self) -> int:
        """Where lapsed rows are reclaimed: claim some, into a free slot or the one kept for them."""
        room = self.work.pace.slots + 1 - self.busy
        if self.work.of.lapsed != "reclaimed" or room <= 0 or self.is_stopping:
            return 0
        return await self.claim(self.work.claim_lapsed, min(room, self.work.pace.batch))

    async def run_once(self) -> int:
        """One cycle: sweep, claim what is due or else what has lapsed, work, settle; how many rows there were."""
        keeping = asyncio.create_task(self.keeper.run())
        try:
            async with self.pool.transaction() as connection:
                await self.work.sweep(connection)
            wanted = min(self.work.pace.slots, self.work.pace.batch)
            got = await self.claim(self.work.claim, wanted) or await self.take_over()
            while self.running:
                await self.until_bell()
                finished, self.finished = self.finished, []
                await self.record(finished)
            return got
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

    def stop_claiming(self) -> None:
        """Take nothing new, and give back what waits for its turn."""
        self.is_stopping = True
        self.handlers.stop([each for each in self.running if each.began_at is None], Stop.SHUTDOWN, self.deliver)

    def stop_running(self) -> None:
        """Stop what runs, as far as it can be stopped."""
        self.handlers.stop(list(self.running), Stop.SHUTDOWN, self.deliver)

    async def let_go(self) -> None:
        """Give back what is still in our hands; the process ends in the same breath."""
        ours = [each for each in self.running if each.held and each.held.lost is None]
        named = {running for running, _ in self.finished}
        if leases := [each.lease for each in ours if each not in named]:
            await self.hand_back(leases)

    # Words ------------------------------------------------------------------------------------------------------------

    def note_lost(self, lease: Lease, why: str) -> None:
        """Somebody else has the row: nothing was written."""
        self.metrics.lost(self.work.name)
        log.info("lease lost", kind=self.work.name, key=str(lease.key), why=why)

    def note_trouble(self, error: Exception) -> None:
        """The database is in trouble, or we are: one line, and the loop tries again."""
        self.metrics.database_error(self.work.name)
        if isinstance(error, (*NOT_THE_ROWS_FAULT, TimeoutError)):
            log.warning("the database did not answer", kind=self.work.name, error=str(error) or type(error).__name__)
        else:
            log.error("a loop failed and is tried again", kind=self.work.name, exc_info=error)
