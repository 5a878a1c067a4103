"""Who is to blame when a worker dies: rows that were held together were started as often as the one that killed it.

Rows that were started often are suspects, and a worker holds one of them at a time, beside others that are not; the
rest it hands back unblamed. So the one to blame meets its end alone, and its old company does not share it.
"""

import time
from collections.abc import Collection, Sequence
from typing import Any

from duly.lease.operations import Lease

__all__ = ["CrashIsolation"]


class CrashIsolation:
    """The one suspect that a worker holds."""

    def __init__(self, *, together: int, limit: int, seconds: float) -> None:
        self.together = together  # so many starts a row has in any company
        self.limit = limit  # and so many in all; beyond them nobody looks at it any more, and it can do no harm
        self.seconds = seconds  # by then we have heard of one, or never will
        self.held: Any = None
        self.until = 0.0  # our monotonic clock

    def choose(self, leases: Sequence[Lease]) -> tuple[list[Lease], list[Lease]]:
        """What to keep of a claim, and what to hand back."""
        crash_isolation = [lease for lease in leases if self.together < lease.row[lease.table.starts] <= self.limit]
        now = time.monotonic()
        free = [
            lease for lease in crash_isolation if now >= self.until or lease.key == self.held
        ]  # ours again: it lapsed
        if free:
            self.held, self.until = free[0].key, now + self.seconds
            crash_isolation.remove(free[0])
        back = {lease.key for lease in crash_isolation}
        return [lease for lease in leases if lease.key not in back], crash_isolation

    def forget(self, keys: Collection[Any]) -> None:
        """It came to an end, if it is among these: the next may be tried."""
        if self.held in keys:
            self.held, self.until = None, 0.0
