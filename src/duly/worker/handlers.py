"""Where handlers run: an event loop for `async def`, threads for plain functions, child processes for the untrusted.

Batches come over whole from the control thread, and outcomes go back with one call however many there are: it is the
crossing between threads that costs. A handler can be slow, wrong or stuck here without a lease being late.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
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

CANCEL_GRACE_SECONDS = 5.0  # a thread that was asked to stop has so long to say how it ended
STALLED_SECONDS = 5.0  # a loop that did not turn for so long begins nothing
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
        "sign",
        "task",
        "timer",
        "told",
    )

    def __init__(self, lease: Lease, make_call: Callable[[Lease, StopSign], Call]) -> None:
        self.lease = lease
        self.make_call = make_call
        self.sign = StopSign()
        self.held: Held | None = None
        self.task: asyncio.Task[None] | Future[None] | None = None
        self.timer: asyncio.TimerHandle | None = None  # of a thread, which cannot watch its own time
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
                self.tell(running, failure_of(error), deliver)

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
            outcome = took_too_long(call) if is_late else outcome_of_end(error, running.sign)
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
        if not running.ended:
            seconds = call.timeout_seconds or 0.0
            running.timer = self.loop.call_later(seconds, self.give_up_on, running, took_too_long(call), deliver)

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
            self.under_way.discard(running)
        try:
            is_first = running.told.pop()
        except IndexError:
            is_first = False
        seconds = time.monotonic() - running.began_at if running.began_at is not None else 0.0
        self.news.append((deliver, News(running, outcome, is_first, ended, seconds)))
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


def outcome_of_end(error: BaseException, sign: StopSign) -> object:
    """What to record when a handler ended by an exception: its failure, unless we stopped it."""
    if sign.why is not None and isinstance(error, asyncio.CancelledError):
        return outcome_of_stop(sign.why)
    return failure_of(error)


def outcome_of_stop(why: Stop) -> object:
    """What to record for a handler that we stopped; handing back what is no longer ours changes nothing."""
    return Cancelled() if why is Stop.CANCELLED else HandedBack()


def took_too_long(call: Call) -> Failed:
    """A handler that did not end in its time."""
    return Failed("TIMEOUT", f"took longer than {call.timeout_seconds:g} s")
