"""The control side of a worker: a thread with an event loop of its own, on which no handler ever runs.

    running --- stop ---> draining --- all settled -------------------------------> stopped
                             |
                             +------- deadline, or a second signal ---> releasing ---> stopped

Draining claims nothing new, releases rows that have not begun and waits for those that have. Releasing stops the
handlers that can be stopped, releases the other rows, and ends.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import psycopg

from duly.db.error_table import MISSING_OBJECT_ERRORS
from duly.db.pool import Pool, connect, open_pool
from duly.errors import DulyError, NotMigrated, Unavailable
from duly.lease.heartbeat import SharedConnection
from duly.lease.work import Work
from duly.logging import get_log
from duly.worker.handlers import Handlers
from duly.worker.listener import listen
from duly.worker.metrics import Metrics
from duly.worker.outage import Outage, format_reason
from duly.worker.registry import WorkerIdentity, note_seen, note_stopped, note_stopping, register
from duly.worker.work_loops import WorkLoops

SEEN_SECONDS = 10.0
TICK_SECONDS = 0.5
PROBE_SECONDS = 1.0
CONTROL_LOOP_DEAD_SECONDS = 10.0  # /healthz fails when the control loop has not ticked for so long
HANDLER_LOOP_DEAD_SECONDS = 60.0  # or when the handlers' loop has not responded for so long
UNREADY_SECONDS = 10.0  # /readyz fails when claims have failed, or no statement was answered, for so long
MAX_LISTED_ROWS = 20  # in the log, when the worker stops
SHUTDOWN_STEP_SECONDS = 2.0  # limit for each of the last steps, whatever state the database is in

log = get_log("duly.worker")


class Control:
    """Everything of a worker that uses the database, except its handlers."""

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
        arm_hard_exit: Callable[[BaseException | None], None] = lambda _failure: None,
    ) -> None:
        self.works = works
        self.arm_hard_exit = arm_hard_exit  # the process must end soon, after this failure or as requested
        self.is_registered = False
        self.dsn = dsn
        self.direct_dsn = direct_dsn
        self.role = role
        self.pool_size = pool_size
        self.stop_seconds = stop_seconds
        self.handlers = handlers
        self.metrics = metrics
        slots = {work.name: work.tuning.slots for work in works}
        self.identity = WorkerIdentity(
            worker_id, [name for work in works for name in work.registered_work_types], slots
        )
        self.work_loops: list[WorkLoops] = []
        self.outage = Outage()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.stop = asyncio.Event()
        self.stop_now = asyncio.Event()
        self.stop_requests = 0
        self.ticked_at = time.monotonic()

    # From any thread --------------------------------------------------------------------------------------------------

    def request_stop(self) -> None:
        """Drain and stop; called again, stop now."""
        self.stop_requests += 1
        if self.loop and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.apply_stop_request)

    def apply_stop_request(self) -> None:
        """Set the events that tasks wait for, on the control loop."""
        if self.stop_requests:
            self.stop.set()
        if self.stop_requests > 1:
            self.stop_now.set()

    def is_ready(self) -> bool:
        """Return whether work can be done: the database answers, handlers begin, and rows are claimed."""
        return self.not_ready_reason() is None

    def not_alive_reason(self) -> str | None:
        """Explain which event loop does not respond, so that only a restart helps; None when both do."""
        if time.monotonic() - self.ticked_at >= CONTROL_LOOP_DEAD_SECONDS:
            return "the control loop does not respond; restart the worker"
        if not self.handlers.is_responsive(HANDLER_LOOP_DEAD_SECONDS):
            return "an `async def` handler has blocked the event loop for too long; restart the worker"
        return None

    def not_ready_reason(self) -> str | None:
        """Explain why no work can be done now; None when it can."""
        if self.stop_requests:
            return "the worker is stopping"
        if not (self.is_registered and self.work_loops):
            return "the worker is starting"
        if reason := self.not_alive_reason():
            return reason
        if not self.handlers.is_responsive():
            return "an `async def` handler blocks the event loop; nothing is claimed meanwhile"
        if reason := self.outage.reason():
            return reason
        now = time.monotonic()
        for each in self.work_loops:
            failing, tuning = each.claimer.failing, each.work.tuning
            if failing and now - failing.since >= UNREADY_SECONDS:
                return f"{each.work.name}: cannot claim rows: {format_reason(failing.error)}"
            idle_seconds = max(tuning.poll_seconds, tuning.sweep_seconds)  # when all is well, without any statement
            if now - each.contact.answered_at >= UNREADY_SECONDS + 2 * idle_seconds:
                return f"{each.work.name}: the database has not answered its statements"
        return None

    def describe(self) -> Mapping[str, object]:
        """Return the worker's fields in /healthz and /readyz."""
        return {
            "worker": self.identity.worker_id,
            "id": str(self.identity.id),
            "work_types": {
                each.work.name: {"running": each.held.slots.running, "slots": each.work.tuning.slots}
                for each in self.work_loops
            },
            "stopping": self.stop_requests > 0,
        }

    # On our loop ------------------------------------------------------------------------------------------------------

    async def run(self, *, once: bool = False) -> int:
        """Work until a stop is requested, or `once` do what is due now; returns how many rows were claimed."""
        self.loop = asyncio.get_running_loop()
        self.handlers.attach(self.loop)
        self.apply_stop_request()  # it may have come before there was a loop
        ticking = asyncio.create_task(self.tick())  # before registration, which may wait for locks
        try:
            return await self.run_registered(ticking, once=once)
        finally:
            ticking.cancel()

    async def run_registered(self, ticking: asyncio.Task[None], *, once: bool) -> int:
        """Register the worker, and run its loops until a stop is requested or one of them ends."""
        async with self.registered() as pool:
            shared = SharedConnection(partial(connect, self.dsn, name="duly heartbeat"))
            self.work_loops = [
                WorkLoops(work, self.identity.worker_id, pool, shared, self.handlers, self.metrics, self.outage)
                for work in self.works
            ]
            loops = (self.run_once(), self.probe(pool)) if once else self.endless_tasks(pool)
            tasks: list[asyncio.Task[Any]] = [ticking, *map(asyncio.create_task, loops)]
            stopping: asyncio.Task[Any] = asyncio.create_task(self.stop.wait())
            try:
                done, _ = await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
                for task in done - {stopping}:
                    task.result()  # raises what ended it
                if stopping in done:
                    await asyncio.gather(self.drain(), run_within(SHUTDOWN_STEP_SECONDS, self.register_stopping(pool)))
            except BaseException as error:
                self.arm_hard_exit(error)
                await self.stop_and_release()
                raise
            finally:
                self.arm_hard_exit(None)
                for task in (*tasks, stopping):
                    task.cancel()
                await asyncio.wait([*tasks, stopping], timeout=SHUTDOWN_STEP_SECONDS)
        return sum(each.held.claimed_rows for each in self.work_loops)

    def endless_tasks(self, pool: Pool) -> Sequence[Coroutine[Any, Any, None]]:
        """Return what runs until the worker stops; none of it ends by itself."""
        callbacks: dict[str, list[Callable[[], None]]] = {}
        for each in self.work_loops:
            if each.work.notify_channel:
                callbacks.setdefault(f"duly_{each.work.notify_channel}", []).append(each.note_notification)
        loops = [each.run() for each in self.work_loops]
        return [*loops, self.probe(pool), self.update_registry(pool), listen(self.direct_dsn, callbacks, self.outage)]

    async def run_once(self) -> None:
        """Do what is due now of each work type, one after another, unless a stop is requested."""
        try:
            for each in self.work_loops:
                # The handlers' loop may not have started yet; until it responds nothing is claimed.
                await self.handlers.wait_responsive()
                if not self.stop.is_set():
                    await each.run_due()
        except psycopg.OperationalError as error:
            raise Unavailable(f"the database did not answer: {error}") from None

    async def tick(self) -> None:
        """Record that this loop responds, and update the gauges."""
        beats = 0
        while True:
            self.ticked_at = time.monotonic()
            if self.is_registered:
                self.outage.check()
            self.handlers.ping()
            for each in self.work_loops:
                self.metrics.set_running(each.work.name, each.held.slots.running)
            self.metrics.set_processes(len(self.handlers.processes.alive))
            if beats < (now := sum(each.heartbeat.beats for each in self.work_loops)):
                beats = now
                self.metrics.beat()
            await asyncio.sleep(TICK_SECONDS)

    async def probe(self, pool: Pool) -> None:
        """Send a statement at least every second, so that silence means that the database is unavailable."""
        while True:
            await asyncio.sleep(PROBE_SECONDS)
            if self.outage.silent_seconds() < PROBE_SECONDS:
                continue
            try:
                async with pool.statement() as connection:
                    await connection.execute("select 1")
            except (psycopg.Error, DulyError, OSError) as error:
                self.outage.record_failure("probe", error)
            else:
                self.outage.record_answer()

    async def update_registry(self, pool: Pool) -> None:
        """Update our row in the registry at intervals."""
        while True:
            await asyncio.sleep(SEEN_SECONDS)
            with suppress(psycopg.Error, DulyError, OSError):  # the loops log it
                async with pool.transaction() as connection:
                    await note_seen(connection, self.identity)

    @asynccontextmanager
    async def registered(self) -> AsyncGenerator[Pool, None]:
        """Open the pool and keep our row in the registry; raises Unavailable or NotMigrated."""
        async with await connect(self.dsn):
            pass  # fails at once for a wrong address; the pool would retry
        # Connections are not checked before use: each loop tries again when one was lost.
        async with open_pool(self.dsn, size=self.pool_size, role=self.role, name="duly worker", check=False) as pool:
            try:
                async with pool.transaction() as connection:
                    for work in self.works:  # their errors name what is missing
                        await work.prepare(connection)
                    await register(connection, self.identity)
            except MISSING_OBJECT_ERRORS:
                raise NotMigrated from None
            except psycopg.OperationalError as error:
                raise Unavailable(f"the database did not answer: {error}") from None
            log.info("worker.started", worker=self.identity.worker_id, work_types=[work.name for work in self.works])
            self.outage.record_answer()
            self.is_registered = True
            try:
                yield pool
            finally:
                await run_within(SHUTDOWN_STEP_SECONDS, self.register_stopped(pool))
                log.info("worker.stopped", worker=self.identity.worker_id)

    async def register_stopping(self, pool: Pool) -> None:
        """Note in the registry that we claim nothing new."""
        async with pool.transaction() as connection:
            await note_stopping(connection, self.identity)

    async def register_stopped(self, pool: Pool) -> None:
        """Note in the registry that we have stopped."""
        async with pool.transaction() as connection:
            await note_stopped(connection, self.identity)

    # Stopping ---------------------------------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Claim nothing new and wait for what has begun; when that takes too long, release it."""
        for each in self.work_loops:
            each.stop_claiming()
        self.log_stopping()
        if not await self.wait_idle(self.stop_seconds, interrupt=self.stop_now):
            self.arm_hard_exit(None)
            await self.stop_and_release()

    async def stop_and_release(self) -> None:
        """Claim nothing new, stop the handlers that can be stopped, and release the rows of the others."""
        for each in self.work_loops:
            each.stop_claiming()
            each.stop_running()
        if not await self.wait_idle(SHUTDOWN_STEP_SECONDS):
            await self.release_all()

    def log_stopping(self) -> None:
        """Log which rows are waited for, until when, and how to stop at once."""
        rows = [(each.work, row) for each in self.work_loops for row in each.held]
        if not rows:
            log.info("worker.stopping", rows=0)
            return
        until = datetime.now(UTC) + timedelta(seconds=self.stop_seconds)
        log.warning(  # `duly up` shows warnings only, and a person waits
            "worker.stopping",
            hint="running handlers may finish until then; a second Ctrl-C or SIGTERM stops them now",
            rows=len(rows),
            until=until.isoformat(timespec="seconds"),
            seconds=self.stop_seconds,
            waiting_for=[work.describe(row.lease) for work, row in rows[:MAX_LISTED_ROWS]],
        )

    async def release_all(self) -> None:
        """Release everything that we still hold, all work types at once."""
        await asyncio.gather(
            *(run_within(SHUTDOWN_STEP_SECONDS, each.settler.release_held()) for each in self.work_loops)
        )

    async def wait_idle(self, seconds: float, interrupt: asyncio.Event | None = None) -> bool:
        """Wait until we hold nothing; False when that takes longer, or `interrupt` is set first."""
        idle = asyncio.create_task(self.until_idle())
        other = asyncio.create_task((interrupt or asyncio.Event()).wait())
        await asyncio.wait([idle, other], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        other.cancel()
        if not idle.done():
            idle.cancel()
            return False
        return True

    async def until_idle(self) -> None:
        """Wait until no work type holds anything, all at the same moment."""
        while not all(each.held.idle.is_set() for each in self.work_loops):
            for each in self.work_loops:
                await each.held.idle.wait()


async def run_within(seconds: float, step: Coroutine[object, object, None]) -> None:
    """Run a step of the shutdown; a failure is logged, and a step that takes too long is cancelled and left behind."""
    task = asyncio.create_task(step)
    await asyncio.wait([task], timeout=seconds)
    if not task.done():
        task.cancel()
    elif error := task.exception():
        log.warning("worker.shutdown_step_failed", error=str(error))
