"""Work over the tables of the laws: what a row's note says is what its handler does.

Every verb is a function of this module, so that a child process can import it. A verb that a test waits for says so on
standard output.
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
from duly.executors.call import Call, where_to_run
from duly.lease.operations import Lease, settle_many
from duly.lease.work import Finished, StopSign, Tuning, Work
from duly.outcomes import Cancelled, Done, Failed, GiveUp
from tests.support.conformance.tables import Shape
from tests.support.processes import print_line

__all__ = ["AT_THE_GATE", "GATE", "TUNING", "LawWork"]

TUNING = Tuning(
    lease_seconds=30.0, heartbeat_seconds=0.2, poll_seconds=0.1, sweep_seconds=0.2, slots=20, batch=100, max_starts=9
)
MEGABYTE = 1024 * 1024
GATE = threading.Event()
AT_THE_GATE = threading.Event()
GATE_SECONDS = 60.0


async def say(lease: Lease, _sign: StopSign, word: str) -> Done:
    """End at once, with a word."""
    return Done(word)


async def burn(lease: Lease, _sign: StopSign, seconds: str) -> Done:
    """Keep the interpreter busy with pure Python."""
    print_line("burning", lease.key)
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        sum(range(1000))
    return Done("burnt")


async def block(lease: Lease, _sign: StopSign, seconds: str) -> Done:
    """Block the event loop, as careless code does."""
    print_line("blocking", lease.key)
    threading.Event().wait(float(seconds))  # the very mistake
    return Done("blocked")


async def gate(lease: Lease, _sign: StopSign) -> Done:
    """Block the event loop until the test, in this very process, opens the gate."""
    print_line("at the gate", lease.key)
    AT_THE_GATE.set()
    GATE.wait(GATE_SECONDS)
    return Done("through")


async def wait(lease: Lease, _sign: StopSign) -> Done:
    """Work for ever; say when it was stopped."""
    print_line("waiting", lease.key)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        print_line("stopped", lease.key, time.monotonic())
        raise
    return Done()


async def pause(lease: Lease, _sign: StopSign, seconds: str) -> Done:
    """Take a while, politely."""
    print_line("pausing", lease.key)
    with suppress(TimeoutError):
        async with asyncio.timeout(float(seconds)):
            await asyncio.Event().wait()
    return Done("paused")


async def swallow(lease: Lease, _sign: StopSign) -> Done:
    """Work for ever, whoever asks it to stop."""
    print_line("swallowing", lease.key)
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


async def fall(_lease: Lease, _sign: StopSign, how: str) -> Done:
    """End badly."""
    match how:
        case "exit":
            sys.exit("FATAL")
        case "interrupt":
            raise KeyboardInterrupt
        case "cancel":
            raise asyncio.CancelledError
        case "mute":
            raise Mute
        case _:
            raise ValueError(how)


class Mute(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError


async def give_up(_lease: Lease, _sign: StopSign) -> GiveUp:
    """Say that it will never work."""
    return GiveUp("REFUSED", "never")


def threaded(lease: Lease, _sign: StopSign, word: str) -> Done:
    """End at once, in a thread."""
    return Done(word)


def stubborn(lease: Lease, sign: StopSign, seconds: str) -> Done:
    """A thread that looks at nothing."""
    print_line("stubborn", lease.key)
    threading.Event().wait(float(seconds))
    return Done("stubborn")


def watchful(lease: Lease, sign: StopSign) -> Done:
    """A thread that looks at its stop sign."""
    print_line("watchful", lease.key)
    while not sign.is_up:
        threading.Event().wait(0.01)
    print_line("saw", lease.key, sign.why)
    return Done(f"saw {sign.why}")


def in_child(word: str) -> Done:
    """End at once, in a child process."""
    return Done(f"{word} {os.getpid() == os.getsid(0)}")


class Trap:
    """An answer that would end whoever reads it carelessly."""

    def __reduce__(self) -> tuple[Callable[[int], None], tuple[int]]:
        return os._exit, (7,)


def die_in_child(how: str) -> object:
    """End badly, in a child process."""
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
HERE: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (say, burn, block, gate, wait, pause, swallow, fall, give_up, threaded, stubborn, watchful)
}


class LawWork(Work):
    """A table of the laws as a kind of work."""

    def __init__(self, shape: Shape, **tuning: Any) -> None:
        self.shape = shape
        self.name = str(shape)
        self.table = shape.table
        self.tuning = replace(TUNING, **tuning)
        self.wakes = f"laws_{shape}"

    def call(self, lease: Lease, sign: StopSign) -> Call:
        """The verb of the note, with its words; `verb@seconds` has a time limit."""
        verb, *words = lease.row["note"].split()
        verb, _, limit = verb.partition("@")
        seconds = float(limit) if limit else None
        if verb == "nothing":
            return None  # type: ignore[return-value]
        if verb == "nowhere":
            return Call(say, (), where="nowhere")  # type: ignore[arg-type]
        if verb in IN_CHILD:
            return Call(
                IN_CHILD[verb],
                tuple(words),
                where_to_run(IN_CHILD[verb], isolate=True),
                timeout_seconds=seconds,
                memory_bytes=256 * MEGABYTE,
            )
        return Call(HERE[verb], (lease, sign, *words), where_to_run(HERE[verb]), timeout_seconds=seconds)

    async def settle(self, connection: Connection, finished: Sequence[Finished]) -> frozenset[Any]:
        """Bring every row to its end, with what came of it in the note."""
        leases = [lease for lease, _ in finished]
        notes = [note_of(outcome) for _, outcome in finished]
        return await settle_many(connection, leases, self.shape.end, {"note": ("text", notes)})


def note_of(outcome: object) -> str:
    """An outcome in a word or two."""
    match outcome:
        case Done(result):
            return str(result)
        case GiveUp(code, message) | Failed(code, message):
            return f"{code} {message}"
        case Cancelled():
            return "cancelled"
        case _:
            raise TypeError(f"no note for {outcome!r}")
