"""Child processes for handlers that ask for isolation: one row at a time, within limits, and easily killed.

A child is kept warm and used again until it has done its share or went wrong. The parent needs nothing from it but
bytes: a crash, an abort, an endless loop or a greedy allocation in the child is an outcome here and nothing else. What
a child started itself goes with it: each has a session of its own.
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
from duly.tracebacks import MAX_TRACEBACK_BYTES, cut_text, without_our_lines

__all__ = ["Child", "Children"]

MAX_ROWS = 1_000  # then a fresh process takes over, whatever the old one had piled up
START_SECONDS = 30.0
STACK_SECONDS, STACK_TRIES = 0.5, 10  # how long a child that is too late has to say where it is
LOOK_AGAIN_SECONDS = 0.1  # a loop that stood still has not read yet what had come in time

Heard = TypeVar("Heard")


class Child:
    """One child process, as its parent sees it."""

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
        self.last_stack = last_stack  # where the child was, as its fault handler wrote it down
        self.rows = 0
        self.is_well = True

    @classmethod
    async def start(cls) -> Self:
        """A child that waits for its first row; Unavailable when the machine gives us none."""
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
                raise Unavailable(f"no child process can be started: {error}") from None
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
                raise Unavailable("a child process did not start") from None
            raise
        return child

    async def perform(self, call: Call) -> object:
        """What came of the call; a child that overstays or dies is an outcome too."""
        self.rows += 1
        self.is_well = False  # until it has answered
        try:
            request = pickle.dumps((call.function, call.arguments, call.memory_bytes))
        except Exception as error:
            self.is_well = True
            why = f"its arguments cannot be handed to a child process: {error}"
            return Failed("BAD_ARGUMENTS", why, is_unexpected=True)
        to_begin = START_SECONDS if self.rows == 1 else call.timeout_seconds  # the first row brings its imports along
        try:
            await in_time(self.begin(request), to_begin)
            answer = await in_time(self.receive(), call.timeout_seconds)
        except TimeoutError:
            where = await self.ask_where()
            await self.kill()
            return Failed("TIMEOUT", f"took longer than {call.timeout_seconds:g} s", traceback=where)
        except (ConnectionError, asyncio.IncompleteReadError):
            where = self.read_last_stack()
            return Failed("CRASHED", await self.last_words(), traceback=where)
        self.is_well = True
        return read_outcome(answer)

    async def begin(self, request: bytes) -> None:
        """Hand a row over; the child says when it begins."""
        await self.send(request)
        await self.receive()

    async def send(self, message: bytes) -> None:
        """One message, whole."""
        self.writer.write(HEADER.pack(len(message)) + message)
        await self.writer.drain()

    async def receive(self) -> bytes:
        """The next message, whole."""
        (size,) = HEADER.unpack(await self.reader.readexactly(HEADER.size))
        if size > MAX_BYTES:
            raise ConnectionError(f"a child announced {size} bytes")
        return await self.reader.readexactly(size)

    async def ask_where(self) -> str | None:
        """Where the child is at this moment, if it can still say so."""
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
        """What the child's fault handler has written down, if anything; the child writes where it has got to."""
        written = os.pread(self.last_stack.fileno(), MAX_TRACEBACK_BYTES, 0).decode(errors="replace")
        return cut_text(without_our_lines(written)) or None

    async def last_words(self) -> str:
        """How the process ended; what it had started ends now."""
        self.end_group()
        await self.kill()
        status = self.process.returncode or 0
        if status < 0:
            return f"the child process was ended by signal {signal.Signals(-status).name}"
        return f"the child process ended by itself with status {status}, without an answer"

    async def kill(self) -> None:
        """End the process and all it started, at once."""
        self.is_well = False
        if self.process.returncode is None:  # once it is gone, its number may be somebody else's
            self.end_group()
        self.writer.transport.abort()
        await self.process.wait()
        self.last_stack.close()

    def end_group(self) -> None:
        """Kill the process and all it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def is_there(self) -> bool:
        """Does it still wait for a row?"""
        return self.process.returncode is None and not self.reader.at_eof()


async def in_time(work: Coroutine[Any, Any, Heard], seconds: float | None) -> Heard:
    """What a child says; TimeoutError when it says nothing in time, and not when our own loop stood still meanwhile."""
    task = asyncio.create_task(work)
    try:
        for left in (seconds, LOOK_AGAIN_SECONDS):
            if (await asyncio.wait({task}, timeout=left))[0]:
                return task.result()
        raise TimeoutError
    finally:
        task.cancel()


class OutcomeReader(pickle.Unpickler):
    """Reads an answer without running anything in it: plain data, and data classes and enums of ours."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        """Refuse everything that could act."""
        found = super().find_class(module_name, global_name) if module_name.startswith("duly.") else None
        if isinstance(found, type) and (is_dataclass(found) or issubclass(found, Enum)):
            return found
        raise pickle.UnpicklingError(f"an answer may not hold a {module_name}.{global_name}")


def read_outcome(answer: bytes) -> object:
    """What a child answered; an answer that is more than data is a failure of its row."""
    try:
        return OutcomeReader(io.BytesIO(answer)).load()
    except Exception as error:
        return Failed("BAD_RESULT", f"what it returned cannot be read: {error}", is_unexpected=True)


class Children:
    """At most so many children; a row waits until one is free."""

    def __init__(self, limit: int) -> None:
        self.room = asyncio.Semaphore(limit)
        self.idle: list[Child] = []
        self.alive: set[Child] = set()
        self.endings: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def borrow(self) -> AsyncGenerator[Child, None]:
        """A child for one row; one that did not answer, or was interrupted, is not used again."""
        async with self.room:
            child = await self.find_idle() or await Child.start()
            self.alive.add(child)
            try:
                yield child
            finally:
                if child.is_well and child.rows < MAX_ROWS:
                    self.idle.append(child)
                else:
                    await self.end(child)

    async def perform(self, call: Call) -> object:
        """What came of a call, in whichever child is free."""
        async with self.borrow() as child:
            return await child.perform(call)

    async def find_idle(self) -> Child | None:
        """A warm child that is still there; one that went meanwhile is nobody's fault."""
        while self.idle:
            child = self.idle.pop()
            if child.is_there():
                return child
            await self.end(child)
        return None

    async def end(self, child: Child) -> None:
        """Kill a child, even when whoever waits for it is stopped."""
        self.alive.discard(child)
        ending = asyncio.create_task(child.kill())
        self.endings.add(ending)
        ending.add_done_callback(self.endings.discard)
        await asyncio.shield(ending)

    async def close(self) -> None:
        """End every child."""
        await asyncio.gather(*(child.kill() for child in self.alive), *self.endings)
        self.alive.clear()
        self.idle.clear()
