"""Work under a lease that a heartbeat renews, as a worker does it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from duly.errors import LeaseLost
from duly.lease.heartbeat import Heartbeat, WatchedLease
from duly.lease.operations import Lease


@asynccontextmanager
async def renewing(heartbeat: Heartbeat, lease: Lease) -> AsyncGenerator[WatchedLease, None]:
    """Renew a lease while the body runs; raises LeaseLost from the body when it is lost."""
    task = asyncio.current_task()
    assert task, "a lease can only be renewed for a task"
    watched = heartbeat.watch(lease, on_lost=task.cancel)
    try:
        yield watched
    except asyncio.CancelledError:
        if watched.lost_reason is None or task.uncancel() > 0:
            raise
        raise LeaseLost(watched.lost_reason) from None
    finally:
        heartbeat.unwatch(watched)
