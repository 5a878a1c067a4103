"""Real processes in tests: started, read from, killed and waited for, always on an event and never on a sleep."""

import asyncio
import fcntl
import os
import re
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

PYTHON = (sys.executable, "-P")
SECONDS = 60.0


def plain_environment(**more: str) -> dict[str, str]:
    """Our environment without anything that points at a database or at a home directory."""
    unwanted = ("DULY_", "PG", "DATABASE_", "POSTGRES_", "TEST_DATABASE_", "PYTEST_", "COV_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    return {**kept, **more}


class Program:
    """A running program whose lines a test waits for; killed with its whole group when the test is over."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        self.process = self.start(
            [str(argument) for argument in command], environment or plain_environment(), directory
        )
        self.errors: list[str] = []
        self.error_arrived = threading.Condition()
        self.reader = threading.Thread(target=self._collect_errors, daemon=True)
        self.reader.start()

    def start(self, command: Sequence[str], environment: Mapping[str, str], directory: Path | None) -> Any:
        """Its process: `Popen`, or what looks like one."""
        return subprocess.Popen(
            command,
            env=dict(environment),
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def _collect_errors(self) -> None:
        for line in self._stream(self.process.stderr):
            with self.error_arrived:
                self.errors.append(line)
                self.error_arrived.notify_all()

    @staticmethod
    def _stream(stream: IO[str] | None) -> IO[str]:
        assert stream is not None
        return stream

    @property
    def pid(self) -> int:
        return self.process.pid

    def line(self) -> str:
        """The next line on its standard output; fails with its standard error if it ends instead."""
        line = self._stream(self.process.stdout).readline()
        assert line, f"ended with {self.process.wait(SECONDS)} after:\n{self.stderr_text()}"
        return line.rstrip("\n")

    def wait_for_error(self, pattern: str) -> re.Match[str]:
        """Wait until the pattern stands on its standard error."""

        def search() -> re.Match[str] | None:
            return re.search(pattern, "".join(self.errors), re.MULTILINE)

        with self.error_arrived:
            found = self.error_arrived.wait_for(search, SECONDS)
        assert found, f"{pattern!r} never came, but:\n{self.stderr_text()}"
        return found

    def stderr_text(self) -> str:
        """Its standard error so far, complete once it ended."""
        if self.process.poll() is not None:
            self.reader.join(SECONDS)
        return "".join(self.errors)

    def write_line(self, line: str) -> None:
        """Write a line to its input."""
        stream = self._stream(self.process.stdin)
        stream.write(line + "\n")
        stream.flush()

    def finish(self, number: int | None = None) -> int:
        """Close its input, send it a signal if asked, and wait for its exit status."""
        if number is not None:
            self.process.send_signal(number)
        self._stream(self.process.stdin).close()
        return self.process.wait(SECONDS)

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self.process.kill()
        self.process.wait(SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(SECONDS)
        self.reader.join(SECONDS)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream and not stream.closed:
                stream.close()


def wait_until_ended(pid: int, seconds: float = SECONDS) -> None:
    """Wait until a process that is not our child has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ready, _, _ = select.select([descriptor], [], [], seconds)
        assert ready, f"process {pid} still runs after {seconds} s"
    finally:
        os.close(descriptor)


def has_ended(pid: int) -> bool:
    """Has the process ended?"""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def wait_unlocked(path: Path, seconds: float = SECONDS) -> None:
    """Wait until the lock on a file is free."""
    done = threading.Event()

    def wait() -> None:
        with path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            done.set()

    threading.Thread(target=wait, daemon=True).start()
    assert done.wait(seconds), f"{path} is still held after {seconds} s"


# In such a process ----------------------------------------------------------------------------------------------------


def print_line(*parts: object) -> None:
    """Print a line that a test waits for, in one write."""
    sys.stdout.write(" ".join(map(str, parts)) + "\n")
    sys.stdout.flush()


async def pause(seconds: float) -> None:
    """Take a while without blocking the event loop."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.Event().wait()
