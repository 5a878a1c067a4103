"""Where handlers run: an event loop for `async def`, threads for plain functions, child processes for the untrusted.

Batches come over whole from the control thread, and outcomes go back with one call however many there are: it is the
crossing between threads that costs. A handler can be slow, wrong or stuck here without a lease being late.
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
from typing import Any, NamedTuple

from duly.crashpoint import crashpoint
from duly.errors import Unavailable
from duly.executors.call import Call, Where
from duly.executors.process_pool import Children
from duly.lease.heartbeat import Held
from duly.lease.operations import Lease
from duly.lease.work import ReportFailure, Stop, StopSign
from duly.logging import get_log
from duly.outcomes import RAISABLE, Cancelled, Failed, GiveUp, HandedBack, Stopped, outcome_of_exception
from duly.tracebacks import stack_text, traceback_text

__all__ = ["Deliver", "Handlers", "News", "Running"]

CANCEL_GRACE_SECONDS = 5.0  # a thread that was asked to stop has so long to say how it ended
STALLED_SECONDS = 5.0  # a loop that did not turn for so long begins nothing
REPORT_SECONDS = 10.0  # a hook that is told of a failure is waited for so long
NO_TIMER = nullcontext()  # costs a tenth of a timer that is never set
STRONGER = {Stop.CANCELLED: 0, Stop.TIMEOUT: 1, Stop.SHUTDOWN: 2, Stop.LOST: 3}

log = get_log("duly.worker")


class Running:
    """A claimed row on its way through a handler."""

    __slots__ = (
        "began_at",
        "ended",
        "held",
        "is_entered",
        "is_known_lost",
        "lease",
        "make_call",
        "report",
        "sign",
        "task",
        "thread_id",
        "timer",
        "told",
    )

    def __init__(
        self,
        lease: Lease,
        make_call: Callable[[Lease, StopSign], Call],
        report: ReportFailure | None = None,
    ) -> None:
        self.lease = lease
        self.make_call = make_call
        self.report = report  # called with a failure, before it is recorded
        self.sign = StopSign()
        self.held: Held | None = None
        self.task: asyncio.Task[None] | Future[None] | None = None
        self.timer: asyncio.TimerHandle | None = None  # of a thread, which cannot watch its own time
        self.thread_id: int | None = None  # of the thread that it runs in, if it does
        self.began_at: float | None = None  # our monotonic clock; None while it waits for its turn
        self.is_entered = False  # its task took a first step: cancelling it will be noticed by itself
        self.told = [True]  # popped, in one step whichever thread does it, by whoever names the outcome
        self.ended = False  # the handler no longer runs
        self.is_known_lost = False  # the control side has said so


class News(NamedTuple):
    """What the handlers' side tells the control side: an outcome, and whether the slot is free again."""

    running: Running
    outcome: object
    has_outcome: bool
    is_free: bool
    seconds: float


Deliver = Callable[[Sequence[News]], None]


