"""The program a child process runs: read a call, say that it begins, perform it within its limits, answer, again.

    python -m duly.executors.child <socket> <file>

Its time begins when what it needs was imported. It knows nothing of databases or leases. It ends when its parent does.
Into the file goes where it was when a fault or its parent, by SIGUSR1, ended it.
"""

import asyncio
import ctypes
import faulthandler
import inspect
import os
import pickle
import resource
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from duly.outcomes import Failed, outcome_of_exception
from duly.tracebacks import traceback_text

__all__ = ["HEADER", "MAX_BYTES", "main"]

HEADER = struct.Struct("!Q")
MAX_BYTES = 64 * 1024 * 1024
PR_SET_PDEATHSIG = 1
LOOK_SECONDS = 1.0


def main() -> None:
    """Serve until the parent closes the line, or until a row left too much behind."""
    parent = os.getppid()
    channel = socket.socket(fileno=int(sys.argv[1]))
    die_with(parent)
    last_stack = int(sys.argv[2])
    faulthandler.enable(last_stack)
    faulthandler.register(signal.SIGUSR1, last_stack)
    path = receive(channel)
    if path is None:
        return
    sys.path[:] = pickle.loads(path)  # noqa: S301 - from our parent
    send(channel, b"")
    room = Room()
    while not room.is_used_up() and (request := receive(channel)) is not None:
        call = read_call(request)
        send(channel, b"")
        send(channel, answer_to(call, room))


class Room:
    """How much memory a row may take: so much more than we had before the first one."""

    def __init__(self) -> None:
        self.at_first = resource.getrlimit(resource.RLIMIT_AS)
        self.base_bytes = address_space_bytes()
        self.more_bytes: int | None = None

    def limit(self, more_bytes: int | None) -> None:
        """Set the soft limit; the hard one stays, so that it can be lifted."""
        self.more_bytes = more_bytes
        if more_bytes is not None:
            _, hard = self.at_first
            limit = self.base_bytes + more_bytes
            resource.setrlimit(
                resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard)
            )

    def lift(self) -> None:
        """Back to what we began with."""
        resource.setrlimit(resource.RLIMIT_AS, self.at_first)

    def is_used_up(self) -> bool:
        """Did what earlier rows left behind take half of what the next one may have?"""
        return self.more_bytes is not None and address_space_bytes() > self.base_bytes + self.more_bytes // 2


def die_with(parent: int) -> None:
    """End when the parent is gone, however it went: by the kernel's hand on Linux, else by looking."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_SECONDS)
        os._exit(1)

    if sys.platform != "linux" or os.getppid() != parent:
        threading.Thread(target=watch, name="parent", daemon=True).start()


def read_call(request: bytes) -> Callable[[Room], object]:
    """The call, with all it needs imported; one that cannot be read fails when it is made."""
    try:
        function, arguments, memory_bytes = pickle.loads(request)  # noqa: S301 - from our parent
    except BaseException as error:
        failure = outcome_of_exception(error)
        return lambda _: failure
    return lambda room: within(room, memory_bytes, function, arguments)


def answer_to(call: Callable[[Room], object], room: Room) -> bytes:
    """Perform one call; what comes back can always be sent."""
    try:
        outcome = call(room)
    except MemoryError as error:
        where = traceback_text(error)
        outcome = Failed("CRASHED", "out of memory: it needs more than its limit", traceback=where)
    except BaseException as error:
        outcome = outcome_of_exception(error)
    try:
        answer = pickle.dumps(outcome)
    except Exception as error:
        answer = bad_result(f"what it returned cannot leave the child process: {error}")
    if len(answer) > MAX_BYTES:
        answer = bad_result(f"what it returned has {len(answer)} bytes; at most {MAX_BYTES} leave a child process")
    return answer


def bad_result(why: str) -> bytes:
    """The answer for a result that cannot be given."""
    return pickle.dumps(Failed("BAD_RESULT", why, is_unexpected=True))


def within(room: Room, memory_bytes: int | None, function: Callable[..., Any], arguments: tuple[Any, ...]) -> object:
    """Call the function with a limit on memory."""
    room.limit(memory_bytes)
    try:
        if inspect.iscoroutinefunction(function):
            return asyncio.run(function(*arguments))
        return function(*arguments)
    finally:
        room.lift()


def address_space_bytes() -> int:
    """How much address space we use now; nothing where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return 0
    return pages * resource.getpagesize()


def receive(channel: socket.socket) -> bytes | None:
    """The next message, or None at the end."""
    header = receive_exactly(channel, HEADER.size)
    return receive_exactly(channel, HEADER.unpack(header)[0]) if header is not None else None


def receive_exactly(channel: socket.socket, size: int) -> bytes | None:
    """So many bytes, or None when the line ends before."""
    parts = bytearray()
    while len(parts) < size:
        part = channel.recv(min(size - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)


def send(channel: socket.socket, message: bytes) -> None:
    """One message, whole."""
    channel.sendall(HEADER.pack(len(message)) + message)


if __name__ == "__main__":
    main()
