"""When the table of one work type is polled: now and then, and often for a moment after a notification."""

import asyncio
import random
import time

EAGER_SECONDS = 0.002  # between polls of a worker that was just notified
AWAKE_SECONDS = 0.1  # for how long: inserts notify at most once per 50 ms, so later rows of that time send nothing


class Polling:
    """Wakes the loops of one work type when there may be something to claim or to settle."""

    def __init__(self, poll_seconds: float) -> None:
        self.poll_seconds = poll_seconds
        self.ready = asyncio.Event()  # there is something for a loop to do
        self.notified = asyncio.Event()  # a notification says that there is work
        self.is_claim_requested = True  # a claim may find rows; the loop that claims takes the request
        self.awake_until = 0.0  # our monotonic clock

    async def run(self) -> None:
        """Poll at intervals, whether or not a notification comes: it is only a hint."""
        while True:
            is_awake = time.monotonic() < self.awake_until
            pause = EAGER_SECONDS if is_awake else self.poll_seconds * random.uniform(0.8, 1.2)  # noqa: S311
            try:
                async with asyncio.timeout(pause):
                    await self.notified.wait()
            except TimeoutError:
                pass
            self.notified.clear()
            self.request_claim()

    def request_claim(self) -> None:
        """Have a loop claim."""
        self.is_claim_requested = True
        self.ready.set()

    def wake(self) -> None:
        """Poll at once, and eagerly for a moment."""
        self.awake_until = time.monotonic() + AWAKE_SECONDS
        self.notified.set()

    def stay_awake(self) -> None:
        """Go on polling eagerly after a notification: where rows were found there may be more soon."""
        self.awake_until = max(self.awake_until, time.monotonic() + AWAKE_SECONDS)

    async def wait_ready(self) -> None:
        """Wait until there is something for a loop to do."""
        await self.ready.wait()
        self.ready.clear()

    async def wait_poll_interval(self) -> None:
        """Wait as long as between two polls."""
        await asyncio.sleep(self.poll_seconds * random.uniform(0.8, 1.2))  # noqa: S311
