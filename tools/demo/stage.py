"""What the chapters act on: the demo's database with the API's rights, its clock, and what its worker printed."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from duly.accounts import User
from duly.db.pool import Pool
from duly.outbox.service import StoredMessage, list_messages
from duly.settings import Settings
from duly.storage import ObjectStore, open_object_store
from duly.testing.clock import Clock
from tools.demo.narrator import Narrator

STEP_SECONDS = 60.0  # on a machine that does much else; elsewhere a step takes a second
FIRST_REST_SECONDS, MAX_REST_SECONDS = 0.02, 0.3
MOMENT = timedelta(seconds=1)

Found = TypeVar("Found")


class Stuck(Exception):
    """A step of the story did not come within its time."""


@dataclass(frozen=True)
class Stage:
    """Where the story is played."""

    settings: Settings
    pool: Pool  # with the API's rights
    clock: Clock
    pictures: Path
    log: Path  # what the worker and the API say
    tell: Narrator
    anna: User

    @property
    def as_worker(self) -> Pool:
        """The same connections with a worker's rights, who sees the jobs of all orgs."""
        return replace(self.pool, role=self.settings.worker_role)

    @cached_property
    def objects(self) -> ObjectStore:
        """Where the demo keeps images."""
        return open_object_store(self.settings)

    async def until(
        self,
        step: str,
        look: Callable[[], Awaitable[Found | None]],
        why: Callable[[], Awaitable[str]],
        more_seconds: float = 0.0,
    ) -> Found:
        """Look until there is something to see; Stuck with the step and the reason when it takes too long."""
        seconds, rest = STEP_SECONDS + more_seconds, FIRST_REST_SECONDS
        deadline = time.monotonic() + seconds
        while (found := await look()) is None:
            if time.monotonic() > deadline:
                raise Stuck(f"waited {seconds:.0f} s for this: {step}. What is known: {await why()}")
            await asyncio.sleep(rest)
            rest = min(2 * rest, MAX_REST_SECONDS)
        return found

    async def until_sent(self, kind: str, why: Callable[[], Awaitable[str]]) -> StoredMessage:
        """Anna's message of this kind, once it is sent."""

        async def look() -> StoredMessage | None:
            page = await list_messages(self.pool, status="sent", recipient=self.anna.uid)
            return next((message for message in page.items if message.kind == kind), None)

        return await self.until(f"the message {kind} is sent", look, why)

    def printed(self, key: object) -> str:
        """What the worker printed of a message that is sent."""
        found = message_in(self.log.read_text(errors="replace"), str(key))
        if found is None:
            raise Stuck(f"the message {key} is sent, but the console never showed it: it is not in {self.log}")
        return found

    async def now(self) -> datetime:
        """What time it is in the demo's database."""
        return await asyncio.to_thread(self.clock.now)

    async def pass_time(self, to: datetime, words: str) -> None:
        """Move the database's clock to a moment that lies ahead, and a little past it; the story says so."""
        seconds = (to + MOMENT - await self.now()).total_seconds()
        now = await asyncio.to_thread(self.clock.advance, max(0.0, seconds))
        self.tell.say(f"{words}: the database's clock is moved, and says {now.astimezone():%Y-%m-%d %H:%M %Z} now.")


def message_in(log: str, key: str) -> str | None:
    """The message of this id as the console printed it: its head, and the lines indented below."""
    lines = log.splitlines()
    heads = [number for number, line in enumerate(lines) if line.startswith("--- to ") and line.endswith(f"{key})")]
    if not heads:
        return None
    first = heads[-1]
    last = next((number for number in range(first + 1, len(lines)) if not lines[number].startswith("    ")), len(lines))
    return "\n".join(lines[first:last])
