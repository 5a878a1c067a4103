"""Divides the connections that `DULY_POOL_SIZE` allows among the parts of a worker."""

from collections.abc import Sequence
from dataclasses import dataclass

from duly.errors import Misconfigured
from duly.executors.call import Executor
from duly.lease.work import Work

RESERVED = 2  # one renews leases, one listens for notifications


@dataclass(frozen=True)
class ConnectionShares:
    """How many connections each part of a worker may open, besides the RESERVED ones."""

    control: int  # to claim, settle and sweep
    loop: int  # handlers on the event loop, and the progress that any handler records
    threads: int  # transactions of plain functions

    @property
    def total(self) -> int:
        """The most connections that the worker opens."""
        return RESERVED + self.control + self.loop + self.threads


def share_connections(pool_size: int, works: Sequence[Work]) -> ConnectionShares:
    """Divide `DULY_POOL_SIZE` among the parts of a worker; raises Misconfigured when it is too small."""
    executors = frozenset[Executor]().union(*(work.handler_executors for work in works))
    has_threads = Executor.THREAD in executors
    minimum = RESERVED + 2 + has_threads
    if pool_size < minimum:
        raise Misconfigured(
            f"DULY_POOL_SIZE={pool_size} is too small for this worker, which needs {minimum} connections "
            f"(to claim, to renew leases, to listen, and for handlers); set DULY_POOL_SIZE={minimum} or more"
        )
    left = pool_size - RESERVED
    if not has_threads:
        return ConnectionShares(control=left // 2, loop=left - left // 2, threads=0)
    control = max(1, left // 3)
    loop = max(1, (left - control) // 2) if Executor.LOOP in executors else 1
    return ConnectionShares(control, loop, threads=left - control - loop)
