"""Runs handlers: `async def` on an event loop, plain functions in threads, isolated ones in child processes.

Batches come from the control thread in one call, and outcomes go back in one call however many there are, because
crossing threads is expensive. A handler can be slow, wrong or stuck here without delaying a heartbeat.
"""

import asyncio
import inspect
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from duly.crashpoint import crashpoint
from duly.errors import Unavailable
from duly.executors.call import Call, Executor
from duly.executors.process_pool import ProcessPool
from duly.lease.heartbeat import WatchedLease
from duly.lease.operations import Lease
from duly.lease.work import Stop, StopSignal, Work
from duly.logging import get_log
from duly.outcomes import RAISABLE, Cancelled, Failed, GiveUp, Released, Stopped, outcome_from_exception
from duly.tracebacks import format_stack, format_traceback

CANCEL_GRACE_SECONDS = 5.0  # a thread that was asked to stop may take so long to return its outcome
HANDLER_LOOP_BUSY_SECONDS = 5.0  # a loop that did not respond for so long gets no new rows
HOOK_SECONDS = 10.0  # limit for the hook that is called for a failure
NO_TIMER = nullcontext()  # ten times cheaper than a timer without a deadline
PRECEDENCE = {Stop.CANCELLED: 0, Stop.TIMEOUT: 1, Stop.SHUTDOWN: 2, Stop.LOST: 3}  # the higher reason to stop wins

log = get_log("duly.worker")


