"""The control side of a worker: a thread with an event loop of its own, on which no handler ever runs.

    running --- stop ---> draining --- all settled ------------------------------> gone
                             |
                             +------- deadline, or a second signal ---> letting go ---> gone

Draining takes nothing new, gives back what has not begun and waits for what has. Letting go stops what can be stopped,
gives the rest back, and ends.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import psycopg

from duly.db.pool import Pool, connect, open_pool
from duly.errors import DulyError, NotMigrated, Unavailable
from duly.lease.heartbeat import SharedLine
from duly.lease.work import Work
from duly.logging import get_log
from duly.worker.handlers import Handlers
from duly.worker.lanes import Lanes
from duly.worker.listener import listen
from duly.worker.metrics import Metrics
from duly.worker.outage import Outage
from duly.worker.registry import Identity, note_seen, note_stopped, note_stopping, register

__all__ = ["Control"]

SEEN_SECONDS = 10.0
TICK_SECONDS = 0.5
PROBE_SECONDS = 1.0
STUCK_SECONDS = 10.0  # a control loop that did not tick for so long is not well
WEDGED_SECONDS = 60.0  # nor is a handlers' loop that did not turn for so long
MAX_NAMED = 20  # rows that are named when the worker stops
GOODBYE_SECONDS = 2.0  # each of the last steps may take so long, whatever state the database is in

log = get_log("duly.worker")


class Control:
    """Everything of a worker that talks to the database."""

    def __init__(
        self,
        works: Sequence[Work],
        *,
        worker_id: str,
        dsn: str,
        direct_dsn: str,
        role: str | None,
        pool_size: int,
        stop_seconds: float,
        handlers: Handlers,
        metrics: Metrics,
        on_last_breath: Callable[[], None] = lambda: None,
    ) -> None:
        self.works = works
        self.on_last_breath = on_last_breath  # called, perhaps twice, when only seconds are left to us
        self.is_registered = False
        self.dsn = dsn
        self.direct_dsn = direct_dsn
        self.role = role
        self.pool_size = pool_size
        self.stop_seconds = stop_seconds
        self.handlers = handlers
        self.metrics = metrics
        slots = {work.name: work.tuning.slots for work in works}
        self.identity = Identity(worker_id, [kind for work in works for kind in work.kinds], slots)
        self.lanes: list[Lanes] = []
        self.outage = Outage()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.stop = asyncio.Event()
        self.hurry = asyncio.Event()
        self.stops_asked = 0
        self.ticked_at = time.monotonic()

    # From any thread --------------------------------------------------------------------------------------------------

    def ask_to_stop(self) -> None:
        """Stop politely; asked again, stop now."""
        self.stops_asked += 1
        if self.loop and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.pass_on_the_wish)

    def pass_on_the_wish(self) -> None:
        """On our loop: the wish reaches whoever waits for it."""
        if self.stops_asked:
            self.stop.set()
        if self.stops_asked > 1:
            self.hurry.set()

    def alive(self) -> bool:
        """Do both loops go round, ours and the handlers'? A handler may block its own for a minute."""
        return time.monotonic() - self.ticked_at < STUCK_SECONDS and self.handlers.is_turning(WEDGED_SECONDS)

    def ready(self) -> bool:
        """Can work be done: does the database answer, do handlers begin, and may we claim?"""
        return self.obstacle() is None

    def obstacle(self) -> str | None:
        """Why no work can be done now; None when it can."""
        if self.stops_asked:
            return "the worker is stopping"
        if not (self.is_registered and self.lanes):
            return "the worker is starting"
        if not self.alive():
            return "the worker does not go round any more; restart it"
        if not self.handlers.is_turning():
            return "a handler has blocked the event loop of the others; nothing is claimed meanwhile"
        if reason := self.outage.reason():
            return reason
        now = time.monotonic()
        for each in self.lanes:
            if now - each.answered_at >= STUCK_SECONDS + 2 * max_rest_seconds(each.work):
                why = self.outage.trouble.get(each.work.name)
                return f"{each.work.name}: nothing can be claimed" + (f": {why}" if why else " yet")
        return None

    def about(self) -> Mapping[str, object]:
        """What there is to say about this worker."""
        return {
            "worker": self.identity.worker_id,
            "id": str(self.identity.id),
            "kinds": {each.work.name: {"busy": each.working, "slots": each.work.tuning.slots} for each in self.lanes},
            "stopping": self.stops_asked > 0,
        }

    # On our loop ------------------------------------------------------------------------------------------------------

    async def run(self, *, once: bool = False) -> int:
        """Work until asked to stop, or for one cycle; returns how many rows that one had."""
        self.loop = asyncio.get_running_loop()
        self.handlers.attach(self.loop)
        self.pass_on_the_wish()  # it may have come before we could hear it
        async with self.registered() as pool:
            line = SharedLine(partial(connect, self.dsn, name="duly keeper"))
            self.lanes = [self.lanes_for(work, pool, line) for work in self.works]
            tasks: list[asyncio.Task[Any]] = [asyncio.create_task(self.cycle())] if once else self.endless_tasks(pool)
            stopping: asyncio.Task[Any] = asyncio.create_task(self.stop.wait())
            try:
                done, _ = await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
                for task in done - {stopping}:
                    task.result()  # raises what ended it
                if stopping in done:
                    await asyncio.gather(self.drain(), within(GOODBYE_SECONDS, self.say_stopping(pool)))
            except BaseException:
                await self.let_go()
                raise
            finally:
                self.on_last_breath()
                for task in (*tasks, stopping):
                    task.cancel()
                await asyncio.wait([*tasks, stopping], timeout=GOODBYE_SECONDS)
        return sum(each.claimed_rows for each in self.lanes)

    def endless_tasks(self, pool: Pool) -> list[asyncio.Task[Any]]:
        """What goes on until we stop; none of it ends by itself."""
        hearers: dict[str, list[Callable[[], None]]] = {}
        for each in self.lanes:
            if each.work.wakes:
                hearers.setdefault(f"duly_{each.work.wakes}", []).append(each.wake)  # as `duly.wake` says it
        loops = [lanes.run() for lanes in self.lanes]
        return [
            asyncio.create_task(each)
            for each in (*loops, self.tick(), self.probe(pool), self.be_seen(pool), self.hear(hearers))
        ]

    async def cycle(self) -> None:
        """One cycle of each kind of work, one after another, as long as nobody stops us."""
        try:
            for lanes in self.lanes:
                if not self.stop.is_set():
                    await lanes.run_once()
        except psycopg.OperationalError as error:
            raise Unavailable(f"the database did not answer: {error}") from None

    async def tick(self) -> None:
        """Show that this loop goes round."""
        beats = 0
        while True:
            self.ticked_at = time.monotonic()
            self.outage.look()
            self.handlers.ask_for_a_turn()
            for each in self.lanes:
                self.metrics.set_busy(each.work.name, each.working)
            self.metrics.set_children(len(self.handlers.children.alive))
            if beats < (now := sum(each.heartbeat.beats for each in self.lanes)):
                beats = now
                self.metrics.beat()
            await asyncio.sleep(TICK_SECONDS)

    async def probe(self, pool: Pool) -> None:
        """See to it that the database is asked something every second, so that its silence means something."""
        while True:
            await asyncio.sleep(PROBE_SECONDS)
            if self.outage.silent_seconds() < PROBE_SECONDS:
                continue
            try:
                async with pool.statement() as connection:
                    await connection.execute("select 1")
            except (psycopg.Error, DulyError, OSError) as error:
                self.outage.note_failure("probe", error)
            else:
                self.outage.note_answer()

    async def be_seen(self, pool: Pool) -> None:
        """Keep our row in the registry fresh."""
        while True:
            await asyncio.sleep(SEEN_SECONDS)
            with suppress(psycopg.Error, DulyError, OSError):  # the lanes say so already, and louder
                async with pool.transaction() as connection:
                    await note_seen(connection, self.identity)

    async def hear(self, hearers: Mapping[str, Sequence[Callable[[], None]]]) -> None:
        """Be woken when somebody can wake us; where nobody can, go on without."""
        await listen(self.direct_dsn, hearers, self.outage)
        await asyncio.Event().wait()

    def lanes_for(self, work: Work, pool: Pool, line: SharedLine) -> Lanes:
        """The lanes of one kind of work; all keepers share a connection."""
        return Lanes(work, self.identity.worker_id, pool, line, self.handlers, self.metrics, self.outage)

    @asynccontextmanager
    async def registered(self) -> AsyncGenerator[Pool, None]:
        """A pool, and our row in the registry from the beginning to the end."""
        async with await connect(self.dsn):
            pass  # a wrong address is said at once; later the pool has more patience
        async with open_pool(self.dsn, size=self.pool_size, role=self.role, name="duly worker", check=False) as pool:
            try:
                async with pool.transaction() as connection:
                    for work in self.works:  # they say best what is missing
                        await work.prepare(connection)
                    await register(connection, self.identity)
            except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
                raise NotMigrated("this database lacks duly's tables; make them with: duly migrate") from None
            except psycopg.OperationalError as error:
                raise Unavailable(f"the database did not answer: {error}") from None
            log.info("worker started", worker=self.identity.worker_id, kinds=[work.name for work in self.works])
            self.is_registered = True
            try:
                yield pool
            finally:
                await within(GOODBYE_SECONDS, self.say_goodbye(pool))
                log.info("worker stopped", worker=self.identity.worker_id)

    async def say_stopping(self, pool: Pool) -> None:
        """Note in the registry that we take nothing new any more."""
        async with pool.transaction() as connection:
            await note_stopping(connection, self.identity)

    async def say_goodbye(self, pool: Pool) -> None:
        """Note in the registry that we went in peace."""
        async with pool.transaction() as connection:
            await note_stopped(connection, self.identity)

    # Going ------------------------------------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Take nothing new and wait for what has begun; when that takes too long, let go."""
        for each in self.lanes:
            each.stop_claiming()
        self.log_stopping()
        if await self.all_idle(self.stop_seconds, unless=self.hurry):
            return
        self.on_last_breath()
        for each in self.lanes:
            each.stop_running()
        if not await self.all_idle(GOODBYE_SECONDS):
            await self.let_go()

    def log_stopping(self) -> None:
        """Say what is waited for, until when, and how to end it at once."""
        rows = [(each.work, running) for each in self.lanes for running in each.running]
        if not rows:
            log.info("stopping", rows=0)
            return
        until = datetime.now(UTC) + timedelta(seconds=self.stop_seconds)
        log.warning(  # `duly up` shows no less, and a person waits
            "stopping: what runs may finish until then; a second Ctrl-C or SIGTERM ends it now",
            rows=len(rows),
            until=until.isoformat(timespec="seconds"),
            seconds=self.stop_seconds,
            waiting_for=[work.describe(running.lease) for work, running in rows[:MAX_NAMED]],
        )

    async def let_go(self) -> None:
        """Give back whatever is still in our hands, all kinds at once."""
        await asyncio.gather(*(within(GOODBYE_SECONDS, each.let_go()) for each in self.lanes))

    async def all_idle(self, seconds: float, unless: asyncio.Event | None = None) -> bool:
        """Wait until nothing is in our hands; False when it takes longer, or `unless` happens first."""
        idle = asyncio.create_task(self.until_idle())
        other = asyncio.create_task((unless or asyncio.Event()).wait())
        await asyncio.wait([idle, other], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        other.cancel()
        if not idle.done():
            idle.cancel()
            return False
        return True

    async def until_idle(self) -> None:
        """Wait until no lane holds anything, all at one moment."""
        while not all(each.idle.is_set() for each in self.lanes):
            for each in self.lanes:
                await each.idle.wait()


def max_rest_seconds(work: Work) -> float:
    """How long a lane of this work may be silent although all is well."""
    return max(work.tuning.poll_seconds, work.tuning.sweep_seconds)


async def within(seconds: float, step: Coroutine[object, object, None]) -> None:
    """A last step, which may fail and may not take long: a driver that gives up politely is left behind."""
    task = asyncio.create_task(step)
    await asyncio.wait([task], timeout=seconds)
    if not task.done():
        task.cancel()
    elif error := task.exception():
        log.warning("could not say goodbye properly", error=str(error))
