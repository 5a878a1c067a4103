"""A worker: handlers on this loop, control in a thread beside it.

    this thread                               the control thread
    -----------                               ------------------
    event loop for `async def` handlers       event loop that claims, settles, renews, sweeps, listens
    thread pool for plain functions
    child processes for isolated ones

So neither a blocked nor a busy handler delays a heartbeat. Only code that holds the GIL for longer than a lease lasts
does: run it in a child process, by `isolate=True`.
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
from duly.executors.process_pool import ProcessPool
from duly.lease.work import Work
from duly.logging import get_log
from duly.settings import Settings
from duly.worker.connections import share_connections
from duly.worker.control import SHUTDOWN_STEP_SECONDS, Control
from duly.worker.handlers import Handlers
from duly.worker.metrics import Metrics

log = get_log("duly.worker")
HARD_EXIT_SECONDS = 4 * SHUTDOWN_STEP_SECONDS + 1.0  # to stop handlers, release rows, end loops and deregister
GC_THRESHOLD = 10_000  # new objects before the garbage collector runs
RESULT_SECONDS = 2.0  # how long the handlers' loop may take to notice that control has ended


class Worker:
    """One worker over some work types; lives on the loop it is created on."""

    def __init__(
        self,
        works: Sequence[Work],
        settings: Settings,
        *,
        dsn: str,
        direct_dsn: str | None = None,
        role: str | None = None,
        owns_process: bool = False,
    ) -> None:
        self.works = works
        self.dsn = dsn
        self.role = role
        self.pool_size = settings.pool_size
        self.shares = share_connections(settings.pool_size, works)
        self.owns_process = owns_process
        self.is_result_received = threading.Event()
        self.hard_exit_timer: threading.Timer | None = None
        self.failure: BaseException | None = None  # that ended the control side
        self.metrics = Metrics()
        threads = max(1, sum(work.tuning.slots + 1 for work in works))  # one more slot each, for expired rows
        self.handlers = Handlers(threads, ProcessPool(settings.worker_children))
        self.control = Control(
            works,
            worker_id=settings.worker_id,
            dsn=dsn,
            direct_dsn=direct_dsn or dsn,
            role=role,
            pool_size=self.shares.control,
            stop_seconds=settings.stop_seconds,
            handlers=self.handlers,
            metrics=self.metrics,
            arm_hard_exit=self.arm_hard_exit if owns_process else lambda _failure: None,
        )

    async def run(self, *, once: bool = False) -> int:
        """Work until a stop is requested, or `once` do what is due now; returns how many rows were claimed."""
        try:
            async with open_pool(
                self.dsn,
                size=self.shares.loop,
                idle=0,
                role=self.role,
                name="duly handlers",
                sync_size=self.shares.threads,
                setting=f"DULY_POOL_SIZE={self.pool_size}",
            ) as pool:
                for work in self.works:
                    work.use_handler_pool(pool)
                return await self.run_both(once)
        finally:
            if self.hard_exit_timer:
                self.hard_exit_timer.cancel()

    async def run_both(self, once: bool) -> int:
        """Run control in its thread and handlers here, until control has ended."""
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        thread = threading.Thread(target=self.run_control, args=(ended, once), name="duly-control", daemon=True)
        thread.start()
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            self.control.request_stop()
            await ended
            raise
        finally:
            self.is_result_received.set()
            await self.handlers.close()
            for work in self.works:
                await work.close()
            await asyncio.to_thread(thread.join)

    def run_control(self, ended: asyncio.Future[int], once: bool) -> None:
        """Run control on a loop of this thread, and pass its result to the handlers' loop."""
        call = self.handlers.loop.call_soon_threadsafe
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                rows = runner.run(self.control.run(once=once))
        except BaseException as error:
            self.failure = error
            call(ended.set_exception, error)
        else:
            call(ended.set_result, rows)
        if self.owns_process and not self.is_result_received.wait(RESULT_SECONDS):
            end_process(self.failure)  # a handler blocks the other loop for good; its row was released

    def arm_hard_exit(self, failure: BaseException | None) -> None:
        """Exit the process some seconds after the first call, whatever still waits then."""
        self.failure = self.failure or failure
        if self.hard_exit_timer is None:
            self.hard_exit_timer = threading.Timer(HARD_EXIT_SECONDS, lambda: end_process(self.failure))
            self.hard_exit_timer.daemon = True
            self.hard_exit_timer.start()

    def request_stop(self) -> None:
        """Drain and stop; called again, stop now. Safe from any thread, and from a signal handler."""
        self.control.request_stop()


def run_worker(
    works: Sequence[Work],
    settings: Settings,
    *,
    dsn: str,
    direct_dsn: str | None = None,
    role: str | None = None,
    once: bool = False,
) -> int:
    """Run a worker as this process; returns how many rows it claimed.

    SIGTERM and SIGINT let handlers finish; a second signal ends the process within seconds. A handler that never
    returns cannot be stopped: its row is released and the process exits.
    """

    async def main() -> int:
        tune_garbage_collector()
        worker = Worker(works, settings, dsn=dsn, direct_dsn=direct_dsn, role=role, owns_process=True)
        install_signal_handlers(worker)
        failure: BaseException | None = None
        try:
            with nullcontext() if once else health_port(worker, settings):
                return await worker.run(once=once)
        except BaseException as error:
            failure = error
            raise
        finally:
            if worker.handlers.is_stuck:
                end_process(failure)

    with quiet_pools(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


@contextmanager
def quiet_pools() -> Generator[None, None, None]:
    """Silence pools, which log every attempt to connect; the worker logs once that the database is unavailable."""
    logger = logging.getLogger("psycopg.pool")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def tune_garbage_collector() -> None:
    """Exclude what is loaded from collections and collect less often: it took a third of a busy worker's time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)


@contextmanager
def health_port(worker: Worker, settings: Settings) -> Generator[None, None, None]:
    """Serve health and metrics while the body runs, if a port is configured."""
    if settings.worker_port is None:
        yield
        return
    from duly.worker.health import serve_health

    with serve_health(settings.host, settings.worker_port, worker.control, worker.metrics) as address:
        log.info("health.listening", address=address)
        yield


def end_process(failure: BaseException | None) -> None:
    """Exit without waiting for handlers that cannot be stopped; after a failure log it, and exit with status 1."""
    if failure:
        log.error("worker.failed", exc_info=failure)
    with suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(1 if failure else 0)


def install_signal_handlers(worker: Worker) -> None:
    """Stop the worker on SIGTERM and SIGINT, even while a handler blocks this loop."""

    def request_stop(_number: int, _frame: FrameType | None) -> None:
        worker.request_stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, request_stop)