class OutcomeLatch:
    """Decides which of several threads sets the outcome of a run: the first one."""

    __slots__ = ("is_set", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.is_set = False

    def try_set(self) -> bool:
        """Return True to the first caller, and False to every other."""
        with self.lock:
            is_first = not self.is_set
            self.is_set = True
            return is_first


@dataclass(eq=False, slots=True)
class HeldRow:
    """A claimed row and the state of its handler, shared by the control loop, the handlers' loop and threads."""

    work: Work
    lease: Lease
    # Written on the control loop
    watched_lease: WatchedLease | None = None
    is_loss_logged: bool = False
    # Written on the handlers' loop; handlers in threads read the stop signal
    stop_signal: StopSignal = field(default_factory=StopSignal)
    task: asyncio.Task[None] | Future[None] | None = None
    timer: asyncio.TimerHandle | None = None  # the time limit of a thread
    has_task_started: bool = False  # then its task handles its own cancellation
    # Written where the handler runs, which may be a thread, and read on both loops
    began_at: float | None = None  # our monotonic clock; None while it waits for an executor
    thread_id: int | None = None  # of the thread it runs in, if any
    outcome_latch: OutcomeLatch = field(default_factory=OutcomeLatch)
    has_ended: bool = False  # the handler no longer runs; never unset


class RunReport(NamedTuple):
    """A message to the control side. A thread that is abandoned sends two: its outcome, and later that it has ended."""

    row: HeldRow
    outcome: object
    has_outcome: bool  # otherwise the outcome came with an earlier report
    frees_slot: bool  # the handler has ended
    seconds: float  # that the handler ran


Deliver = Callable[[Sequence[RunReport]], None]


class Handlers:
    """Runs the handlers of one worker; lives on the loop that `async def` handlers run on."""

    def __init__(self, threads: int, processes: ProcessPool) -> None:
        self.loop = asyncio.get_running_loop()
        self.threads = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="duly-handler")
        self.processes = processes
        self.in_progress: set[HeldRow] = set()  # everything that began, or waits to
        self.running_hooks: set[HeldRow] = set()  # failure hooks that occupy a thread, even past their time limit
        self.end_tasks: set[asyncio.Task[None]] = set()  # calls of `end` that no handler waits for
        self.reports: deque[tuple[Deliver, RunReport]] = deque()
        self.is_delivery_scheduled = False
        self.call_on_control: Callable[[Callable[[], None]], object] = lambda act: act()
        self.responded_at = time.monotonic()

    @property
    def is_stuck(self) -> bool:
        """Return whether something still runs that would keep the process from ending."""
        return bool(self.in_progress or self.running_hooks)

    # From the control thread ------------------------------------------------------------------------------------------

    def attach(self, control: asyncio.AbstractEventLoop) -> None:
        """Deliver outcomes on this loop from now on."""
        self.call_on_control = control.call_soon_threadsafe

    def start(self, batch: Sequence[HeldRow], deliver: Deliver) -> None:
        """Run a batch; `deliver` gets its reports on the control loop."""
        self.loop.call_soon_threadsafe(self.start_on_loop, batch, deliver)

    def stop(self, batch: Sequence[HeldRow], why: Stop, deliver: Deliver, *, only_waiting: bool = False) -> None:
        """Stop the handlers of a batch, or only those that have not begun, as far as they can be stopped."""
        self.loop.call_soon_threadsafe(self.stop_on_loop, batch, why, deliver, only_waiting)

    def deliver_reports(self) -> None:
        """Deliver the reports that have accumulated; runs on the control loop."""
        self.is_delivery_scheduled = False
        by_receiver: dict[Deliver, list[RunReport]] = {}
        timers: list[asyncio.TimerHandle] = []
        while self.reports:
            deliver, report = self.reports.popleft()
            by_receiver.setdefault(deliver, []).append(report)
            if report.frees_slot and report.row.timer:
                timers.append(report.row.timer)
        for deliver, reports in by_receiver.items():
            deliver(reports)
        if timers:
            self.loop.call_soon_threadsafe(cancel_all, timers)

    def ping(self) -> None:
        """Have the handlers' loop note that it responds."""
        self.loop.call_soon_threadsafe(self.note_response)

    async def wait_responsive(self, seconds: float = HANDLER_LOOP_BUSY_SECONDS) -> None:
        """Wait on the control loop until the handlers' loop responds, but no longer: a handler may block it."""
        responded = asyncio.Event()

        def note() -> None:
            self.note_response()
            self.call_on_control(responded.set)

        self.loop.call_soon_threadsafe(note)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await responded.wait()

    def is_responsive(self, seconds: float = HANDLER_LOOP_BUSY_SECONDS) -> bool:
        """Return whether the handlers' loop responded lately: one blocking handler blocks every other `async def`."""
        return time.monotonic() - self.responded_at < seconds

    # On the handlers' loop --------------------------------------------------------------------------------------------

    def note_response(self) -> None:
        """Note that the loop responds."""
        self.responded_at = time.monotonic()

    def start_on_loop(self, batch: Sequence[HeldRow], deliver: Deliver) -> None:
        """Start each row of a batch; a row that cannot be started fails alone."""
        for row in batch:
            self.in_progress.add(row)
            try:
                self.start_in_executor(row, row.work.build_call(row.lease, row.stop_signal), deliver)
            except BaseException as error:
                self.end_soon(row, outcome_from_exception(error), deliver)

    def start_in_executor(self, row: HeldRow, call: Call, deliver: Deliver) -> None:
        """Start the handler in its executor."""
        match call.executor:
            case Executor.LOOP:
                row.task = self.loop.create_task(self.run_on_loop(row, call, deliver))
            case Executor.PROCESS:
                row.task = self.loop.create_task(self.run_in_process(row, call, deliver))
            case Executor.THREAD:
                try:
                    row.task = self.threads.submit(self.run_in_thread, row, call, deliver)
                except RuntimeError as error:
                    log.warning("handler.no_thread", consequence="the row is released", error=str(error))
                    self.send_report(row, Released(), deliver)
            case _:
                raise TypeError(f"unknown executor: {call.executor!r}")

    def stop_on_loop(self, batch: Sequence[HeldRow], why: Stop, deliver: Deliver, only_waiting: bool) -> None:
        """Stop handlers: a task is cancelled, a child process killed; a thread only sees the stop signal."""
        for row in batch:
            earlier = row.stop_signal.reason
            if row.has_ended or row.task is None:
                continue
            if earlier is not None and PRECEDENCE[earlier] >= PRECEDENCE[why]:
                continue
            if only_waiting and row.began_at is not None:
                continue
            in_thread = isinstance(row.task, Future)
            is_cancelled = row.task.cancel()
            if only_waiting and not is_cancelled:
                continue  # its thread has begun since the check above
            row.stop_signal.reason = why
            if is_cancelled and (in_thread or not row.has_task_started):
                self.send_report(row, outcome_from_stop(why), deliver)  # it will never begin
            elif in_thread and why is Stop.CANCELLED:
                self.loop.call_later(CANCEL_GRACE_SECONDS, self.abandon_thread, row, Cancelled(), deliver)

    async def run_on_loop(self, row: HeldRow, call: Call, deliver: Deliver) -> None:
        """Run an `async def` handler."""
        row.has_task_started = True
        row.began_at = time.monotonic()
        crashpoint("before_work")
        timer = NO_TIMER if call.timeout_seconds is None else asyncio.timeout(call.timeout_seconds)
        try:
            async with timer:
                outcome = await call.function(*call.arguments)
        except BaseException as error:
            is_late = isinstance(timer, asyncio.Timeout) and timer.expired()
            where = format_traceback(error.__cause__ or error) if is_late else None
            outcome = timeout_failure(call, where) if is_late else outcome_from_end(error, row.stop_signal)
        crashpoint("after_work")
        await self.end(row, resolve_stopped(outcome, row.stop_signal, call), deliver)

    def run_in_thread(self, row: HeldRow, call: Call, deliver: Deliver) -> None:
        """Run a plain function in a thread; its time limit counts from here."""
        row.began_at = time.monotonic()
        row.thread_id = threading.get_ident()
        if call.timeout_seconds is not None:
            self.loop.call_soon_threadsafe(self.start_timer, row, call, deliver)
        crashpoint("before_work")
        try:
            outcome = call.function(*call.arguments)
        except BaseException as error:
            outcome = outcome_from_end(error, row.stop_signal)
        row.thread_id = None
        crashpoint("after_work")
        outcome = resolve_stopped(outcome, row.stop_signal, call)
        is_first = row.outcome_latch.try_set()
        if is_first:
            self.call_hook_from_thread(row, outcome)
        self.send_report(row, outcome, deliver, is_first=is_first)

    def start_timer(self, row: HeldRow, call: Call, deliver: Deliver) -> None:
        """Start the time limit of a thread; on the loop, because only that has timers."""
        if not row.has_ended:
            seconds = call.timeout_seconds or 0.0
            row.timer = self.loop.call_later(seconds, self.time_thread_out, row, call, deliver)

    def time_thread_out(self, row: HeldRow, call: Call, deliver: Deliver) -> None:
        """Record that a thread exceeded its time limit, with its stack."""
        frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage] (there is no public function)
        frame = frames.get(row.thread_id) if row.thread_id else None
        self.abandon_thread(row, timeout_failure(call, format_stack(frame)), deliver)

    def abandon_thread(self, row: HeldRow, outcome: object, deliver: Deliver) -> None:
        """Set the outcome of a thread that has not ended; its slot stays occupied until it does."""
        if row.has_ended or row.outcome_latch.is_set:
            return
        row.stop_signal.reason = row.stop_signal.reason or Stop.TIMEOUT
        self.end_soon(row, outcome, deliver, has_ended=False)

    async def run_in_process(self, row: HeldRow, call: Call, deliver: Deliver) -> None:
        """Run a handler in a child process, when one is free."""
        row.has_task_started = True
        try:
            async with self.processes.borrow() as process:
                row.began_at = time.monotonic()
                crashpoint("before_work")
                outcome = await process.perform(call)
        except Unavailable as error:
            log.warning("handler.no_process", consequence="the row is released", error=str(error))
            outcome = Released()
        except BaseException as error:
            outcome = outcome_from_end(error, row.stop_signal)
        crashpoint("after_work")
        await self.end(row, resolve_stopped(outcome, row.stop_signal, call), deliver)

    # Failures ---------------------------------------------------------------------------------------------------------

    def end_soon(self, row: HeldRow, outcome: object, deliver: Deliver, *, has_ended: bool = True) -> None:
        """Run `end` as a task of its own."""
        task = self.loop.create_task(self.end(row, outcome, deliver, has_ended=has_ended))
        self.end_tasks.add(task)
        task.add_done_callback(self.end_tasks.discard)

    async def end(self, row: HeldRow, outcome: object, deliver: Deliver, *, has_ended: bool = True) -> None:
        """Call the hook of a failure, then report the outcome to the control side."""
        is_first = row.outcome_latch.try_set()
        if is_first and (hook := log_and_build_hook(row, outcome)):
            await self.call_hook(row, hook)
        self.send_report(row, outcome, deliver, is_first=is_first, has_ended=has_ended)

    def call_hook_from_thread(self, row: HeldRow, outcome: object) -> None:
        """Log a failed attempt and call its hook, from the thread that the handler ran in."""
        if hook := log_and_build_hook(row, outcome):
            with suppress(RuntimeError, TimeoutError):  # the loop is closed, or a handler blocks it
                asyncio.run_coroutine_threadsafe(self.call_hook(row, hook), self.loop).result(2 * HOOK_SECONDS)

    async def call_hook(self, row: HeldRow, hook: Callable[[], Any]) -> None:
        """Call a hook in a thread, where it may block, and wait for it; its errors are logged and change nothing."""

        def run_hook() -> Any:
            try:
                return hook()
            finally:
                self.running_hooks.discard(row)

        self.running_hooks.add(row)
        try:
            async with asyncio.timeout(HOOK_SECONDS):
                result = await self.loop.run_in_executor(None, run_hook)
                if inspect.isawaitable(result):
                    await result
        except BaseException:  # a cancellation too: the outcome must still be reported
            log.exception("job.failure_hook_failed", job=str(row.lease.key))

    def send_report(
        self,
        row: HeldRow,
        outcome: object,
        deliver: Deliver,
        *,
        is_first: bool | None = None,
        has_ended: bool = True,
    ) -> None:
        """Send a report from any thread; the first one for a run sets its outcome, and one call delivers many."""
        is_first = row.outcome_latch.try_set() if is_first is None else is_first
        had_ended = row.has_ended
        if had_ended and not is_first:
            return
        if has_ended:
            row.has_ended = True
            self.in_progress.discard(row)
        seconds = time.monotonic() - row.began_at if row.began_at is not None else 0.0
        self.reports.append((deliver, RunReport(row, outcome, is_first, has_ended and not had_ended, seconds)))
        if not self.is_delivery_scheduled:
            self.is_delivery_scheduled = True
            self.call_on_control(self.deliver_reports)

    async def close(self) -> None:
        """Close the child processes and abandon the threads; runs that cannot be stopped stay in progress."""
        self.threads.shutdown(wait=False, cancel_futures=True)
        await self.processes.close()


