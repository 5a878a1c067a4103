"""Where handlers run: an event loop for `async def`, threads for plain functions, child processes for the untrusted.

Batches come over whole from the control thread, and outcomes go back with one call however many there are: it is the
crossing between threads that costs. A handler can be slow, wrong or stuck here without a lease being late.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from duly.errors import Unavailable
from duly.kernel.crashpoint import crashpoint
from duly.kernel.keeper import Held
from duly.kernel.lease import Lease
from duly.kernel.outcome import Cancelled, Failed, HandedBack, failure_of
from duly.kernel.work import Call, Stop, StopSign, Where
from duly.logs import get_log
from duly.worker.children import Children

__all__ = ["Deliver", "Handlers", "News", "Running"]

log = get_log("duly.worker")

CANCEL_GRACE_SECONDS = 5.0  # a thread that was asked to stop has so long to say how it ended


class Running:
    """A claimed row on its way through a handler."""

    __slots__ = ("began_at", "call", "ended", "held", "is_entered", "lease", "make_call", "sign", "task", "told")

    def __init__(self, lease: Lease, make_call: Callable[[Lease, StopSign], Call]) -> None:
        self.lease = lease
        self.make_call = make_call
        self.sign = StopSign()
        self.call: Call | None = None
        self.held: Held | None = None
        self.task: asyncio.Task[None] | Future[None] | None = None
        self.began_at: float | None = None  # our monotonic clock; None while it waits for its turn
        self.is_entered = False  # its task took a first step: cancelling it will be noticed by itself
        self.told = [True]  # popped, in one step whichever thread does it, by whoever names the outcome
        self.ended = False  # the handler no longer runs


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
        self.in_threads: set[Running] = set()
        self.news: deque[tuple[Deliver, News]] = deque()
        self.is_rung = False
        self.ring: Callable[[Callable[[], None]], object] = lambda act: act()

    # From the control thread ------------------------------------------------------------------------------------------

    def attach(self, control: asyncio.AbstractEventLoop) -> None:
        """Outcomes are delivered on this loop from now on."""
        self.ring = control.call_soon_threadsafe

    def start(self, batch: Sequence[Running], deliver: Deliver) -> None:
        """Perform a batch; `deliver` gets the news of it on the control loop."""
        self.loop.call_soon_threadsafe(self.start_here, batch, deliver)

    def stop(self, batch: Sequence[Running], why: Stop, deliver: Deliver) -> None:
        """Put up the stop sign for a batch, and end what can be ended from outside."""
        self.loop.call_soon_threadsafe(self.stop_here, batch, why, deliver)

    def collect(self) -> None:
        """On the control loop: hand over what has come together since the bell rang."""
        self.is_rung = False
        per_kind: dict[Deliver, list[News]] = {}
        while self.news:
            deliver, news = self.news.popleft()
            per_kind.setdefault(deliver, []).append(news)
        for deliver, several in per_kind.items():
            deliver(several)

    # On the handlers' loop --------------------------------------------------------------------------------------------

    def start_here(self, batch: Sequence[Running], deliver: Deliver) -> None:
        """Give each row of a batch to the place its handler runs in."""
        for running in batch:
            try:
                running.call = call = running.make_call(running.lease, running.sign)
            except Exception as error:
                self.tell(running, failure_of(error), deliver)
                continue
            match call.where:
                case Where.LOOP:
                    running.task = self.loop.create_task(self.run_on_loop(running, call, deliver))
                case Where.THREAD:
                    self.in_threads.add(running)
                    running.task = self.threads.submit(self.run_in_thread, running, call, deliver)
                case Where.CHILD:
                    running.task = self.loop.create_task(self.run_in_child(running, call, deliver))

    def stop_here(self, batch: Sequence[Running], why: Stop, deliver: Deliver) -> None:
        """Stop what can be stopped: a task by cancelling it, a child by killing it; a thread only sees the sign."""
        for running in batch:
            if running.ended or running.sign.is_up or running.task is None:
                continue
            running.sign.why = why
            in_thread = isinstance(running.task, Future)
            will_not_begin = running.task.cancel() and (in_thread or not running.is_entered)
            if will_not_begin:
                self.tell(running, outcome_of_stop(why), deliver)
            elif in_thread and why is Stop.CANCELLED:
                self.loop.call_later(CANCEL_GRACE_SECONDS, self.give_up_on, running, Cancelled(), deliver)

    async def run_on_loop(self, running: Running, call: Call, deliver: Deliver) -> None:
        """Perform a row by an `async def` handler."""
        running.is_entered = True
        running.began_at = time.monotonic()
        crashpoint("before_work")
        timer = asyncio.timeout(call.timeout_seconds)
        try:
            async with timer:
                outcome = await call.function(*call.arguments)
        except BaseException as error:
            outcome = took_too_long(call) if timer.expired() else outcome_of_end(error, running.sign)
        crashpoint("after_work")
        self.tell(running, outcome, deliver)

    def run_in_thread(self, running: Running, call: Call, deliver: Deliver) -> None:
        """Perform a row by a plain function; when it takes too long its outcome is told without it."""
        running.began_at = time.monotonic()
        if call.timeout_seconds is not None:
            self.loop.call_soon_threadsafe(self.start_timer, running, call, deliver)
        crashpoint("before_work")
        try:
            outcome = call.function(*call.arguments)
        except BaseException as error:
            outcome = outcome_of_end(error, running.sign)
        crashpoint("after_work")
        self.tell(running, outcome, deliver)

    def start_timer(self, running: Running, call: Call, deliver: Deliver) -> None:
        """Watch a thread's time."""
        assert call.timeout_seconds is not None
        self.loop.call_later(call.timeout_seconds, self.give_up_on, running, took_too_long(call), deliver)

    def give_up_on(self, running: Running, outcome: object, deliver: Deliver) -> None:
        """Name the outcome of a thread that does not come back; its slot stays taken until it does."""
        if running.ended or not running.told:
            return
        running.sign.why = running.sign.why or Stop.TIMEOUT
        self.tell(running, outcome, deliver, ended=False)

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
        self.tell(running, outcome, deliver)

    def tell(self, running: Running, outcome: object, deliver: Deliver, *, ended: bool = True) -> None:
        """Report, from any thread: the first to speak names the outcome; the bell rings once for many."""
        if running.ended:
            return
        running.ended = ended
        if ended:
            self.in_threads.discard(running)
        try:
            is_first = running.told.pop()
        except IndexError:
            is_first = False
        seconds = time.monotonic() - running.began_at if running.began_at is not None else 0.0
        self.news.append((deliver, News(running, outcome, is_first, ended, seconds)))
        if not self.is_rung:
            self.is_rung = True
            self.ring(self.collect)

    async def close(self) -> bool:
        """End the children and leave the threads; False when a thread is still busy, which nobody can stop."""
        self.threads.shutdown(wait=False, cancel_futures=True)
        await self.children.close()
        return not self.in_threads


def outcome_of_end(error: BaseException, sign: StopSign) -> object:
    """What to record when a handler ended by an exception: its failure, unless we stopped it."""
    if sign.why is not None and isinstance(error, asyncio.CancelledError):
        return outcome_of_stop(sign.why)
    return failure_of(error)


def outcome_of_stop(why: Stop) -> object:
    """What to record for a handler that we stopped."""
    return Cancelled() if why is Stop.CANCELLED else HandedBack()


def took_too_long(call: Call) -> Failed:
    """A handler that did not end in its time."""
    return Failed("TIMEOUT", f"took longer than {call.timeout_seconds:g} s")
