"""A pool of child processes for isolated functions: one call at a time, within limits, and killed when it must be.

A child process is reused until it has run its share of calls or one of them crashed or was interrupted. The parent
only reads bytes from it: a crash, an endless loop or a huge allocation in the child is just an outcome here.
What a child starts is killed with it: each has a session of its own.
"""

import asyncio
import io
import os
import pickle
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import is_dataclass
from enum import Enum
from typing import IO, Any, Self, TypeVar

from duly.errors import Unavailable
from duly.executors.call import Call
from duly.executors.child import HEADER, MAX_BYTES
from duly.outcomes import Failed
from duly.tracebacks import MAX_TRACEBACK_BYTES, strip_own_lines, truncate_text

MAX_CALLS = 1_000  # then a fresh process replaces it, whatever it has leaked
START_SECONDS = 30.0
STACK_SECONDS, STACK_TRIES = 0.5, 10  # how long a child past its time limit has to write its stack
GRACE_SECONDS = 0.1  # for an answer that came in time, but that a blocked loop has not read yet

T = TypeVar("T")


class ChildProcess:
    """One child process."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        last_stack: IO[bytes],
    ) -> None:
        self.process = process
        self.reader = reader
        self.writer = writer
        self.last_stack = last_stack  # the file that its fault handler writes its stack into
        self.calls = 0
        self.is_reusable = True

    @classmethod
    async def start(cls) -> Self:
        """Start a child process; raises Unavailable when the system cannot."""
        last_stack = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the child)
        ours, theirs = socket.socketpair()
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                "duly.executors.child",
                str(theirs.fileno()),
                str(last_stack.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=sys.stderr,  # standard output is the worker's own
                pass_fds=[theirs.fileno(), last_stack.fileno()],
                start_new_session=True,
            )
        except BaseException as error:
            ours.close()
            last_stack.close()
            if isinstance(error, OSError):
                raise Unavailable(f"cannot start a child process: {error}") from None
            raise
        finally:
            theirs.close()
        reader, writer = await asyncio.open_connection(sock=ours)
        child = cls(process, reader, writer, last_stack)
        try:
            async with asyncio.timeout(START_SECONDS):
                await child.send(pickle.dumps(sys.path))
                await child.receive()
        except BaseException as error:
            await child.kill()
            if isinstance(error, TimeoutError | ConnectionError | asyncio.IncompleteReadError):
                raise Unavailable(f"a child process did not start within {START_SECONDS:g} s") from None
            raise
        return child

    async def perform(self, call: Call) -> object:
        """Run a call and return its outcome; a timeout and a crash are outcomes too."""
        self.calls += 1
        self.is_reusable = False  # until it has answered
        try:
            request = pickle.dumps((call.function, call.arguments, call.memory_bytes))
        except Exception as error:
            self.is_reusable = True
            why = f"the arguments cannot be pickled for a child process: {error}"
            return Failed("BAD_ARGUMENTS", why, is_unexpected=True)
        begin_seconds = START_SECONDS if self.calls == 1 else call.timeout_seconds  # the first call imports its modules
        try:
            await in_time(self.begin(request), begin_seconds)
            answer = await in_time(self.receive(), call.timeout_seconds)
        except TimeoutError:
            where = await self.request_stack()
            await self.kill()
            return Failed("TIMEOUT", f"took longer than {call.timeout_seconds:g} s", traceback=where)
        except (ConnectionError, asyncio.IncompleteReadError):
            where = self.read_last_stack()
            return Failed("CRASHED", await self.explain_exit(), traceback=where)
        self.is_reusable = True
        return read_outcome(answer)

    async def begin(self, request: bytes) -> None:
        """Send a call and wait until the child acknowledges that it begins."""
        await self.send(request)
        await self.receive()

    async def send(self, message: bytes) -> None:
        """Send one message."""
        self.writer.write(HEADER.pack(len(message)) + message)
        await self.writer.drain()

    async def receive(self) -> bytes:
        """Return the next message."""
        (size,) = HEADER.unpack(await self.reader.readexactly(HEADER.size))
        if size > MAX_BYTES:
            raise ConnectionError(f"a child process announced {size} bytes; the limit is {MAX_BYTES}")
        return await self.reader.readexactly(size)

    async def request_stack(self) -> str | None:
        """Return the child's current stack, if it can still write it."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGUSR1)
        found: str | None = None
        for _ in range(STACK_TRIES):
            await asyncio.sleep(STACK_SECONDS / STACK_TRIES)
            earlier, found = found, self.read_last_stack()
            if found and found == earlier:  # it has written all of it
                break
        return found

    def read_last_stack(self) -> str | None:
        """Return the stack that the child's fault handler has written, if any."""
        written = os.pread(self.last_stack.fileno(), MAX_TRACEBACK_BYTES, 0).decode(errors="replace")
        return truncate_text(strip_own_lines(written)) or None

    async def explain_exit(self) -> str:
        """Explain how the process ended, and kill what it had started."""
        self.kill_group()
        await self.kill()
        status = self.process.returncode or 0
        if status < 0:
            return f"the child process was killed by signal {signal.Signals(-status).name}"
        return f"the child process exited with status {status} before it answered"

    async def kill(self) -> None:
        """Kill the process and all it started."""
        self.is_reusable = False
        if self.process.returncode is None:  # once it has exited, its process id may be reused
            self.kill_group()
        self.writer.transport.abort()
        await self.process.wait()
        self.last_stack.close()

    def kill_group(self) -> None:
        """Kill the process group."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def is_running(self) -> bool:
        """Return whether it still waits for a call."""
        return self.process.returncode is None and not self.reader.at_eof()


async def in_time(work: Coroutine[Any, Any, T], seconds: float | None) -> T:
    """Wait for a child's answer; raises TimeoutError, but not when only our own loop was blocked meanwhile."""
    task = asyncio.create_task(work)
    try:
        for left in (seconds, GRACE_SECONDS):
            if (await asyncio.wait({task}, timeout=left))[0]:
                return task.result()
        raise TimeoutError
    finally:
        task.cancel()