def cancel_all(timers: Sequence[asyncio.TimerHandle]) -> None:
    """Cancel timers, which would keep their rows in memory until they fire."""
    for timer in timers:
        timer.cancel()


def log_and_build_hook(row: HeldRow, outcome: object) -> Callable[[], Any] | None:
    """Log a failed attempt; returns the hook that is to be called for it, if there is one."""
    if not isinstance(outcome, Failed | GiveUp):
        return None
    try:
        row.work.log_failed_attempt(row.lease, outcome)
        return row.work.build_failure_hook(row.lease, outcome)
    except Exception:
        log.exception("handler.failure_log_failed", row_id=str(row.lease.key))
        return None


def outcome_from_end(error: BaseException, stop_signal: StopSignal) -> object:
    """Return the outcome of a handler that ended by an exception: its failure, unless we stopped it.

    A handler that is stopped by a shutdown or a cancel request may raise anything without counting as failed, except
    an outcome of its own.
    """
    is_stopped = stop_signal.reason in (Stop.SHUTDOWN, Stop.CANCELLED) and not isinstance(error, RAISABLE)
    if stop_signal.reason is not None and (is_stopped or isinstance(error, asyncio.CancelledError)):
        return outcome_from_stop(stop_signal.reason)
    return outcome_from_exception(error)


def outcome_from_stop(why: Stop) -> object:
    """Return the outcome of a handler that we stopped; releasing a lost row changes nothing."""
    return Cancelled() if why is Stop.CANCELLED else Released()


def resolve_stopped(outcome: object, stop_signal: StopSignal, call: Call) -> object:
    """Replace `Stopped` by the outcome of the stop that was requested; without a request the handler has failed."""
    if not isinstance(outcome, Stopped):
        return outcome
    if stop_signal.reason is None:
        return Failed("STOPPED", "the handler returned `stopped`, but no stop was requested")
    return timeout_failure(call) if stop_signal.reason is Stop.TIMEOUT else outcome_from_stop(stop_signal.reason)


def timeout_failure(call: Call, where: str | None = None) -> Failed:
    """Return the failure of a handler that exceeded its time limit, with its stack."""
    return Failed("TIMEOUT", f"took longer than {call.timeout_seconds:g} s", traceback=where)
