"""How much one person may ask for: a bucket each, which empties by the request and fills by the second."""

import time
from collections import OrderedDict
from dataclasses import dataclass, field

from duly.errors import RateLimited

__all__ = ["RETRY_SECONDS", "Rate"]

MAX_PEOPLE = 10_000
RETRY_SECONDS = 1  # by then there is room for one more


@dataclass
class Rate:
    """So many at once, and so many a second; in this process, since it started."""

    burst: int = 120
    per_second: float = 2.0
    buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict[str, tuple[float, float]])

    def take(self, who: str, at: float | None = None) -> None:
        """One more for this person, or RateLimited; `at` is when it was asked, where that is known, by one clock."""
        now = time.monotonic() if at is None else at
        left, since = self.buckets.pop(who, (float(self.burst), now))
        left, now = min(self.burst, left + max(0.0, now - since) * self.per_second), max(now, since)
        self.buckets[who] = (left - 1 if left >= 1 else left, now)
        while len(self.buckets) > MAX_PEOPLE:
            self.buckets.popitem(last=False)
        if left < 1:
            raise RateLimited(f"more than {self.burst} requests at once; ask again in {RETRY_SECONDS} s")
