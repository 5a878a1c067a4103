"""Statements whose answer was lost: committed or not, repeating them is safe."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from duly.db.pool import connect
from duly.lease.heartbeat import Heartbeat, WatchedLease
from duly.lease.operations import Lease
from tests.fast.lease.test_dropped_answers import SECONDS, Admin, proxy
from tests.fast.lease.test_heartbeat import beats
from tests.fast.lease.test_lease import add_rows, claim_rows, lock
from tests.full.lease.test_heartbeat import expired
from tests.support.conformance.fixtures import Connection
from tests.support.conformance.renewing import renewing
from tests.support.conformance.tables import Shape
from tests.support.proxy import Proxy

__all__ = ["proxy"]


async def test_a_heartbeat_without_answers_gives_up_leases_in_time_and_resumes_after_reconnecting(
    shape: Shape, connection: Connection, proxy: Proxy, admin: Admin
) -> None:
    seconds, margin = 4.0, 1.5
    heartbeat = Heartbeat(
        lambda: connect(proxy.address), lease_seconds=seconds, heartbeat_seconds=0.2, margin_seconds=margin
    )
    async with running(heartbeat):
        add_rows(admin, shape)
        (old,) = await claim_rows(connection, shape, seconds=seconds)
        lost, stopped_at = await work_until_cut_off(heartbeat, old, proxy)
        assert lost.valid_until <= stopped_at < lost.valid_until + margin
        assert await expired(connection, shape) == []
        proxy.resume()
        add_rows(admin, shape)
        (new,) = await claim_rows(connection, shape, seconds=seconds)
        async with renewing(heartbeat, new):
            await beats(heartbeat, 2)
            await lock(connection, shape, new)


@asynccontextmanager
async def running(heartbeat: Heartbeat) -> AsyncGenerator[None, None]:
    """Run the heartbeat while the body runs."""
    task = asyncio.create_task(heartbeat.run())
    yield
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def work_until_cut_off(heartbeat: Heartbeat, lease: Lease, proxy: Proxy) -> tuple[WatchedLease, float]:
    """Renew a lease until the heartbeat counts it as lost because its connection fell silent; returns when that was."""
    stopped = asyncio.Event()
    watched = heartbeat.watch(lease, on_lost=stopped.set)
    await beats(heartbeat, 1)
    proxy.freeze()
    async with asyncio.timeout(SECONDS):
        await stopped.wait()
    heartbeat.unwatch(watched)
    assert watched.lost_reason
    assert "did not confirm" in watched.lost_reason
    return watched, time.monotonic()
