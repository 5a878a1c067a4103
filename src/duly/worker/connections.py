"""How the connections that `DULY_POOL_SIZE` allows a worker are shared out."""

from collections.abc import Sequence
from dataclasses import dataclass

from duly.errors import Misconfigured
from duly.executors.call import Where
from duly.lease.work import Work

__all__ = ["Shares", "share_out"]

FIXED = 2  # one renews leases, one listens for notifications


@dataclass(frozen=True)
class Shares:
    """How many connections each part of a worker may hold; together with the fixed ones, all that there may be."""

    control: int  # claims, settles, sweeps
    loop: int  # handlers on the event loop, and the progress of all others
    threads: int  # transactions of plain functions

    @property
    def total(self) -> int:
        """How many there are at most."""
        return FIXED + self.control + self.loop + self.threads


def share_out(pool_size: int, works: Sequence[Work]) -> Shares:
    """Share `DULY_POOL_SIZE` out among the parts of a worker for this work; Misconfigured when it is too small."""
    places = frozenset[Where]().union(*(work.places for work in works))
    has_threads = Where.THREAD in places
    least = FIXED + 2 + has_threads
    if pool_size < least:
        raise Misconfigured(
            f"DULY_POOL_SIZE={pool_size} is too small for this worker, which needs {least} connections "
            f"(to claim, to renew leases, to listen, and for handlers); set DULY_POOL_SIZE={least} or more"
        )
    left = pool_size - FIXED
    if not has_threads:
        return Shares(control=left // 2, loop=left - left // 2, threads=0)
    control = max(1, left // 3)
    loop = max(1, (left - control) // 2) if Where.LOOP in places else 1
    return Shares(control, loop, threads=left - control - loop)
