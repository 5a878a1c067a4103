"""Workers over capture sessions as processes of their own, whose reader does what a person's number says.

    python -m tests.support.capture_worker nursery <dsn> [setting=value ...]    forks a worker for every line it reads

As with `post_worker`, every line of a worker, on either stream, begins with its process id.
"""

import asyncio
import os
import random
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from enum import IntEnum
from typing import Any, TextIO, cast

from duly.ingest.reading import Captured, Input
from duly.ingest.work import CaptureWork, Rules
from duly.kernel.canonical import Json
from duly.kernel.work import Pace
from duly.logs import configure_logs
from duly.settings import load_settings
from duly.worker.runtime import run_worker
from tests.support.post_worker import Marked, Nursery, pause, tell

__all__ = ["PACE", "CaptureNursery", "Way", "day_of", "users"]

PACE = Pace(lease_seconds=30.0, heartbeat_seconds=0.2, poll_seconds=0.1, sweep_seconds=0.2, slots=20, batch=100)
RULES = Rules()
A_THOUSAND = 1000


class Way(IntEnum):
    """How a person's sessions are read: their number is a thousand times this, and something."""

    SAY = 1  # at once
    PAUSE = 2  # after a while
    EXIT = 3  # never: the process ends
    LOOP = 4  # never: it holds the interpreter's lock
    BLOCK = 5  # never: it blocks the handlers' loop
    HANG = 6  # never: it waits, and can be stopped
    RAISE = 7  # not: an exception
    NOTHING = 8  # not: there is no answer
    NONSENSE = 9  # not: the answer is no day


def users(way: Way, several: int) -> list[int]:
    """So many people whose sessions are read in this way."""
    return [way * A_THOUSAND + nth for nth in range(several)]


def day_of(user: int) -> dict[str, Any]:
    """What a person's session shows."""
    return {
        "schedule_date": "2026-02-10",
        "entries": [{"start": "10:00", "end": "14:00", "title": f"Customer {user} • Städning", "location": "Billdal"}],
    }


# In a worker ----------------------------------------------------------------------------------------------------------


class Told:
    """Reads a session by doing what its person's number says."""

    input = Input.PHOTOGRAPHS

    async def read(self, captured: Captured) -> Sequence[Mapping[str, Json]]:
        """The pages of a session that is read at all."""
        way = Way(captured.user_id // A_THOUSAND)
        tell(way.name, captured.user_id)
        match way:
            case Way.SAY:
                pass
            case Way.PAUSE:
                await pause(0.3)
            case Way.EXIT:
                os._exit(7)
            case Way.LOOP:
                while True:
                    sum(range(1000))
            case Way.BLOCK:
                threading.Event().wait()  # the very mistake
            case Way.HANG:
                await self.hang(captured)
            case Way.RAISE:
                raise ZeroDivisionError("eyes closed")
            case Way.NOTHING:
                return cast("Any", None)
            case Way.NONSENSE:
                return cast("Any", ["a photograph of a cat"])
        return [day_of(captured.user_id)]

    async def hang(self, captured: Captured) -> None:
        """Wait for ever; say when we were stopped."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            tell("stopped", captured.user_id)
            raise


def work_of(*given: str) -> CaptureWork:
    """Sessions as these settings want them worked on."""
    wanted = dict(each.split("=") for each in given)
    of_rules = {field.name for field in fields(Rules)} & wanted.keys()
    rules = replace(RULES, **{name: type(getattr(RULES, name))(wanted.pop(name)) for name in of_rules})
    pace = replace(PACE, **{name: type(getattr(PACE, name))(value) for name, value in wanted.items()})
    return CaptureWork(Told(), pace, rules)


def be_a_worker(dsn: str, *given: str) -> None:
    """Work until told to stop; logs go to standard error, what the reader says to standard output."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    random.seed()
    settings = load_settings()
    configure_logs(settings, cast("TextIO", Marked()))
    run_worker([work_of(*given)], settings, dsn=dsn)
    tell("end")


def nurse(dsn: str, *given: str) -> None:
    """Fork a worker for every line, with the settings on it."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them, so they leave no trace
    os.write(1, b"ready\n")
    for line in sys.stdin:
        if (pid := os.fork()) == 0:
            try:
                be_a_worker(dsn, *given, *line.split())
            finally:
                os._exit(0)
        os.write(1, f"born {pid}\n".encode())


# In a test ------------------------------------------------------------------------------------------------------------


class CaptureNursery(Nursery):
    """Workers of one name over sessions, born and ended as a test likes."""

    module = "tests.support.capture_worker"


if __name__ == "__main__":
    nurse(*sys.argv[2:])
