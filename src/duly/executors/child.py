"""The program of a child process: reads calls, runs each within its limits and sends back its outcome.

    python -m duly.executors.child <socket> <file>

Before it runs a call it acknowledges it; the time limit counts from there, so imports do not count. It uses neither
database nor leases, and exits with its parent. A crash, or SIGUSR1 from the parent, writes its stack into the file.
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

from duly.outcomes import Failed, outcome_from_exception
from duly.tracebacks import format_traceback

HEADER = struct.Struct("!Q")
MAX_BYTES = 64 * 1024 * 1024
PR_SET_PDEATHSIG = 1
PARENT_POLL_SECONDS = 1.0


def main() -> None:
    """Run calls until the parent closes the socket, or until earlier calls have leaked too much memory."""
    parent = os.getppid()
    channel = socket.socket(fileno=int(sys.argv[1]))
    exit_when_orphaned(parent)
    last_stack = int(sys.argv[2])
    faulthandler.enable(last_stack)
    faulthandler.register(signal.SIGUSR1, last_stack)
    path = receive(channel)
    if path is None:
        return
    sys.path[:] = pickle.loads(path)  # noqa: S301 - from our parent
    send(channel, b"")
    memory = MemoryLimit()
    while not memory.is_exhausted() and (request := receive(channel)) is not None:
        call = read_call(request)
        send(channel, b"")
        send(channel, run_call(call, memory))


class MemoryLimit:
    """Limits the memory of a call, relative to the memory in use before the first one."""

    def __init__(self) -> None:
        self.initial_limits = resource.getrlimit(resource.RLIMIT_AS)
        self.base_bytes = address_space_bytes()
        self.extra_bytes: int | None = None

    def limit(self, extra_bytes: int | None) -> None:
        """Set the soft limit; the hard one stays, so that the soft one can be lifted again."""
        self.extra_bytes = extra_bytes
        if extra_bytes is not None:
            _, hard = self.initial_limits
            limit = self.base_bytes + extra_bytes
            resource.setrlimit(
                resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard)
            )

    def lift(self) -> None:
        """Restore the initial limit."""
        resource.setrlimit(resource.RLIMIT_AS, self.initial_limits)

    def is_exhausted(self) -> bool:
        """Return whether earlier calls leaked more than half of what the next one may use."""
        return self.extra_bytes is not None and address_space_bytes() > self.base_bytes + self.extra_bytes // 2


def exit_when_orphaned(parent: int) -> None:
    """Exit when the parent is gone, however it ended: by the kernel on Linux, else by polling."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_POLL_SECONDS)
        os._exit(1)

    if sys.platform != "linux" or os.getppid() != parent:
        threading.Thread(target=watch, name="parent", daemon=True).start()


def read_call(request: bytes) -> Callable[[MemoryLimit], object]:
    """Unpickle a call, which imports what it needs; one that cannot be unpickled fails when it is run."""
    try:
        function, arguments, memory_bytes = pickle.loads(request)  # noqa: S301 - from our parent
    except BaseException as error:
        failure = outcome_from_exception(error)
        return lambda _: failure
    return lambda memory: run_limited(memory, memory_bytes, function, arguments)


def run_call(call: Callable[[MemoryLimit], object], memory: MemoryLimit) -> bytes:
    """Run one call and return its pickled outcome, which can always be sent."""
    try:
        outcome = call(memory)
    except MemoryError as error:
        where = format_traceback(error)
        outcome = Failed("CRASHED", "out of memory: the handler exceeded its memory limit", traceback=where)
    except BaseException as error:
        outcome = outcome_from_exception(error)
    try:
        answer = pickle.dumps(outcome)
    except Exception as error:
        answer = bad_result(f"the result cannot be pickled: {error}")
    if len(answer) > MAX_BYTES:
        answer = bad_result(f"the result has {len(answer)} bytes; the limit for a child process is {MAX_BYTES}")
    return answer


def bad_result(why: str) -> bytes:
    """Return the pickled failure for a result that cannot be sent."""
    return pickle.dumps(Failed("BAD_RESULT", why, is_unexpected=True))


def run_limited(
    memory: MemoryLimit, memory_bytes: int | None, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> object:
    """Call the function with a limit on memory."""
    memory.limit(memory_bytes)
    try:
        if inspect.iscoroutinefunction(function):
            return asyncio.run(function(*arguments))
        return function(*arguments)
    finally:
        memory.lift()


def address_space_bytes() -> int:
    """Return how much address space is in use; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return 0
    return pages * resource.getpagesize()


def receive(channel: socket.socket) -> bytes | None:
    """Return the next message, or None at the end."""
    header = receive_exactly(channel, HEADER.size)
    return receive_exactly(channel, HEADER.unpack(header)[0]) if header is not None else None


def receive_exactly(channel: socket.socket, size: int) -> bytes | None:
    """Return exactly `size` bytes, or None when the socket is closed before."""
    parts = bytearray()
    while len(parts) < size:
        part = channel.recv(min(size - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)


def send(channel: socket.socket, message: bytes) -> None:
    """Send one message."""
    channel.sendall(HEADER.pack(len(message)) + message)


if __name__ == "__main__":
    main()
