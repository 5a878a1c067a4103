"""The heartbeat renews our leases, reports lost ones at once, and stops a holder in time when it gets no answer."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.db.pool import connect
from duly.errors import LeaseLost
from duly.lease.heartbeat import Heartbeat
from duly.lease.operations import Lease
from tests.fast.lease.test_lease import lock
from tests.support.conformance.fixtures import Connection
from tests.support.conformance.renewing import renewing
from tests.support.conformance.tables import Shape, insert_rows

Admin = psycopg.Connection[Any]


@pytest.fixture
def lease_seconds() -> float:
    """Return a lease that does not expire on a busy machine; tests about expiry use `short_lease`."""
    return 30.0


@pytest.fixture
async def heartbeat(workers: str, lease_seconds: float) -> AsyncGenerator[Heartbeat, None]:
    """Run a heartbeat."""
    heartbeat = Heartbeat(lambda: connect(workers), lease_seconds=lease_seconds, heartbeat_seconds=0.1)
    running = asyncio.create_task(heartbeat.run())
    yield heartbeat
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def claim_rows(
    connection: Connection, admin: Admin, shape: Shape, rows: int = 1, lease_seconds: float = 30.0
) -> list[Lease]:
    admin.execute(insert_rows(shape, {shape.note: sql.Literal("x")}, rows))
    return await shape.claim(connection, "worker-1", lease_seconds=lease_seconds, limit=rows)


async def beats(heartbeat: Heartbeat, more: int) -> None:
    """Wait for some more beats."""
    target = heartbeat.beats + more
    async with asyncio.timeout(30), heartbeat.beat_done:
        await heartbeat.beat_done.wait_for(lambda: heartbeat.beats >= target)


async def test_heartbeat_renews_in_read_committed_whatever_the_server_default(
    shape: Shape, connection: Connection, conformance_dsn: str, admin: Admin
) -> None:
    """At a stricter isolation level one row that was changed concurrently would fail the renewal of all."""
    (lease,) = await claim_rows(connection, admin, shape)
    level = "check (current_setting('transaction_isolation') = 'read committed') not valid"
    admin.execute(f"alter table {shape.table} add constraint level {level}".encode())
    strict = make_conninfo(
        conformance_dsn, user=Names().worker, options="-c default_transaction_isolation=serializable"
    )
    heartbeat = Heartbeat(lambda: connect(strict), lease_seconds=30.0, heartbeat_seconds=5.0)
    heartbeat.watch(lease, on_lost=lambda: None)
    try:
        await heartbeat.beat()
    finally:
        assert heartbeat.connection
        await heartbeat.connection.close()
    assert heartbeat.beats == 1


async def test_row_leased_to_another_owner_stops_its_handler_at_the_next_heartbeat(
    shape: Shape, heartbeat: Heartbeat, connection: Connection, admin: Admin
) -> None:
    one, two = await claim_rows(connection, admin, shape, 2)
    steal = sql.SQL("update {} set {} = 'thief' where {} = %s").format(
        sql.Identifier(*shape.table.qualified_name), sql.Identifier(shape.owner), sql.Identifier(shape.table.key)
    )
    async with renewing(heartbeat, one):
        with pytest.raises(LeaseLost, match="leased to another owner"):
            await work_until_stopped(heartbeat, two, before=lambda: admin.execute(steal, [two.key]))
        await beats(heartbeat, 1)
        await lock(connection, shape, one)


async def work_until_stopped(heartbeat: Heartbeat, lease: Lease, before: Callable[[], object]) -> None:
    """Work for ever."""
    async with renewing(heartbeat, lease):
        before()
        await asyncio.Event().wait()


async def test_row_locked_by_its_own_transaction_is_not_lost(
    shape: Shape, heartbeat: Heartbeat, connection: Connection, other: Connection, admin: Admin
) -> None:
    one, two = await claim_rows(connection, admin, shape, 2)
    async with renewing(heartbeat, one) as first, renewing(heartbeat, two) as second, other.transaction():
        await lock(other, shape, two)
        valid_until = first.valid_until
        await beats(heartbeat, 2)
        assert first.valid_until > valid_until
        assert second.lost_reason is None


async def test_heartbeat_reconnects_after_a_broken_connection(
    shape: Shape, heartbeat: Heartbeat, connection: Connection, admin: Admin, workers: str
) -> None:
    (lease,) = await claim_rows(connection, admin, shape)
    async with renewing(heartbeat, lease):
        await beats(heartbeat, 1)
        cut = "select pg_terminate_backend(pid) from pg_stat_activity where usename = %s and datname = %s"
        admin.execute(cut, ["duly_worker", admin.info.dbname])
        await beats(heartbeat, 3)
        async with await connect(workers) as another:
            await lock(another, shape, lease)


async def test_handler_stops_before_its_lease_ends_if_renewal_is_not_confirmed(
    shape: Shape, connection: Connection, admin: Admin
) -> None:
    async def refuse_connection() -> Connection:
        raise OSError("connection refused")

    long_ago, just_now = await claim_rows(connection, admin, shape, 2, lease_seconds=3000.0)
    almost_over = replace(long_ago, sent_at=time.monotonic() - 2800.0)  # the lease has 200 s left, the margin is 300 s
    heartbeat = Heartbeat(refuse_connection, lease_seconds=3000.0, heartbeat_seconds=900.0, margin_seconds=300.0)
    stopped = asyncio.Event()
    lost = heartbeat.watch(almost_over, on_lost=stopped.set)
    kept = heartbeat.watch(just_now, on_lost=lambda: None)
    running = asyncio.create_task(heartbeat.run())
    try:
        async with asyncio.timeout(10):
            await stopped.wait()
    finally:
        running.cancel()
        await asyncio.wait([running])
    assert lost.lost_reason == f"the database did not confirm the renewal of {shape.table} {long_ago.key} in time"
    assert kept.lost_reason is None


def test_heartbeat_interval_too_long_for_its_lease_is_refused() -> None:
    with pytest.raises(AssertionError, match="two heartbeats"):
        Heartbeat(lambda: connect(""), lease_seconds=30, heartbeat_seconds=10)
