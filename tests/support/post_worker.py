"""Workers over posts as processes of their own, whose analyzer does what a caption says.

python -m tests.support.post_worker nursery <dsn> [setting=value ...]    forks a worker for every line it reads
python -m tests.support.post_worker claim <dsn>                          claims until nothing is due; prints keys
"""

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from duly.db.pool import connect
from duly.kernel.lease import claim
from duly.kernel.work import Pace, Work
from duly.posts import POST
from duly.posts.reading import Mood, Reading
from duly.posts.rules import fallback_reading
from duly.posts.work import PostWork
from tests.support.nursery import Nursery, nurse, pause, tell, with_pace

__all__ = ["PACE", "PostNursery", "Told"]

PACE = Pace(lease_seconds=30.0, heartbeat_seconds=0.2, poll_seconds=0.1, sweep_seconds=0.2, slots=20, batch=100)


# In a worker ----------------------------------------------------------------------------------------------------------


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


def wedge(gate: str) -> None:
    """Block the loop until somebody writes to the gate, a FIFO; whoever comes after the first passes by."""
    with suppress(FileExistsError):
        os.close(os.open(f"{gate}.taken", os.O_CREAT | os.O_EXCL))
        with open(gate) as file:  # noqa: PTH123
            file.read()


def works_of(given: dict[str, str]) -> list[Work]:
    """Posts as these settings want them worked on."""
    seconds = float(given.pop("analyzer_seconds", "20"))
    return [PostWork(Told(), with_pace(PACE, given), analyzer_seconds=seconds)]


def nurse_posts(dsn: str, *given: str) -> None:
    """A nursery whose workers have the lexicons in memory when they are born."""
    fallback_reading("take them there")
    nurse(works_of, dsn, *given)


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


class PostNursery(Nursery):
    """Workers of one name over posts, born and ended as a test likes."""

    module = "tests.support.post_worker"


COMMANDS: dict[str, Callable[..., None]] = {"nursery": nurse_posts, "claim": claim_everything}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])
