"""What the chapters use: the demo database with the rights of the API, its clock, and the output of its worker."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from duly.accounts import Person
from duly.db.pool import Pool
from duly.outbox.service import StoredMessage, list_messages
from duly.settings import Settings
from duly.storage import ObjectStore, open_object_store
from duly.testing.clock import Clock
from tools.demo.narrator import Narrator

STEP_SECONDS = 60.0  # on a busy machine; otherwise a step takes about a second
FIRST_REST_SECONDS, MAX_REST_SECONDS = 0.02, 0.3
MOMENT = timedelta(seconds=1)

Found = TypeVar("Found")


class Stuck(Exception):
    """A step of the story timed out."""


@dataclass(frozen=True)
class Stage:
    """The database, clock, files and narrator of the demo."""

    settings: Settings
    pool: Pool  # with the API's rights
    clock: Clock
    pictures: Path
    log: Path  # output of the worker and the API
    narrator: Narrator
    anna: Person

    @property
    def as_worker(self) -> Pool:
        """The same connections with the rights of a worker, which sees the jobs of all orgs."""
        return replace(self.pool, role=self.settings.worker_role)

    @cached_property
    def objects(self) -> ObjectStore:
        """The object store of the demo."""
        return open_object_store(self.settings)

    async def until(
        self,
        step: str,
        fetch: Callable[[], Awaitable[Found | None]],
        describe: Callable[[], Awaitable[str]],
        more_seconds: float = 0.0,
    ) -> Found:
        """Poll until `fetch` returns a value; raise Stuck with step and current state on a timeout."""
        seconds, rest = STEP_SECONDS + more_seconds, FIRST_REST_SECONDS
        deadline = time.monotonic() + seconds
        while (found := await fetch()) is None:
            if time.monotonic() > deadline:
                raise Stuck(f"timed out after {seconds:.0f} s: {step}. Current state: {await describe()}")
            await asyncio.sleep(rest)
            rest = min(2 * rest, MAX_REST_SECONDS)
        return found

    async def until_sent(self, kind: str, describe: Callable[[], Awaitable[str]]) -> StoredMessage:
        """Return the message of this kind to Anna once it is sent."""

        async def fetch() -> StoredMessage | None:
            page = await list_messages(self.pool, status="sent", recipient=self.anna.uid)
            return next((message for message in page.items if message.kind == kind), None)

        return await self.until(f"the message {kind} is sent", fetch, describe)

    def printed(self, key: object) -> str:
        """Return what the worker printed for a sent message."""
        found = message_in(self.log.read_text(errors="replace"), str(key))
        if found is None:
            raise Stuck(f"the message {key} is sent, but the worker did not print it: it is not in {self.log}")
        return found

    async def now(self) -> datetime:
        """Return the time of the demo database."""
        return await asyncio.to_thread(self.clock.now)

    async def pass_time(self, to: datetime, sentence: str) -> None:
        """Move the clock of the database just past this time, and print that."""
        seconds = (to + MOMENT - await self.now()).total_seconds()
        now = await asyncio.to_thread(self.clock.advance, max(0.0, seconds))
        self.narrator.say(f"{sentence}: the clock of the database is moved to {now.astimezone():%Y-%m-%d %H:%M %Z}.")


def message_in(log: str, key: str) -> str | None:
    """Return the message of this id as the console printed it: the heading, and the indented lines below."""
    lines = log.splitlines()
    heads = [number for number, line in enumerate(lines) if line.startswith("--- to ") and line.endswith(f"{key})")]
    if not heads:
        return None
    first = heads[-1]
    last = next((number for number in range(first + 1, len(lines)) if not lines[number].startswith("    ")), len(lines))
    return "\n".join(lines[first:last])
