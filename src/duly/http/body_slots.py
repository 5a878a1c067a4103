"""Slots for large request bodies, so that a process holds only a limited number of them in memory.

While more than half of the slots are free, any caller may acquire one; after that only a caller with less than its
share. So one caller never has more than half of them, and several callers together leave slots for the next.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass

from duly.errors import Unavailable

SLOT_WAIT_SECONDS = 5.0


class BodySlots:
    """Counts which caller has how many slots."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.share = max(1, count // 8)
        self.used: Counter[str] = Counter()
        self.released = asyncio.Event()

    def has_free_slot(self, caller: str) -> bool:
        """Return whether this caller may acquire a slot now."""
        free = self.count - self.used.total()
        return free > self.count // 2 or (free > 0 and self.used[caller] < self.share)

    async def acquire(self, caller: str) -> None:
        """Wait until a slot is free for this caller, and count it as used."""
        while not self.has_free_slot(caller):
            await self.released.wait()
        self.used[caller] += 1

    def release(self, caller: str) -> None:
        """Free a slot of this caller and wake those that wait for one."""
        self.used[caller] -= 1
        if not self.used[caller]:
            del self.used[caller]
        self.released.set()
        self.released = asyncio.Event()


@dataclass
class Slot:
    """The slot of one request, acquired when its body turns out to be large; leaving the `with` block releases it."""

    slots: BodySlots
    caller: str
    is_acquired: bool = False

    async def acquire(self) -> None:
        """Wait up to SLOT_WAIT_SECONDS for the slot; raises Unavailable after that."""
        try:
            async with asyncio.timeout(SLOT_WAIT_SECONDS):
                await self.slots.acquire(self.caller)
        except TimeoutError:
            raise Unavailable("too many large request bodies at once; nothing was done, retry later") from None
        self.is_acquired = True

    def __enter__(self) -> "Slot":
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_acquired:
            self.slots.release(self.caller)
