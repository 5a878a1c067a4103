"""A worker: handlers on this loop, control in a thread beside it.

    this thread                               the control thread
    -----------                               ------------------
    event loop for `async def` handlers       event loop that claims, settles, renews, sweeps, listens
    thread pool for plain functions
    child processes for isolated ones

So neither a blocked nor a busy handler makes a lease late. Only code that holds the interpreter's lock for longer than
a lease can do that, and it belongs into a child: `isolate=True`.
"""

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from types import FrameType

import uvloop

from duly.db.pool import open_pool
from duly.executors.process_pool import Children
from duly.lease.work import Work
from duly.logging import get_log
from duly.settings import Settings
from duly.worker.connections import share_out
from duly.worker.control import Control
from duly.worker.handlers import Handlers
from duly.worker.metrics import Metrics

__all__ = ["Worker", "run_worker"]

log = get_log("duly.worker")
LAST_SECONDS = 7.0  # to give back what we hold and say goodbye, once nothing more is waited for
COLLECT_AFTER = 10_000  # new objects, before the collector looks for circles among them
HEARING_SECONDS = 2.0  # how long the handlers' loop has to hear that control has ended


class Worker:
    """One worker over some kinds of work; lives on the loop it is made on."""

    def __init__(
        self,
        works: Sequence[Work],
        settings: Settings,
        *,
        dsn: str,
        direct_dsn: str | None = None,
        role: str | None = None,
        is_the_process: bool = False,
    ) -> None:
        self.works = works
        self.dsn = dsn
        self.role = role
        self.pool_size = settings.pool_size
        self.is_the_process = is_the_process
        self.was_heard = threading.Event()
        self.last_breath: threading.Timer | None = None
        self.metrics = Metrics()
        self.handlers = Handlers(
            threads=1 + sum(work.tuning.slots + 1 for work in works), children=Children(settings.worker_children)
        )
        self.control = Control(
            works,
            worker_id=settings.worker_id,
            dsn=dsn,
            direct_dsn=direct_dsn or dsn,
            role=role,
            pool_size=settings.pool_size,
            stop_seconds=settings.stop_seconds,
            handlers=self.handlers,
            metrics=self.metrics,
            on_last_breath=self.limit_the_last_breath if is_the_process else lambda: None,
        )

    async def run(self, *, once: bool = False) -> int:
        """Work until asked to stop, or for one cycle; returns the rows of that one."""
        shares = share_out(self.pool_size, self.works)
        self.control.pool_size = shares.control
        try:
            async with open_pool(
                self.dsn,
                size=shares.loop,
                idle=0,
                role=self.role,
                name="duly handlers",
                plain_size=shares.threads,
                setting=f"DULY_POOL_SIZE={self.pool_size}",
            ) as pool:
                for work in self.works:
                    work.lend(pool)
                return await self.run_both(once)
        finally:
            if self.last_breath:
                self.last_breath.cancel()

    async def run_both(self, once: bool) -> int:
        """Control in its thread, handlers here, until control has ended."""
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        thread = threading.Thread(target=self.run_control, args=(ended, once), name="duly-control", daemon=True)
        thread.start()
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            self.control.ask_to_stop()
            await ended
            raise
        finally:
            self.was_heard.set()
            await self.handlers.close()
            for work in self.works:
                await work.close()
            await asyncio.to_thread(thread.join)

    def run_control(self, ended: asyncio.Future[int], once: bool) -> None:
        """The control thread: its own loop, whose end is told to ours."""
        tell = self.handlers.loop.call_soon_threadsafe
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                rows = runner.run(self.control.run(once=once))
        except BaseException as error:
            status = 1
            tell(ended.set_exception, error)
        else:
            status = 0
            tell(ended.set_result, rows)
        if self.is_the_process and not self.was_heard.wait(HEARING_SECONDS):
            end_process(status)  # a handler blocks the other loop for good, and its row was given back

    def limit_the_last_breath(self) -> None:
        """From now on the process has seconds to live, whatever a driver or a handler still waits for."""
        if self.last_breath is None:
            self.last_breath = threading.Timer(LAST_SECONDS, end_process, [0])
            self.last_breath.daemon = True
            self.last_breath.start()

    def ask_to_stop(self) -> None:
        """Stop politely; asked again, stop now. From any thread, and from a signal handler."""
        self.control.ask_to_stop()


def run_worker(
    works: Sequence[Work],
    settings: Settings,
    *,
    dsn: str,
    direct_dsn: str | None = None,
    role: str | None = None,
    once: bool = False,
) -> int:
    """Run a worker as this process: SIGTERM and SIGINT stop it, a second one at once; returns the rows of one cycle.

    A handler that does not come back cannot be stopped: then the process is ended under it, its row given back.
    """

    async def main() -> int:
        spare_the_collector()
        worker = Worker(works, settings, dsn=dsn, direct_dsn=direct_dsn, role=role, is_the_process=True)
        stop_by_signals(worker)
        status = 1
        try:
            with nullcontext() if once else port_of(worker, settings):
                rows = await worker.run(once=once)
            status = 0
        finally:
            if worker.handlers.under_way:
                end_process(status)
        return rows

    with quiet_pools(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


@contextmanager
def quiet_pools() -> Generator[None, None, None]:
    """A pool logs every try to connect; the worker says itself, once, that the database is lost, and why."""
    logger = logging.getLogger("psycopg.pool")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def spare_the_collector() -> None:
    """What is loaded by now stays, and rows come by thousands: looking through everything so often costs a third."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)


@contextmanager
def port_of(worker: Worker, settings: Settings) -> Generator[None, None, None]:
    """The port for health and figures, when one is wanted."""
    if settings.worker_port is None:
        yield
        return
    from duly.worker.health import open_port

    with open_port(settings.host, settings.worker_port, worker.control, worker.metrics) as address:
        log.info("listening", address=address)
        yield


def end_process(status: int) -> None:
    """End without waiting for handlers that nobody can stop."""
    with suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def stop_by_signals(worker: Worker) -> None:
    """Signals reach the worker even while a handler blocks this loop: they do not go through it."""

    def hear(_number: int, _frame: FrameType | None) -> None:
        worker.ask_to_stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, hear)