class Handlers:
    """Runs handlers for one worker; lives on the loop that `async def` handlers run on."""

    def __init__(self, threads: int, children: Children) -> None:
        self.loop = asyncio.get_running_loop()
        self.threads = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="duly-handler")
        self.children = children
        self.under_way: set[Running] = set()  # everything that began, or waits to
        self.endings: set[asyncio.Task[None]] = set()  # outcomes that are being reported
        self.news: deque[tuple[Deliver, News]] = deque()
        self.is_rung = False
        self.ring: Callable[[Callable[[], None]], object] = lambda act: act()
        self.turned_at = time.monotonic()

    # From the control thread ------------------------------------------------------------------------------------------

    def attach(self, control: asyncio.AbstractEventLoop) -> None:
        """Outcomes are delivered on this loop from now on."""
        self.ring = control.call_soon_threadsafe

    def start(self, batch: Sequence[Running], deliver: Deliver) -> None:
        """Perform a batch; `deliver` gets the news of it on the control loop."""
        self.loop.call_soon_threadsafe(self.start_here, batch, deliver)

    def stop(self, batch: Sequence[Running], why: Stop, deliver: Deliver, *, only_waiting: bool = False) -> None:
        """Put up the stop sign for a batch, or for what of it has not begun, and end what can be ended from outside."""
        self.loop.call_soon_threadsafe(self.stop_here, batch, why, deliver, only_waiting)

    def collect(self) -> None:
        """On the control loop: hand over what has come together since the bell rang."""
        self.is_rung = False
        per_kind: dict[Deliver, list[News]] = {}
        timers: list[asyncio.TimerHandle] = []
        while self.news:
            deliver, news = self.news.popleft()
            per_kind.setdefault(deliver, []).append(news)
            if news.is_free and news.running.timer:
                timers.append(news.running.timer)
        for deliver, several in per_kind.items():
            deliver(several)
        if timers:
            self.loop.call_soon_threadsafe(cancel_all, timers)

    def ask_for_a_turn(self) -> None:
        """Have the handlers' loop note that it goes round."""
        self.loop.call_soon_threadsafe(self.note_turn)

    def is_turning(self, seconds: float = STALLED_SECONDS) -> bool:
        """Did the handlers' loop go round lately? A handler that blocks it stops every other `async def` too."""
        return time.monotonic() - self.turned_at < seconds

    # On the handlers' loop --------------------------------------------------------------------------------------------

    def note_turn(self) -> None:
        """We go round."""
        self.turned_at = time.monotonic()

    def start_here(self, batch: Sequence[Running], deliver: Deliver) -> None:
        """Give each row of a batch to the place its handler runs in; what cannot be begun has failed, and it alone."""
        for running in batch:
            self.under_way.add(running)
            try:
                self.place(running, running.make_call(running.lease, running.sign), deliver)
            except BaseException as error:
                self.end_soon(running, outcome_of_exception(error), deliver)

    def place(self, running: Running, call: Call, deliver: Deliver) -> None:
        """Start the handler where it belongs."""
        match call.where:
            case Where.LOOP:
                running.task = self.loop.create_task(self.run_on_loop(running, call, deliver))
            case Where.CHILD:
                running.task = self.loop.create_task(self.run_in_child(running, call, deliver))
            case Where.THREAD:
                try:
                    running.task = self.threads.submit(self.run_in_thread, running, call, deliver)
                except RuntimeError as error:
                    log.warning("handed back for want of a thread", error=str(error))
                    self.tell(running, HandedBack(), deliver)
            case _:
                raise TypeError(f"there is no place called {call.where!r}")

    def stop_here(self, batch: Sequence[Running], why: Stop, deliver: Deliver, only_waiting: bool) -> None:
        """Stop what can be stopped: a task by cancelling it, a child by killing it; a thread only sees the sign."""
        for running in batch:
            told = running.sign.why
            if running.ended or running.task is None or (told is not None and STRONGER[told] >= STRONGER[why]):
                continue
            if only_waiting and running.began_at is not None:
                continue
            in_thread = isinstance(running.task, Future)
            is_cancelled = running.task.cancel()
            if only_waiting and not is_cancelled:
                continue  # it began this instant
            running.sign.why = why
            if is_cancelled and (in_thread or not running.is_entered):
                self.tell(running, outcome_of_stop(why), deliver)  # it will never begin
            elif in_thread and why is Stop.CANCELLED:
                self.loop.call_later(CANCEL_GRACE_SECONDS, self.give_up_on, running, Cancelled(), deliver)

    async def run_on_loop(self, running: Running, call: Call, deliver: Deliver) -> None:
        """Perform a row by an `async def` handler."""
        running.is_entered = True
        running.began_at = time.monotonic()
        crashpoint("before_work")
        timer = NO_TIMER if call.timeout_seconds is None else asyncio.timeout(call.timeout_seconds)
        try:
            async with timer:
                outcome = await call.function(*call.arguments)
        except BaseException as error:
            is_late = isinstance(timer, asyncio.Timeout) and timer.expired()
            where = traceback_text(error.__cause__ or error) if is_late else None
            outcome = took_too_long(call, where) if is_late else outcome_of_end(error, running.sign)
        crashpoint("after_work")
        await self.end(running, resolved(outcome, running.sign, call), deliver)

    def run_in_thread(self, running: Running, call: Call, deliver: Deliver) -> None:
        """Perform a row by a plain function; its time begins when it has a thread."""
        running.began_at = time.monotonic()
        running.thread_id = threading.get_ident()
        if call.timeout_seconds is not None:
            self.loop.call_soon_threadsafe(self.start_timer, running, call, deliver)
        crashpoint("before_work")
        try:
            outcome = call.function(*call.arguments)
        except BaseException as error:
            outcome = outcome_of_end(error, running.sign)
        running.thread_id = None
        crashpoint("after_work")
        outcome = resolved(outcome, running.sign, call)
        is_first = may_name_outcome(running)
        if is_first:
            self.report_in_thread(running, outcome)
        self.tell(running, outcome, deliver, is_first=is_first)

    def start_timer(self, running: Running, call: Call, deliver: Deliver) -> None:
        """Watch a thread's time."""
        if not running.ended:
            seconds = call.timeout_seconds or 0.0
            running.timer = self.loop.call_later(seconds, self.end_thread_late, running, call, deliver)

    def end_thread_late(self, running: Running, call: Call, deliver: Deliver) -> None:
        """A thread took too long: say so, and where it is."""
        frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage] (there is no other way to ask)
        frame = frames.get(running.thread_id) if running.thread_id else None
        self.give_up_on(running, took_too_long(call, stack_text(frame)), deliver)

    def give_up_on(self, running: Running, outcome: object, deliver: Deliver) -> None:
        """Name the outcome of a thread that does not come back; its slot stays taken until it does."""
        if running.ended or not running.told:
            return
        running.sign.why = running.sign.why or Stop.TIMEOUT
        self.end_soon(running, outcome, deliver, has_ended=False)

    async def run_in_child(self, running: Running, call: Call, deliver: Deliver) -> None:
        """Perform a row in a child process, when one is free."""
        running.is_entered = True
        try:
            async with self.children.borrow() as child:
                running.began_at = time.monotonic()
                crashpoint("before_work")
                outcome = await child.perform(call)
        except Unavailable as error:
            log.warning("handed back for want of a child process", error=str(error))
            outcome = HandedBack()
        except BaseException as error:
            outcome = outcome_of_end(error, running.sign)
        crashpoint("after_work")
        await self.end(running, resolved(outcome, running.sign, call), deliver)

    # Failures ---------------------------------------------------------------------------------------------------------

    def end_soon(self, running: Running, outcome: object, deliver: Deliver, *, has_ended: bool = True) -> None:
        """`end`, as a task of its own."""
        task = self.loop.create_task(self.end(running, outcome, deliver, has_ended=has_ended))
        self.endings.add(task)
        task.add_done_callback(self.endings.discard)

    async def end(self, running: Running, outcome: object, deliver: Deliver, *, has_ended: bool = True) -> None:
        """Report a failure to whom it concerns, then the outcome to the control side."""
        is_first = may_name_outcome(running)
        if is_first and (hook := report_of(running, outcome)):
            await self.call_hook(running, hook)
        self.tell(running, outcome, deliver, is_first=is_first, ended=has_ended)

    def report_in_thread(self, running: Running, outcome: object) -> None:
        """Report a failure, from the thread that the handler ran in."""
        if hook := report_of(running, outcome):
            with suppress(RuntimeError, TimeoutError):  # the loop is gone, or does not turn: so is the worker, or soon
                asyncio.run_coroutine_threadsafe(self.call_hook(running, hook), self.loop).result(2 * REPORT_SECONDS)

    async def call_hook(self, running: Running, hook: Callable[[], Any]) -> None:
        """Call a hook, in a thread where it may block, and wait for it; whatever comes of that changes nothing."""
        try:
            async with asyncio.timeout(REPORT_SECONDS):
                told = await self.loop.run_in_executor(None, hook)
                if inspect.isawaitable(told):
                    await told
        except BaseException:
            log.exception("the on_failure hook failed", job=str(running.lease.key))

    def tell(
        self, running: Running, outcome: object, deliver: Deliver, *, is_first: bool | None = None, ended: bool = True
    ) -> None:
        """Report, from any thread: the first to speak names the outcome; the bell rings once for many."""
        is_first = may_name_outcome(running) if is_first is None else is_first
        had_ended = running.ended
        if had_ended and not is_first:
            return
        running.ended = had_ended or ended
        if ended:
            self.under_way.discard(running)
        seconds = time.monotonic() - running.began_at if running.began_at is not None else 0.0
        self.news.append((deliver, News(running, outcome, is_first, ended and not had_ended, seconds)))
        if not self.is_rung:
            self.is_rung = True
            self.ring(self.collect)

    async def close(self) -> None:
        """End the children and leave the threads; what nobody can stop is still under way."""
        self.threads.shutdown(wait=False, cancel_futures=True)
        await self.children.close()


