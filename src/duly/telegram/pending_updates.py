"""Updates that we are not done with: what is known of each for as long as it comes again."""

import time
from collections import OrderedDict
from dataclasses import dataclass

__all__ = ["Visit", "Visits"]

MAX_REMEMBERED = 1000


@dataclass
class Visit:
    """Whether an update was let in, since when it meets trouble of the moment, and how often it failed unforeseen."""

    is_let_in: bool = False
    troubled_since: float | None = None
    failures: int = 0

    def waited_seconds(self) -> float:
        """How long it has met trouble by now, which may be the first."""
        now = time.monotonic()
        self.troubled_since = now if self.troubled_since is None else self.troubled_since
        return now - self.troubled_since


class Visits:
    """The visits under way, by the number of their update; of too many the oldest are forgotten."""

    def __init__(self) -> None:
        self.under_way: OrderedDict[int, Visit] = OrderedDict()

    def of(self, update_id: int) -> Visit:
        """The visit of an update, which may come for the first time."""
        visit = self.under_way.setdefault(update_id, Visit())
        while len(self.under_way) > MAX_REMEMBERED:
            self.under_way.popitem(last=False)
        return visit

    def end(self, update_id: int) -> None:
        """We are done with it."""
        self.under_way.pop(update_id, None)
