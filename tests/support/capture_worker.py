"""Workers over capture sessions as processes of their own, whose reader does what a person's number says.

python -m tests.support.capture_worker nursery <dsn> [setting=value ...]    forks a worker for every line it reads
"""

import asyncio
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import fields, replace
from enum import IntEnum
from typing import Any, cast

from duly.ingest.reading import Captured, Input, Page
from duly.ingest.work import CaptureWork, Rules
from duly.kernel.work import Pace, Work
from tests.support.nursery import Nursery, nurse, pause, tell, with_pace

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
    has_limits = False

    async def read(self, captured: Captured) -> Sequence[Page]:
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
        return [Page(day_of(captured.user_id))]

    async def close(self) -> None:
        """Nothing is kept."""

    async def hang(self, captured: Captured) -> None:
        """Wait for ever; say when we were stopped."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            tell("stopped", captured.user_id)
            raise


def works_of(given: dict[str, str]) -> list[Work]:
    """Sessions as these settings want them worked on."""
    of_rules = {field.name for field in fields(Rules)} & given.keys()
    rules = replace(RULES, **{name: type(getattr(RULES, name))(given.pop(name)) for name in of_rules})
    return [CaptureWork(Told(), with_pace(PACE, given), rules)]


# In a test ------------------------------------------------------------------------------------------------------------


class CaptureNursery(Nursery):
    """Workers of one name over sessions, born and ended as a test likes."""

    module = "tests.support.capture_worker"


if __name__ == "__main__":
    nurse(works_of, *sys.argv[2:])
