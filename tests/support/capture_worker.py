"""Workers over capture sessions as processes of their own, whose reader does what a person's number says."""

import asyncio
import os
import threading
from collections.abc import Sequence
from dataclasses import fields, replace
from enum import IntEnum
from typing import Any, cast

from duly.apps.ingest.pages import DayPage
from duly.apps.ingest.reading import CaptureInput, Input
from duly.apps.ingest.work import CaptureOptions, CaptureWork
from duly.lease.work import Tuning, Work
from tests.support.processes import pause, print_line
from tests.support.worker_pool import WorkerPool, WorkerSettings, run, with_tuning

TUNING = Tuning(lease_seconds=30.0, heartbeat_seconds=0.2, poll_seconds=0.1, sweep_seconds=0.2, slots=20, batch=100)
RULES = CaptureOptions()
USERS_PER_MODE = 1000
EXITED = 7  # the status of a process that a session ends


class ReadingMode(IntEnum):
    """How a person's sessions are read: their number is a thousand times this, and something."""

    READ = 1  # at once
    PAUSE = 2  # after a while
    EXIT = 3  # never: the process ends
    LOOP = 4  # never: it holds the interpreter's lock
    BLOCK = 5  # never: it blocks the handlers' loop
    HANG = 6  # never: it waits, and can be stopped
    RAISE = 7  # not: an exception
    NOTHING = 8  # not: there is no answer
    NONSENSE = 9  # not: the answer is no day


def users(mode: ReadingMode, several: int) -> list[int]:
    """So many people whose sessions are read in this way."""
    return [mode * USERS_PER_MODE + nth for nth in range(several)]


def make_day(user: int) -> dict[str, Any]:
    """What a person's session shows."""
    return {
        "schedule_date": "2026-02-10",
        "entries": [{"start": "10:00", "end": "14:00", "title": f"Customer {user} • Städning", "location": "Billdal"}],
    }


# In a worker ----------------------------------------------------------------------------------------------------------


class ScriptedReader:
    """Reads a session in the way that its person's number selects."""

    input = Input.PHOTOGRAPHS
    has_limits = False

    async def read(self, capture: CaptureInput) -> Sequence[DayPage]:
        """The pages of a session that is read at all."""
        mode = ReadingMode(capture.user_id // USERS_PER_MODE)
        print_line(mode.name, capture.user_id)
        match mode:
            case ReadingMode.READ:
                pass
            case ReadingMode.PAUSE:
                await pause(0.3)
            case ReadingMode.EXIT:
                os._exit(EXITED)
            case ReadingMode.LOOP:
                while True:
                    sum(range(1000))
            case ReadingMode.BLOCK:
                threading.Event().wait()  # the very mistake
            case ReadingMode.HANG:
                await self.hang(capture)
            case ReadingMode.RAISE:
                raise ZeroDivisionError("reader failed")
            case ReadingMode.NOTHING:
                return cast("Any", None)
            case ReadingMode.NONSENSE:
                return cast("Any", ["a photograph of a cat"])
        return [DayPage(make_day(capture.user_id))]

    async def close(self) -> None:
        """Do nothing."""

    async def hang(self, capture: CaptureInput) -> None:
        """Wait until stopped, and report that."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            print_line("stopped", capture.user_id)
            raise


def works(settings: WorkerSettings) -> list[Work]:
    """Read sessions with these settings."""
    option_names = {field.name for field in fields(CaptureOptions)} & settings.keys()
    rules = replace(RULES, **{name: type(getattr(RULES, name))(settings.pop(name)) for name in option_names})
    return [CaptureWork(ScriptedReader(), with_tuning(TUNING, settings), rules)]


def main() -> None:
    """Run a worker."""
    run(works)


# In a test ------------------------------------------------------------------------------------------------------------


class CaptureWorkerPool(WorkerPool):
    """Workers of one name over sessions."""

    module = __name__
