"""Workers over posts as processes of their own, whose analyzer does what a caption says.

    python -m tests.support.post_worker nursery <dsn> [setting=value ...]    forks a worker for every line it reads
    python -m tests.support.post_worker claim <dsn>                          claims until nothing is due; prints keys

A nursery has imported everything before it forks, so that a fresh worker costs a test milliseconds. Every line of a
worker, on either stream, begins with the worker's process id.
"""

import asyncio
import os
import random
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from io import TextIOBase
from typing import TextIO, cast

from duly.db.pool import connect
from duly.kernel.lease import claim
from duly.kernel.work import Pace
from duly.logs import configure_logs
from duly.posts import POST
from duly.posts.reading import Mood, Reading
from duly.posts.rules import fallback_reading
from duly.posts.work import PostWork
from duly.settings import load_settings
from duly.worker.runtime import run_worker
from tests.support.processes import PYTHON, Program, plain_environment, wait_gone

__all__ = ["PACE", "Marked", "Nursery", "Told", "pause", "tell"]

PACE = Pace(lease_seconds=30.0, heartbeat_seconds=0.2, poll_seconds=0.1, sweep_seconds=0.2, slots=20, batch=100)


# In a worker ----------------------------------------------------------------------------------------------------------


def tell(*words: object) -> None:
    """A line for the test that waits for it."""
    os.write(1, (" ".join(map(str, (os.getpid(), *words))) + "\n").encode())


class Told:
    """Reads a post by doing what its caption says: a verb, its words, and anything after a #."""

    name: str = "told"

    async def read(self, caption: str, photo: bytes | None) -> Reading:  # noqa: ARG002
        """The reading of a post that is read at all."""
        verb, *words = caption.split("#")[0].split()
        tell(verb, caption)
        match verb:
            case "say":
                pass
            case "pause":
                await pause(float(words[0]))
            case "exit":
                os._exit(7)
            case "loop":
                while True:
                    sum(range(1000))
            case "block":
                threading.Event().wait()  # the very mistake
            case "wedge":
                wedge(*words)
            case "hang":
                await self.hang(caption)
            case _:
                raise ValueError(caption)
        return Reading(Mood.CALM, "silence", f"it says {caption}", self.name, "1")

    async def hang(self, caption: str) -> None:
        """Wait for ever; say when we were stopped."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            tell("stopped", caption)
            raise


async def pause(seconds: float) -> None:
    """Take a while, politely."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.Event().wait()


def wedge(gate: str) -> None:
    """Block the loop until somebody writes to the gate, a FIFO; whoever comes after the first passes by."""
    with suppress(FileExistsError):
        os.close(os.open(f"{gate}.taken", os.O_CREAT | os.O_EXCL))
        with open(gate) as file:  # noqa: PTH123
            file.read()


class Marked(TextIOBase):
    """Standard error, with our process id before every line."""

    def write(self, text: str, /) -> int:
        os.write(2, "".join(f"{os.getpid()} {line}\n" for line in text.splitlines()).encode())
        return len(text)


def work_of(*given: str) -> PostWork:
    """Posts as these settings want them worked on."""
    wanted = dict(each.split("=") for each in given)
    seconds = float(wanted.pop("analyzer_seconds", "20"))
    pace = replace(PACE, **{name: type(getattr(PACE, name))(value) for name, value in wanted.items()})
    return PostWork(Told(), pace, analyzer_seconds=seconds)


def be_a_worker(dsn: str, *given: str) -> None:
    """Work until told to stop; logs go to standard error, what the analyzer says to standard output."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    random.seed()
    settings = load_settings()
    configure_logs(settings, cast("TextIO", Marked()))
    run_worker([work_of(*given)], settings, dsn=dsn)
    tell("end")


def nurse(dsn: str, *given: str) -> None:
    """Fork a worker for every line, with the settings on it."""
    fallback_reading("take the lexicons into memory")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them, so they leave no trace
    os.write(1, b"ready\n")
    for line in sys.stdin:
        if (pid := os.fork()) == 0:
            try:
                be_a_worker(dsn, *given, *line.split())
            finally:
                os._exit(0)
        os.write(1, f"born {pid}\n".encode())


def claim_everything(dsn: str) -> None:
    """Claim, in batches of seven, under a name that every process shares."""

    async def main() -> None:
        async with await connect(dsn) as connection:
            while leases := await claim(connection, POST, "worker-1", lease_seconds=60, most=7):
                for lease in leases:
                    print(lease.key)

    print("ready", flush=True)
    sys.stdin.readline()
    asyncio.run(main())
    print("end", flush=True)


# In a test ------------------------------------------------------------------------------------------------------------


class Nursery(Program):
    """Workers of one name, born and ended as a test likes."""

    module = "tests.support.post_worker"  # which `nursery` is ours

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
        os.kill(pid, signal.SIGKILL)
        self.see_gone(pid)

    def see_gone(self, pid: int) -> None:
        """Wait until a worker has ended, however."""
        wait_gone(pid)
        self.alive.remove(pid)

    def stop(self, pid: int) -> None:
        """Tell a worker to go, and wait until it went in peace."""
        os.kill(pid, signal.SIGTERM)
        self.hear_from(pid, "end")
        self.see_gone(pid)

    def losses(self) -> Counter[int]:
        """How many leases each worker found lost, by its own log."""
        lines = [line.split(" ", 1) for line in "".join(self.errors).splitlines() if '"event":"lease lost"' in line]
        return Counter(int(pid) for pid, _ in lines)


COMMANDS: dict[str, Callable[..., None]] = {"nursery": nurse, "claim": claim_everything}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])
