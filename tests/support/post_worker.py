"""Workers over posts as processes of their own, whose analyzer does what a caption says."""

import asyncio
import os
import threading
from contextlib import suppress

from duly.apps.posts.reading import Mood, Reading
from duly.apps.posts.rules import fallback_reading
from duly.apps.posts.work import PostWork
from duly.lease.work import Tuning, Work
from tests.support.processes import pause, print_line
from tests.support.worker_pool import WorkerPool, WorkerSettings, run, with_tuning

TUNING = Tuning(lease_seconds=30.0, heartbeat_seconds=0.2, poll_seconds=0.1, sweep_seconds=0.2, slots=20, batch=100)
EXITED = 7  # the status of a process that a caption ends


# In a worker ----------------------------------------------------------------------------------------------------------


class ScriptedAnalyzer:
    """Reads a post by doing what its caption says: a verb, its words, and anything after a #."""

    name: str = "fixed"

    async def read(self, caption: str, photo: bytes | None) -> Reading:  # noqa: ARG002
        """The reading of a post that is read at all."""
        verb, *arguments = caption.split("#")[0].split()
        print_line(verb, caption)
        match verb:
            case "say":
                pass
            case "pause":
                await pause(float(arguments[0]))
            case "exit":
                os._exit(EXITED)
            case "loop":
                while True:
                    sum(range(1000))
            case "block":
                threading.Event().wait()  # the very mistake
            case "wedge":
                wedge(*arguments)
            case "hang":
                await self.hang(caption)
            case _:
                raise ValueError(caption)
        return Reading(Mood.CALM, "silence", f"it says {caption}", self.name, "1")

    async def hang(self, caption: str) -> None:
        """Wait until stopped, and report that."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            print_line("stopped", caption)
            raise


def wedge(gate: str) -> None:
    """Block the loop until the gate, a FIFO, is written to; only the first caller blocks."""
    with suppress(FileExistsError):
        os.close(os.open(f"{gate}.taken", os.O_CREAT | os.O_EXCL))
        with open(gate) as file:  # noqa: PTH123
            file.read()


def works(settings: WorkerSettings) -> list[Work]:
    """Read posts with these settings."""
    seconds = float(settings.pop("analyzer_seconds", "20"))
    return [PostWork(ScriptedAnalyzer(), with_tuning(TUNING, settings), analyzer_seconds=seconds)]


def warm_up() -> None:
    """Load the lexicons."""
    fallback_reading("any caption")


def main() -> None:
    """Run a worker."""
    run(works)


# In a test ------------------------------------------------------------------------------------------------------------


class PostWorkerPool(WorkerPool):
    """Workers of one name over posts."""

    module = __name__
