"""The control side of a worker: a thread with an event loop of its own, on which no handler ever runs.

    running --- stop ---> draining --- all settled ------------------------------> gone
                             |
                             +------- deadline, or a second signal ---> letting go ---> gone

Draining takes nothing new, gives back what has not begun and waits for what has. Letting go stops what can be stopped,
gives the rest back, and ends.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import psycopg

from duly.db.pool import Pool, connect, open_pool
from duly.errors import NotMigrated, Unavailable
from duly.kernel.work import Work
from duly.logs import get_log
from duly.worker.handlers import Handlers
from duly.worker.lanes import Lanes
from duly.worker.metrics import Metrics
from duly.worker.registry import Identity, note_seen, note_stopped, register
from duly.worker.wakeup import listen

__all__ = ["Control"]

SEEN_SECONDS = 10.0
TICK_SECONDS = 0.5
STUCK_SECONDS = 10.0  # a control loop that did not tick for so long is not well
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
    ) -> None:
        self.works = works
        self.dsn = dsn
        self.direct_dsn = direct_dsn
        self.role = role
        self.pool_size = pool_size
        self.stop_seconds = stop_seconds
        self.handlers = handlers
        self.metrics = metrics
        slots = sum(work.pace.slots for work in works)
        self.identity = Identity(worker_id, [work.name for work in works], max(1, slots))
        self.lanes: list[Lanes] = []
        self.loop: asyncio.AbstractEventLoop | None = None
        self.stop = asyncio.Event()
        self.hurry = asyncio.Event()
        self.stops_asked = 0
        self.ticked_at = time.monotonic()
        self.rows = 0  # of a single cycle

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
        """Does the loop that keeps our leases go round?"""
        return time.monotonic() - self.ticked_at < STUCK_SECONDS

    def ready(self) -> bool:
        """Can work be done: does the database answer, and may we claim?"""
        if self.stops_asked or not self.alive():
            return False
        now = time.monotonic()
        return all(now - each.answered_at < STUCK_SECONDS + 2 * each.work.pace.poll_seconds for each in self.lanes)

    def about(self) -> Mapping[str, object]:
        """What there is to say about this worker."""
        return {
            "worker": self.identity.worker_id,
            "id": str(self.identity.id),
            "kinds": {each.work.name: {"busy": each.busy, "slots": each.work.pace.slots} for each in self.lanes},
            "stopping": self.stops_asked > 0,
        }

    # On our loop ------------------------------------------------------------------------------------------------------

    async def run(self, *, once: bool = False) -> int:
        """Work until asked to stop, or for one cycle; returns how many rows that one had."""
        self.loop = asyncio.get_running_loop()
        self.handlers.attach(self.loop)
        self.pass_on_the_wish()  # it may have come before we could hear it
        async with self.registered() as pool:
            self.lanes = [self.lanes_for(work, pool) for work in self.works]
            tasks: list[asyncio.Task[Any]] = [asyncio.create_task(self.cycle())] if once else self.endless_tasks(pool)
            stopping: asyncio.Task[Any] = asyncio.create_task(self.stop.wait())
            try:
                done, _ = await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
                for task in done - {stopping}:
                    task.result()  # raises what ended it
                if stopping in done:
                    await self.drain()
            finally:
                for task in (*tasks, stopping):
                    task.cancel()
                await asyncio.gather(*tasks, stopping, return_exceptions=True)
        return self.rows

    def endless_tasks(self, pool: Pool) -> list[asyncio.Task[Any]]:
        """What goes on until we stop; none of it ends by itself."""
        hearers = {each.work.channel: each.wake for each in self.lanes if each.work.channel}
        loops = [lanes.run() for lanes in self.lanes]
        return [asyncio.create_task(each) for each in (*loops, self.tick(), self.be_seen(pool), self.hear(hearers))]

    async def cycle(self) -> None:
        """One cycle of each kind of work, one after another."""
        try:
            for lanes in self.lanes:
                self.rows += await lanes.run_once()
        except psycopg.OperationalError as error:
            raise Unavailable(f"the database did not answer: {error}") from None

    async def tick(self) -> None:
        """Show that this loop goes round."""
        beats = 0
        while True:
            self.ticked_at = time.monotonic()
            for each in self.lanes:
                self.metrics.set_busy(each.work.name, each.busy)
            self.metrics.set_children(len(self.handlers.children.alive))
            if beats < (now := sum(each.keeper.beats for each in self.lanes)):
                beats = now
                self.metrics.beat()
            await asyncio.sleep(TICK_SECONDS)

    async def be_seen(self, pool: Pool) -> None:
        """Keep our row in the registry fresh."""
        while True:
            await asyncio.sleep(SEEN_SECONDS)
            with suppress(psycopg.Error, Unavailable, OSError):  # the lanes say so already, and louder
                async with pool.transaction() as connection:
                    await note_seen(connection, self.identity)

    async def hear(self, hearers: Mapping[str, Callable[[], None]]) -> None:
        """Be woken when somebody can wake us; where nobody can, go on without."""
        await listen(self.direct_dsn, hearers)
        await asyncio.Event().wait()

    def lanes_for(self, work: Work, pool: Pool) -> Lanes:
        """The lanes of one kind of work, with a connection of its own for its keeper."""
        keeper = partial(connect, self.dsn, name="duly keeper")
        return Lanes(work, self.identity.worker_id, pool, keeper, self.handlers, self.metrics)

    @asynccontextmanager
    async def registered(self) -> AsyncGenerator[Pool, None]:
        """A pool, and our row in the registry from the beginning to the end."""
        async with await connect(self.dsn):
            pass  # a wrong address is said at once; later the pool has more patience
        async with open_pool(self.dsn, size=self.pool_size, role=self.role, name="duly worker", check=False) as pool:
            try:
                async with pool.transaction() as connection:
                    await register(connection, self.identity)
            except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
                raise NotMigrated("this database lacks duly's tables; make them with: duly migrate") from None
            except psycopg.OperationalError as error:
                raise Unavailable(f"the database did not answer: {error}") from None
            log.info("worker started", worker=self.identity.worker_id, kinds=list(self.identity.kinds))
            try:
                yield pool
            finally:
                with suppress(psycopg.Error, Unavailable, TimeoutError, OSError):
                    async with asyncio.timeout(GOODBYE_SECONDS), pool.transaction() as connection:
                        await note_stopped(connection, self.identity)
                log.info("worker stopped", worker=self.identity.worker_id)

    # Going ------------------------------------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Take nothing new and wait for what has begun; when that takes too long, let go."""
        log.info("stopping", busy=sum(len(each.running) for each in self.lanes), seconds=self.stop_seconds)
        for each in self.lanes:
            each.stop_claiming()
        if await self.all_idle(self.stop_seconds, unless=self.hurry):
            return
        for each in self.lanes:
            each.stop_running()
        if await self.all_idle(GOODBYE_SECONDS):
            return
        for each in self.lanes:
            with suppress(psycopg.Error, Unavailable, TimeoutError, OSError):
                async with asyncio.timeout(GOODBYE_SECONDS):
                    await each.let_go()

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
        """Wait until no lane holds anything."""
        for each in self.lanes:
            await each.idle.wait()
