"""Two lanes over one kind of work: each settles what has finished, claims what fits, and rests when there is neither.

        +--> settle ---> claim ---+            while one lane waits for the database the other has results to settle,
        |                         v            so batches grow with the load and neither side stands still
       rest <------------- hand over to the handlers

Everything here runs on the control loop. Beside the lanes a pulse looks for work now and then, a sweep brings back what
dead workers held, and a keeper renews what we hold.
"""

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from duly.backoff import Backoff
from duly.crashpoint import crashpoint
from duly.db.pool import Pool
from duly.errors import LeaseLost
from duly.lease.bisect import bisect, is_the_databases_fault, will_pass
from duly.lease.heartbeat import Heartbeat, SharedLine
from duly.lease.operations import Lease
from duly.lease.work import Finished, Stop, Work
from duly.logging import get_log
from duly.outcomes import HandedBack, Settled
from duly.worker.handlers import Handlers, News, Running
from duly.worker.metrics import OUTCOMES, Metrics
from duly.worker.outage import Outage

__all__ = ["LANES", "Lanes"]

LANES = 2
EAGER_SECONDS = 0.002  # how often a worker that was just woken looks again
AWAKE_SECONDS = 0.1  # and for how long: two windows of the wake-up, whose later rows come unannounced
MAX_SWEEPS = 100  # in a row
TIDY_SECONDS = 60.0  # how often a worker looks for what may leave
REFUSED_SECONDS = 60.0  # for how long a row that refused to be claimed is left alone
SOON_SECONDS = 0.2  # when a row that somebody else is at is tried again
RETRY = Backoff(base_seconds=0.1, cap_seconds=5.0)

log = get_log("duly.worker")

Claim = Callable[..., Awaitable[list[Lease]]]