class OutcomeReader(pickle.Unpickler):
    """Unpickles an answer without running code in it: plain data, and our own data classes and enums."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        """Refuse everything that could run code."""
        found = super().find_class(module_name, global_name) if module_name.startswith("duly.") else None
        if isinstance(found, type) and (is_dataclass(found) or issubclass(found, Enum)):
            return found
        raise pickle.UnpicklingError(f"a result must not contain a {module_name}.{global_name}")


def read_outcome(answer: bytes) -> object:
    """Unpickle the outcome of a call; an answer that is not plain data is a failure."""
    try:
        return OutcomeReader(io.BytesIO(answer)).load()
    except Exception as error:
        return Failed("BAD_RESULT", f"the result cannot be unpickled: {error}", is_unexpected=True)


class ProcessPool:
    """At most `limit` child processes; a call waits until one is free."""

    def __init__(self, limit: int) -> None:
        self.slots = asyncio.Semaphore(limit)
        self.idle: list[ChildProcess] = []
        self.alive: set[ChildProcess] = set()
        self.endings: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def borrow(self) -> AsyncGenerator[ChildProcess, None]:
        """Borrow a child process for one call; one that did not answer, or was interrupted, is not reused."""
        async with self.slots:
            child = await self.find_idle() or await ChildProcess.start()
            self.alive.add(child)
            try:
                yield child
            finally:
                if child.is_reusable and child.calls < MAX_CALLS:
                    self.idle.append(child)
                else:
                    await self.end(child)

    async def perform(self, call: Call) -> object:
        """Run a call in the next free child process and return its outcome."""
        async with self.borrow() as child:
            return await child.perform(call)

    async def find_idle(self) -> ChildProcess | None:
        """Return an idle child process that still runs, or None; one that exited meanwhile is no crash."""
        while self.idle:
            child = self.idle.pop()
            if child.is_running():
                return child
            await self.end(child)
        return None

    async def end(self, child: ChildProcess) -> None:
        """Kill a child process, even when the caller is cancelled."""
        self.alive.discard(child)
        ending = asyncio.create_task(child.kill())
        self.endings.add(ending)
        ending.add_done_callback(self.endings.discard)
        await asyncio.shield(ending)

    async def close(self) -> None:
        """Kill every child process."""
        await asyncio.gather(*(child.kill() for child in self.alive), *self.endings)
        self.alive.clear()
        self.idle.clear()
