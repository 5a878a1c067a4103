"""Finds the row that kills workers: rows that were started often are run one at a time.

When a worker dies, every row that it held has counted a start, and any of them may be to blame. So a worker holds only
one often-started row at a time, beside rows that are not suspect, and releases the others with their start given back.
The row that kills workers then fails alone, and the rows that were held with it do not become dead letters too.
"""

import time
from collections.abc import Collection, Sequence
from typing import Any

from duly.lease.operations import Lease


class CrashIsolation:
    """Chooses the one suspect row that a worker holds."""

    def __init__(self, *, max_shared_starts: int, max_starts: int, timeout_seconds: float) -> None:
        self.max_shared_starts = max_shared_starts  # up to so many starts a row may run beside others like it
        self.max_starts = max_starts  # beyond these a row is not run any more, so it is no suspect
        self.timeout_seconds = timeout_seconds  # after this the suspect has ended, or never will
        self.suspect_key: Any = None
        self.suspect_until = 0.0  # our monotonic clock

    def split(self, leases: Sequence[Lease]) -> tuple[list[Lease], list[Lease]]:
        """Split a claim into the leases to run and the leases to release."""
        suspects = [
            lease for lease in leases if self.max_shared_starts < lease.row[lease.table.starts] <= self.max_starts
        ]
        now = time.monotonic()
        # The suspect we hold can come back in a claim: its lease has expired.
        runnable = [lease for lease in suspects if now >= self.suspect_until or lease.key == self.suspect_key]
        if runnable:
            self.suspect_key, self.suspect_until = runnable[0].key, now + self.timeout_seconds
            suspects.remove(runnable[0])
        released = {lease.key for lease in suspects}
        return [lease for lease in leases if lease.key not in released], suspects

    def note_ended(self, keys: Collection[Any]) -> None:
        """Let the next suspect run if the current one is among these keys."""
        if self.suspect_key in keys:
            self.suspect_key, self.suspect_until = None, 0.0