def cancel_all(timers: Sequence[asyncio.TimerHandle]) -> None:
    """These need no longer be watched; until then each would keep its row in memory."""
    for timer in timers:
        timer.cancel()


def may_name_outcome(running: Running) -> bool:
    """Is the outcome still to be named? Asked by several threads, one of them hears yes."""
    try:
        return running.told.pop()
    except IndexError:
        return False


def report_of(running: Running, outcome: object) -> Callable[[], Any] | None:
    """Report a failure; returns the hook that is to be called for it, if there is one."""
    if running.report is None or not isinstance(outcome, Failed | GiveUp):
        return None
    try:
        return running.report(running.lease, outcome)
    except Exception:
        log.exception("a failure could not be reported", key=str(running.lease.key))
        return None


def outcome_of_end(error: BaseException, sign: StopSign) -> object:
    """What to record when a handler ended by an exception: its failure, unless we stopped it.

    A shutdown counts against no row, whatever a handler that is asked to stop raises; only its own word does.
    """
    is_asked = sign.why in (Stop.SHUTDOWN, Stop.CANCELLED) and not isinstance(error, RAISABLE)
    if sign.why is not None and (is_asked or isinstance(error, asyncio.CancelledError)):
        return outcome_of_stop(sign.why)
    return outcome_of_exception(error)


def outcome_of_stop(why: Stop) -> object:
    """What to record for a handler that we stopped; handing back what is no longer ours changes nothing."""
    return Cancelled() if why is Stop.CANCELLED else HandedBack()


def resolved(outcome: object, sign: StopSign, call: Call) -> object:
    """What a handler's `Stopped` means: what it was asked to stop for; when nobody asked, it has failed."""
    if not isinstance(outcome, Stopped):
        return outcome
    if sign.why is None:
        return Failed("STOPPED", "the handler said that it was stopped, but nobody had asked it to stop")
    return took_too_long(call) if sign.why is Stop.TIMEOUT else outcome_of_stop(sign.why)


def took_too_long(call: Call, where: str | None = None) -> Failed:
    """A handler that did not end in its time, and where it was."""
    return Failed("TIMEOUT", f"took longer than {call.timeout_seconds:g} s", traceback=where)
