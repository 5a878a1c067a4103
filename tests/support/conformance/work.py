"""Work over the tables of the conformance tests: the note of a row names the function that handles it.

Every verb is a function of this module, so that a child process can import it. A verb that tests wait for prints a line
when it begins.
"""

import asyncio
import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from duly.db.rows import Connection
from duly.executors.call import Call, executor_for
from duly.lease.operations import Lease
from duly.lease.work import LeaseOutcome, StopSignal, Tuning, Work
from duly.outcomes import Cancelled, Done, Failed, GiveUp
from tests.support.conformance.tables import Shape
from tests.support.processes import print_line

TUNING = Tuning(
    lease_seconds=30.0, heartbeat_seconds=0.2, poll_seconds=0.1, sweep_seconds=0.2, slots=20, batch=100, max_starts=9
)
MEGABYTE = 1024 * 1024
GATE = threading.Event()
AT_THE_GATE = threading.Event()
GATE_SECONDS = 60.0


async def say(lease: Lease, _stop_signal: StopSignal, text: str) -> Done:
    """Return a text at once."""
    return Done(text)


async def burn(lease: Lease, _stop_signal: StopSignal, seconds: str) -> Done:
    """Keep the interpreter busy with pure Python."""
    print_line("burning", lease.key)
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        sum(range(1000))
    return Done("burnt")


async def block(lease: Lease, _stop_signal: StopSignal, seconds: str) -> Done:
    """Block the event loop, as careless code does."""
    print_line("blocking", lease.key)
    threading.Event().wait(float(seconds))  # blocks the loop on purpose
    return Done("blocked")


async def gate(lease: Lease, _stop_signal: StopSignal) -> Done:
    """Block the event loop until the test, in this very process, opens the gate."""
    print_line("at the gate", lease.key)
    AT_THE_GATE.set()
    GATE.wait(GATE_SECONDS)
    return Done("through")


async def wait(lease: Lease, _stop_signal: StopSignal) -> Done:
    """Wait for ever; print when it was stopped."""
    print_line("waiting", lease.key)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        print_line("stopped", lease.key, time.monotonic())
        raise
    return Done()


async def pause(lease: Lease, _stop_signal: StopSignal, seconds: str) -> Done:
    """Wait a while without blocking the loop."""
    print_line("pausing", lease.key)
    with suppress(TimeoutError):
        async with asyncio.timeout(float(seconds)):
            await asyncio.Event().wait()
    return Done("paused")


async def swallow(lease: Lease, _stop_signal: StopSignal) -> Done:
    """Wait for ever and swallow every cancellation."""
    print_line("swallowing", lease.key)
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


async def fall(_lease: Lease, _stop_signal: StopSignal, how: str) -> Done:
    """Raise."""
    match how:
        case "exit":
            sys.exit("FATAL")
        case "interrupt":
            raise KeyboardInterrupt
        case "cancel":
            raise asyncio.CancelledError
        case "mute":
            raise UnprintableError
        case _:
            raise ValueError(how)


class UnprintableError(Exception):
    """An error whose message cannot be read."""

    def __str__(self) -> str:
        raise RuntimeError


async def give_up(_lease: Lease, _stop_signal: StopSignal) -> GiveUp:
    """Give up."""
    return GiveUp("REFUSED", "never")


def threaded(lease: Lease, _stop_signal: StopSignal, text: str) -> Done:
    """Return a text at once, in a thread."""
    return Done(text)


def stubborn(lease: Lease, stop_signal: StopSignal, seconds: str) -> Done:
    """Block a thread and ignore the stop signal."""
    print_line("stubborn", lease.key)
    threading.Event().wait(float(seconds))
    return Done("stubborn")


def watchful(lease: Lease, stop_signal: StopSignal) -> Done:
    """Block a thread until the stop signal is set."""
    print_line("watchful", lease.key)
    while not stop_signal.is_set:
        threading.Event().wait(0.01)
    print_line("saw", lease.key, stop_signal.reason)
    return Done(f"saw {stop_signal.reason}")


def in_child(text: str) -> Done:
    """Return a text at once, in a child process."""
    return Done(f"{text} {os.getpid() == os.getsid(0)}")


class Trap:
    """A result that would end the process that unpickles it without care."""

    def __reduce__(self) -> tuple[Callable[[int], None], tuple[int]]:
        return os._exit, (7,)


def die_in_child(how: str) -> object:
    """Crash, hang or return a bad result, in a child process."""
    match how:
        case "exit":
            os._exit(0)
        case "abort":
            os.abort()
        case "segfault":
            return ctypes.string_at(0)
        case "eat":
            return [bytearray(16 * MEGABYTE) for _ in range(1000)]
        case "loop":
            return all(True for _ in iter(int, 1))
        case "print":
            print_line("child", os.getpid())
            return threading.Event().wait()
        case "unpicklable":
            return lambda: None
        case "trap":
            return Trap()
        case _:
            raise ValueError(how)


IN_CHILD: dict[str, Callable[..., Any]] = {"in_child": in_child, "die_in_child": die_in_child}
IN_WORKER: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (say, burn, block, gate, wait, pause, swallow, fall, give_up, threaded, stubborn, watchful)
}


class ConformanceWork(Work):
    """The work type of a conformance table."""

    def __init__(self, shape: Shape, **tuning: Any) -> None:
        self.shape = shape
        self.name = str(shape)
        self.table = shape.table
        self.tuning = replace(TUNING, **tuning)
        self.notify_channel = f"conformance_{shape}"

    def build_call(self, lease: Lease, stop_signal: StopSignal) -> Call:
        """Call the verb of the note with its arguments; `verb@seconds` sets a time limit."""
        verb, *arguments = lease.row["note"].split()
        verb, _, limit = verb.partition("@")
        seconds = float(limit) if limit else None
        if verb == "nothing":
            return None  # type: ignore[return-value]
        if verb == "nowhere":
            return Call(say, (), executor="nowhere")  # type: ignore[arg-type]
        if verb in IN_CHILD:
            return Call(
                IN_CHILD[verb],
                tuple(arguments),
                executor_for(IN_CHILD[verb], isolate=True),
                timeout_seconds=seconds,
                memory_bytes=256 * MEGABYTE,
            )
        return Call(
            IN_WORKER[verb], (lease, stop_signal, *arguments), executor_for(IN_WORKER[verb]), timeout_seconds=seconds
        )

    async def settle(self, connection: Connection, finished: Sequence[LeaseOutcome]) -> frozenset[Any]:
        """Settle every row into its end state, with the outcome in its note."""
        leases = [lease for lease, _ in finished]
        notes = [format_outcome(outcome) for _, outcome in finished]
        return await self.shape.settle(connection, leases, notes)


def format_outcome(outcome: object) -> str:
    """Format an outcome as a note."""
    match outcome:
        case Done(result):
            return str(result)
        case GiveUp(code, message) | Failed(code, message):
            return f"{code} {message}"
        case Cancelled():
            return "cancelled"
        case _:
            raise TypeError(f"no note for {outcome!r}")
