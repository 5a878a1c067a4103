"""Limit the request rate of each caller with a token bucket: requests empty it, time refills it."""

import time
from collections import OrderedDict
from dataclasses import dataclass, field

from duly.errors import RateLimited

MAX_CALLERS = 10_000
RETRY_SECONDS = 1  # by then the bucket has at least one token again


@dataclass
class RateLimiter:
    """A token bucket per caller: `burst` requests at once, then `per_second`; counted in this process only."""

    burst: int = 120
    per_second: float = 2.0
    buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict[str, tuple[float, float]])

    def acquire(self, caller: str, at: float | None = None) -> None:
        """Count one request of this caller, or raise RateLimited.

        `at` is when the request was made, where that is known; all calls for a caller must use the same clock.
        """
        now = time.monotonic() if at is None else at
        left, since = self.buckets.pop(caller, (float(self.burst), now))
        left, now = min(self.burst, left + max(0.0, now - since) * self.per_second), max(now, since)
        self.buckets[caller] = (left - 1 if left >= 1 else left, now)
        while len(self.buckets) > MAX_CALLERS:
            self.buckets.popitem(last=False)
        if left < 1:
            raise RateLimited(f"more than {self.burst} requests at once; retry in {RETRY_SECONDS} s")
