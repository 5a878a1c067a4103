"""What is remembered of updates that are retried."""

import time
from collections import OrderedDict
from dataclasses import dataclass

MAX_PENDING = 1000


@dataclass
class PendingUpdate:
    """Whether an update was admitted, since when it fails, and how many unexpected errors it had."""

    is_admitted: bool = False
    failing_since: float | None = None
    failures: int = 0

    def waited_seconds(self) -> float:
        """Return for how long the update has failed; the first call starts the clock."""
        now = time.monotonic()
        self.failing_since = now if self.failing_since is None else self.failing_since
        return now - self.failing_since


class PendingUpdates:
    """Pending updates by their id; beyond MAX_PENDING the oldest are forgotten."""

    def __init__(self) -> None:
        self.by_update_id: OrderedDict[int, PendingUpdate] = OrderedDict()

    def get(self, update_id: int) -> PendingUpdate:
        """Return what is remembered of an update, or a new entry."""
        pending = self.by_update_id.setdefault(update_id, PendingUpdate())
        while len(self.by_update_id) > MAX_PENDING:
            self.by_update_id.popitem(last=False)
        return pending

    def remove(self, update_id: int) -> None:
        """Forget an update that was processed or dropped."""
        self.by_update_id.pop(update_id, None)