class Lanes:
    """The lanes, pulse, sweep and keeper of one kind of work."""

    def __init__(
        self,
        work: Work,
        worker_id: str,
        pool: Pool,
        line: SharedLine,
        handlers: Handlers,
        metrics: Metrics,
        outage: Outage,
    ) -> None:
        self.work = work
        self.worker_id = worker_id
        self.pool = pool
        self.handlers = handlers
        self.metrics = metrics
        self.outage = outage
        metrics.begin(work.name, work.tuning.slots)
        self.heartbeat = Heartbeat(
            line,
            lease_seconds=work.tuning.lease_seconds,
            heartbeat_seconds=work.tuning.heartbeat_seconds,
            role=pool.role,
            on_trouble=self.note_trouble,
            on_beat=outage.note_answer,
        )
        self.bell = asyncio.Event()  # something for a lane to do
        self.woken = asyncio.Event()  # somebody says there is work
        self.idle = asyncio.Event()  # we hold nothing and are about to hold nothing
        self.idle.set()
        self.finished: list[tuple[Running, object]] = []
        self.running: dict[Running, None] = {}  # everything we hold, in the order of claiming
        self.by_key: dict[Any, Running] = {}  # the same, each row once: by its latest claim
        self.refusing: dict[Any, float] = {}  # rows that refused to be claimed, and until when they are left alone
        self.busy = 0  # slots taken, or spoken for by a claim under way
        self.wanted = 0  # of these, spoken for
        self.claims_under_way = 0
        self.claimed_rows = 0
        self.may_be_more = True  # a look at the table may be worth it
        self.awake_until = 0.0
        self.is_stopping = False
        self.tidy_at = 0.0
        self.answered_at = -math.inf  # when the database last answered this kind, by our monotonic clock

    # Loops ------------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.heartbeat.run())
            group.create_task(self.pulse())
            group.create_task(self.again_and_again(self.sweep, self.until_next_sweep))
            if type(self.work).tend is not Work.tend:
                group.create_task(self.again_and_again(self.tend, self.until_next_look))
            for _ in range(LANES):
                group.create_task(self.again_and_again(self.turn, self.until_bell))

    async def run_once(self) -> int:
        """One cycle: sweep, claim what is due or else what has lapsed, work, settle; how many rows there were."""
        await self.sweep_some()
        await self.tend()
        limit = min(self.work.tuning.slots, self.work.tuning.batch)
        if not await self.claim(self.work.claim, limit) and self.work.table.expired == "reclaimed":
            await self.claim(self.work.claim_expired, limit)
        self.may_be_more = False
        keeping = asyncio.create_task(self.heartbeat.run())
        try:
            await self.settle_all()
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
        await self.tend()
        return self.claimed_rows

    async def settle_all(self) -> None:
        """Settle until we hold nothing; a database that is gone for a whole lease has taken our rows with it."""
        failing_since: float | None = None
        while self.running:
            if not self.finished:
                await self.until_bell()
            try:
                await self.turn()
            except Exception as error:
                now = time.monotonic()
                failing_since = failing_since or now
                if now - failing_since > self.work.tuning.lease_seconds:
                    raise
                self.note_trouble(error)
                await asyncio.sleep(SOON_SECONDS)
            else:
                failing_since = None

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
        await asyncio.sleep(self.work.tuning.sweep_seconds * random.uniform(0.8, 1.0))  # noqa: S311

    async def until_next_look(self) -> None:
        """Rest as long as a poll does."""
        await asyncio.sleep(self.work.tuning.poll_seconds * random.uniform(0.8, 1.2))  # noqa: S311

    async def pulse(self) -> None:
        """Look for work now and then, whether or not anybody woke us: a wake-up is only a hint."""
        while True:
            is_awake = time.monotonic() < self.awake_until
            pause = EAGER_SECONDS if is_awake else self.work.tuning.poll_seconds * random.uniform(0.8, 1.2)  # noqa: S311
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
            except BaseException:  # settling is repeatable: nothing is lost by trying again
                self.finished = [*(each for each in finished if each[0] in self.running), *self.finished]
                raise
        return await self.claim_what_fits() or bool(finished)

    async def claim_what_fits(self) -> bool:
        """Claim due rows into the free slots; True when we got some."""
        wanted = min(self.work.tuning.slots - self.busy, self.work.tuning.batch)
        if wanted <= 0 or not self.may_be_more or not self.may_claim():
            return False
        self.may_be_more = False  # one lane looks at a time, until the table has shown that it has plenty
        got = await self.claim(self.work.claim, wanted)
        if got == wanted:
            self.look()
        return got > 0

    def may_claim(self) -> bool:
        """Not while we stop, and not while the handlers' loop stands still: nobody would begin what we held."""
        return not self.is_stopping and self.handlers.is_turning()

    async def claim(self, claim: Claim, wanted: int) -> int:
        """Hold up to `wanted` rows and hand them to the handlers; how many there were."""
        self.busy += wanted
        self.wanted += wanted
        self.claims_under_way += 1
        self.idle.clear()
        leases: list[Lease] = []
        began = time.monotonic()
        try:
            leases = await self.claim_around(claim, wanted)
            if leases:
                crashpoint("after_claim_commit")
            self.metrics.claimed(self.work.name, len(leases), time.monotonic() - began)
            if leases and not self.may_claim():  # we are to stop, or the handlers' loop stands still, by now
                await self.hand_back(leases)
                leases = []
        except BaseException:
            self.may_be_more = True
            leases = []  # if it was committed after all, nobody knows this owner: the rows lapse
            raise
        finally:
            self.busy -= wanted - len(leases)
            self.wanted -= wanted
            self.claims_under_way -= 1
            self.begin(leases)
        self.note_answer()
        return len(leases)

    async def claim_around(self, claim: Claim, wanted: int) -> list[Lease]:
        """Hold rows; when one of them refuses, the others do not wait for it, and it is left alone for a while."""
        self.refusing = {key: end for key, end in self.refusing.items() if end > time.monotonic()}
        refusal: Exception | None = None
        if not self.refusing:
            try:
                return await self.claim_these(claim, wanted, None)
            except Exception as error:
                if is_the_databases_fault(error) or will_pass(error):
                    raise
                refusal = error
        find = self.work.find_due if claim == self.work.claim else self.work.find_expired
        async with self.pool.transaction() as connection:
            keys = await find(connection, wanted, list(self.refusing))
        if refusal and not keys:
            raise refusal
        if not keys:
            return await self.claim_these(claim, wanted, keys)  # a domain may make rows due as it claims
        held: list[Lease] = []

        async def act(piece: Sequence[Any]) -> None:
            held.extend(await self.claim_these(claim, len(piece), piece))

        for place, error in (await bisect(keys, act)).items():
            self.leave_alone(keys[place], error)
        return held

    def leave_alone(self, key: Any, error: Exception) -> None:
        """A row that could not be claimed: tried again at the next look if somebody else is at it, else much later."""
        about = {"kind": self.work.name, "key": str(key)}
        if will_pass(error):
            log.info("somebody else is at this row; claiming it at the next look", **about, why=str(error))
            self.may_be_more = True
        else:
            log.error("a row cannot be claimed", **about, exc_info=error)
            self.refusing[key] = time.monotonic() + REFUSED_SECONDS

    async def claim_these(self, claim: Claim, limit: int, keys: Sequence[Any] | None) -> list[Lease]:
        """Hold rows, or some with these keys, in a transaction."""
        async with self.pool.transaction() as connection:
            return await claim(connection, self.worker_id, limit, keys)

    def begin(self, leases: Sequence[Lease]) -> None:
        """Take the leases into care and hand the batch over, whole."""
        batch = [Running(lease, self.work.call, self.work.report_failure) for lease in leases]
        for running in batch:
            if older := self.by_key.get(running.lease.key):
                self.give_up(older)
            self.by_key[running.lease.key] = running
            running.held = self.heartbeat.keep(running.lease, self.on_lost(running), self.on_cancel(running))
            self.running[running] = None
        self.claimed_rows += len(batch)
        if batch:
            self.awake_until = max(self.awake_until, time.monotonic() + AWAKE_SECONDS)
            self.handlers.start(batch, self.deliver)
        self.note_idle()

    def give_up(self, older: Running) -> None:
        """We hold its row by a later claim: whatever comes of the earlier one is nobody's, and goes into no batch."""
        self.note_lost(older, "we have claimed it again since")
        if not older.ended:
            self.handlers.stop([older], Stop.LOST, self.deliver)
        self.forget(older)

    def on_lost(self, running: Running) -> Callable[[], None]:
        """What the keeper calls when this row is no longer ours; once the handler has ended, its settle will tell."""

        def stop() -> None:
            if not running.ended and running.held and running.held.lost:
                self.note_lost(running, running.held.lost)
                self.handlers.stop([running], Stop.LOST, self.deliver)

        return stop

    def on_cancel(self, running: Running) -> Callable[[], None]:
        """What the keeper calls when somebody wants this row cancelled."""
        return lambda: self.handlers.stop([running], Stop.CANCELLED, self.deliver)

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
        """Write outcomes down, hand back what is to be handed back, and forget each row as soon as that is done."""
        back: list[tuple[Running, object]] = []
        rest: list[tuple[Running, object]] = []
        for running, outcome in finished:
            if running not in self.running:  # given up meanwhile
                continue
            if isinstance(outcome, Settled):
                self.metrics.settled(self.work.name, "done")
                self.forget(running)
            elif self.is_left_to_expire(running, outcome):
                self.forget(running)
            else:
                (back if isinstance(outcome, HandedBack) else rest).append((running, outcome))
        if rest:
            await self.settle(rest)
        if back:
            await self.give_back(back)
        self.note_answer()

    def is_left_to_expire(self, running: Running, outcome: object) -> bool:
        """Did it take longer than a lease that nobody renews? That start counts, or it would be begun for ever."""
        is_over = running.held is not None and running.held.lost is not None
        return is_over and isinstance(outcome, HandedBack) and not self.heartbeat.renews

    async def settle(self, finished: Sequence[tuple[Running, object]]) -> None:
        """Settle in as few transactions as bad rows allow."""
        began = time.monotonic()
        bad = await bisect(finished, self.write)
        for place, error in bad.items():
            await self.settle_alone(finished[place], error)
        self.metrics.settled_in(self.work.name, len(finished), time.monotonic() - began)

    async def write(self, piece: Sequence[tuple[Running, object]]) -> None:
        """Settle these in a transaction of their own; what turns out not to be ours is let go, and the log says so."""
        async with self.pool.transaction() as connection:
            settled = await self.work.settle(connection, [Finished(each.lease, outcome) for each, outcome in piece])
        if settled:
            crashpoint("after_settle_commit")
        names = (OUTCOMES.get(type(outcome).__name__, "done") for each, outcome in piece if each.lease.key in settled)
        for outcome, rows in Counter(names).items():
            self.metrics.settled(self.work.name, outcome, rows)
        for running, _ in piece:
            if running.lease.key not in settled:
                self.note_lost(running, "its settle found another owner")
            self.forget(running)

    async def settle_alone(self, finished: tuple[Running, object], error: Exception) -> None:
        """A row that could not be settled: tried again soon, or lost, or failed; if even that cannot be, it lapses."""
        running, _ = finished
        about = {"kind": self.work.name, "key": str(running.lease.key)}
        if will_pass(error):
            log.info("somebody else is at this row; settling it again soon", **about, why=str(error))
            asyncio.get_running_loop().call_later(SOON_SECONDS, self.try_again, finished)
            return
        if isinstance(error, LeaseLost):
            self.note_lost(running, str(error))
        else:
            log.error("an outcome could not be recorded", **about, exc_info=error)
            for unwritable in await bisect([(running, self.work.outcome_of_refusal(error))], self.write):
                log.error("nor could its failure; it will lapse", **about, row=unwritable)
        self.forget(running)

    def try_again(self, finished: tuple[Running, object]) -> None:
        """Put an outcome back among those to be settled."""
        self.finished.append(finished)
        self.bell.set()

    async def give_back(self, finished: Sequence[tuple[Running, object]]) -> None:
        """Hand rows back; one that refuses is left to lapse."""

        async def act(piece: Sequence[tuple[Running, object]]) -> None:
            await self.hand_back([running.lease for running, _ in piece])

        for error in (await bisect(finished, act)).values():
            log.error("a row could not be handed back; it will lapse", kind=self.work.name, exc_info=error)
        for running, _ in finished:
            self.forget(running)

    async def hand_back(self, leases: Sequence[Lease]) -> None:
        """Give rows back unfinished and unblamed."""
        async with self.pool.transaction() as connection:
            await self.work.release(connection, leases)
        crashpoint("after_release_commit")
        self.metrics.handed_back(self.work.name, len(leases))
        log.info("handed back", kind=self.work.name, rows=len(leases))

    def forget(self, running: Running) -> None:
        """We no longer hold this row."""
        self.running.pop(running, None)
        if self.by_key.get(running.lease.key) is running:
            del self.by_key[running.lease.key]
        if running.held:
            self.heartbeat.drop(running.held)
        self.note_idle()

    def note_idle(self) -> None:
        """Are we idle: nothing held, and nothing about to be?"""
        if self.running or self.claims_under_way:
            self.idle.clear()
        else:
            self.idle.set()

    # The dead ---------------------------------------------------------------------------------------------------------

    async def sweep(self) -> bool:
        """Bring back what dead workers held; no haste about the rest."""
        if self.is_stopping:
            return False
        for _ in range(MAX_SWEEPS):
            swept = await self.sweep_some()
            self.note_answer()
            if not swept:
                break
            self.metrics.swept(self.work.name, swept)
            log.info("swept", kind=self.work.name, rows=swept)
            self.look()
        await self.take_over()
        await self.tidy()
        return False

    async def tend(self) -> bool:
        """Do what is due and needs no holder; True when there may be more of it."""
        if self.is_stopping:
            return False
        async with self.pool.transaction() as connection:
            rows = await self.work.tend(connection)
        self.note_answer()
        if rows:
            log.debug("tended", kind=self.work.name, rows=rows)
        return rows > 0

    async def tidy(self) -> None:
        """Now and then: let leave what may."""
        if time.monotonic() < self.tidy_at:
            return
        self.tidy_at = time.monotonic() + TIDY_SECONDS * random.uniform(0.8, 1.0)  # noqa: S311
        for _ in range(MAX_SWEEPS):
            async with self.pool.transaction() as connection:
                gone = await self.work.tidy(connection)
            if not gone or self.is_stopping:
                return
            log.info("removed what had been kept long enough", kind=self.work.name, rows=gone)

    async def sweep_some(self) -> int:
        """Sweep a number of lapsed rows; when one of them refuses, all the others do not wait for it."""
        try:
            return await self.sweep_these(None)
        except Exception as error:
            if is_the_databases_fault(error):
                raise
        swept, seen = 0, list[Any]()

        async def act(piece: Sequence[Any]) -> None:
            nonlocal swept
            swept += await self.sweep_these(piece)

        for _ in range(MAX_SWEEPS):
            async with self.pool.transaction() as connection:
                keys = await self.work.find_expired(connection, besides=seen)
            for place, error in (await bisect(keys, act)).items():
                log.error("a lapsed row cannot be swept", kind=self.work.name, key=str(keys[place]), exc_info=error)
            if not keys:
                break
            seen += keys
        return swept

    async def sweep_these(self, keys: Sequence[Any] | None) -> int:
        """Sweep lapsed rows, or those of them with these keys, in a transaction."""
        async with self.pool.transaction() as connection:
            swept = await self.work.sweep(connection, keys)
        if swept:
            crashpoint("after_sweep_commit")
        return swept

    async def take_over(self) -> int:
        """Where lapsed rows are reclaimed: claim some, into a free slot or the one kept for them."""
        room = self.work.tuning.slots + 1 - self.busy
        if self.work.table.expired != "reclaimed" or room <= 0 or not self.may_claim():
            return 0
        return await self.claim(self.work.claim_expired, min(room, self.work.tuning.batch))

    # Our own end ------------------------------------------------------------------------------------------------------

    def stop_claiming(self) -> None:
        """Take nothing new, and give back what waits for its turn."""
        self.is_stopping = True
        self.handlers.stop(list(self.running), Stop.SHUTDOWN, self.deliver, only_waiting=True)

    def stop_running(self) -> None:
        """Stop what runs, as far as it can be stopped."""
        self.handlers.stop(list(self.running), Stop.SHUTDOWN, self.deliver)

    async def let_go(self) -> None:
        """Give back what is still in our hands; the process ends in the same breath."""
        if leases := [each.lease for each in self.running if each.held and each.held.lost is None]:
            await self.hand_back(leases)

    # Words ------------------------------------------------------------------------------------------------------------

    def note_answer(self) -> None:
        """The database answered."""
        self.answered_at = time.monotonic()
        self.outage.note_answer()

    def note_lost(self, running: Running, why: str) -> None:
        """Somebody else has the row, and nothing was written: said once."""
        if not running.is_known_lost:
            running.is_known_lost = True
            self.metrics.lost(self.work.name)
            log.info("lease lost", kind=self.work.name, key=str(running.lease.key), why=why)

    def note_trouble(self, error: Exception) -> None:
        """The database is in trouble, or we are; the loop tries again."""
        self.metrics.database_error(self.work.name)
        self.outage.note_failure(self.work.name, error)

    @property
    def working(self) -> int:
        """How many slots are taken by work, without those that a claim under way has spoken for."""
        return self.busy - self.wanted
