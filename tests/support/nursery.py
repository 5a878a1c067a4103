"""A nursery: a warm parent that forks a worker for every line it reads, so that a fresh one costs milliseconds.

    python -m tests.support.some_worker nursery <dsn> [setting=value ...]

Every line of a worker, on either stream, begins with the worker's process id. A worker that is told `crash=point:n`
ends at that crash point. Of every worker that ended the parent says how: `<pid> gone <status>`, a signal's as -9.
"""

import asyncio
import os
import random
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from io import TextIOBase
from typing import TextIO, cast

from duly.kernel.crashpoint import arm
from duly.kernel.work import Pace, Work
from duly.logs import configure_logs
from duly.settings import load_settings
from duly.worker.runtime import run_worker
from tests.support.processes import PYTHON, Program, plain_environment, wait_gone

__all__ = ["Marked", "Nursery", "nurse", "pause", "tell", "with_pace"]

Given = dict[str, str]


# In a worker ----------------------------------------------------------------------------------------------------------


def tell(*words: object) -> None:
    """A line for the test that waits for it."""
    os.write(1, (" ".join(map(str, (os.getpid(), *words))) + "\n").encode())


async def pause(seconds: float) -> None:
    """Take a while, politely."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.Event().wait()


class Marked(TextIOBase):
    """Standard error, with our process id before every line."""

    def write(self, text: str, /) -> int:
        os.write(2, "".join(f"{os.getpid()} {line}\n" for line in text.splitlines()).encode())
        return len(text)


def with_pace(pace: Pace, given: Given) -> Pace:
    """The pace that these settings want; what is not of a pace is left in them."""
    wanted = {name: given.pop(name) for name in list(given) if hasattr(pace, name)}
    return replace(pace, **{name: type(getattr(pace, name))(value) for name, value in wanted.items()})


def be_a_worker(dsn: str, works_of: Callable[[Given], Sequence[Work]], given: Given) -> None:
    """Work until told to stop; logs go to standard error, what handlers say to standard output."""
    random.seed()
    if point := given.pop("crash", None):
        arm(point)
    settings = load_settings()
    configure_logs(settings, cast("TextIO", Marked()))
    run_worker(works_of(given), settings, dsn=given.pop("dsn", dsn))
    tell("end")


def nurse(works_of: Callable[[Given], Sequence[Work]], dsn: str, *given: str) -> None:
    """Fork a worker for every line, with the settings on it."""
    signal.signal(signal.SIGCHLD, reap)
    os.write(1, b"ready\n")
    for line in sys.stdin:
        if (pid := os.fork()) == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            status = 1
            try:
                be_a_worker(dsn, works_of, dict(each.split("=", 1) for each in (*given, *line.split())))
                status = 0
            except BaseException:
                traceback.print_exc(file=cast("TextIO", Marked()))
            finally:
                os._exit(status)
        os.write(1, f"born {pid}\n".encode())


def reap(*_: object) -> None:
    """Say of every worker that ended how it did."""
    with suppress(ChildProcessError):  # there is none left
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            os.write(1, f"{ended[0]} gone {os.waitstatus_to_exitcode(ended[1])}\n".encode())


# In a test ------------------------------------------------------------------------------------------------------------


class Nursery(Program):
    """Workers of one name, born and ended as a test likes."""

    module: str  # whose nursery it is

    def __init__(self, dsn: str, *given: str, **environment: str) -> None:
        command = [*PYTHON, "-m", self.module, "nursery", dsn, *given]
        more = {"PYTHONPATH": os.getcwd(), "WORKER_ID": "worker-1", **environment}  # noqa: PTH109
        super().__init__(command, environment=plain_environment(**more))
        self.heard: list[tuple[int, str]] = []  # lines of workers that nobody has asked for yet
        self.alive: list[int] = []
        assert self.line() == "ready"

    def bear(self, *given: str) -> int:
        """Start a worker; its process id."""
        self.tell(" ".join(given))
        while not (line := self.line()).startswith("born "):
            self.note(line)
        self.alive.append(int(line.split()[1]))
        return self.alive[-1]

    def note(self, line: str) -> None:
        """Keep a line for whoever asks for it."""
        pid, _, words = line.partition(" ")
        self.heard.append((int(pid), words))

    def hear(self, what: Callable[[int, str], bool]) -> tuple[int, str]:
        """The next line of any worker that is such a one; the others are kept."""
        for place, line in enumerate(self.heard):
            if what(*line):
                return self.heard.pop(place)
        while True:
            self.note(self.line())
            if what(*self.heard[-1]):
                return self.heard.pop()

    def hear_from(self, pid: int, words: str = "") -> str:
        """The next line of this worker that begins so."""
        return self.hear(lambda by, said: by == pid and said.startswith(words))[1]

    def end(self, pid: int) -> None:
        """kill -9, and wait until it is gone."""
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self.see_gone(pid)

    def see_gone(self, pid: int) -> None:
        """Wait until a worker has ended, however."""
        wait_gone(pid)
        if pid in self.alive:
            self.alive.remove(pid)

    def status_of(self, pid: int) -> int:
        """How a worker ended: its exit status, or less than nothing for a signal."""
        return int(self.hear_from(pid, "gone").split()[1])

    def stop(self, pid: int) -> None:
        """Tell a worker to go, and wait until it went in peace."""
        os.kill(pid, signal.SIGTERM)
        self.hear_from(pid, "end")
        self.see_gone(pid)

    def losses(self) -> Counter[int]:
        """How many leases each worker found lost, by its own log."""
        lines = [line.split(" ", 1) for line in "".join(self.errors).splitlines() if '"event":"lease lost"' in line]
        return Counter(int(pid) for pid, _ in lines)
