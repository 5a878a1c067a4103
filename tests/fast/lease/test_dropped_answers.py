"""Statements whose answer was lost: committed or not, repeating them is safe."""

import asyncio
import time
from collections.abc import AsyncGenerator, Generator
from typing import Any

import psycopg
import pytest

from duly.db.pool import connect
from duly.errors import LeaseLost
from duly.lease.operations import Lease, claim_expired_rows, renew_leases
from tests.fast.lease.test_lease import LEASE, MANY_STARTS, add_rows, claim_rows, read_column, take_over
from tests.support.conformance.fixtures import Clock, Connection
from tests.support.conformance.tables import Shape
from tests.support.proxy import Proxy

Admin = psycopg.Connection[Any]
SECONDS = 30.0
COMMIT = b"COMMIT\0"  # to its end: a transaction begins with READ COMMITTED


@pytest.fixture
def proxy(workers: str) -> Generator[Proxy, None, None]:
    """Open a proxy between workers and their database that can drop answers."""
    with Proxy(workers) as proxy:
        yield proxy


@pytest.fixture
async def fragile(proxy: Proxy) -> AsyncGenerator[Connection, None]:
    """Open a worker's connection through the proxy."""
    async with await connect(proxy.address) as connection:
        yield connection


async def settle_with_a_receipt(connection: Connection, lease: Lease, shape: Shape) -> None:
    """Run the transaction at the end of work: settle first, then write the result."""
    async with connection.transaction():
        if lease.key not in await shape.settle(connection, [lease]):
            raise LeaseLost(str(lease.key))
        await connection.execute(
            "insert into conformance.receipt (key, written_by) values (%s, %s) on conflict (key) do nothing",
            [str(lease.key), lease.owner],
        )


def written(admin: Admin) -> list[tuple[str, str]]:
    """Return every receipt."""
    return admin.execute("select key, written_by from conformance.receipt").fetchall()


def transitions(admin: Admin, shape: Shape) -> list[str]:
    """Return the states that rows of the table moved to, from the log."""
    log = "select next_status from duly.transition where machine = %s order by key, seq"
    return [state for (state,) in admin.execute(log, [shape.machine.name])]


async def take_some(connection: Connection, shape: Shape, limit: int) -> list[Lease]:
    """Claim so many of the expired rows as another worker."""
    if not shape.table.can_claim_expired:
        await shape.sweep(connection, limit)
        return await claim_rows(connection, shape, limit=limit)
    return await claim_expired_rows(
        connection, shape.table, "worker-1", lease_seconds=LEASE, max_starts=MANY_STARTS, limit=limit
    )


async def test_settle_repeated_after_an_unconfirmed_commit_is_applied_once(
    shape: Shape, fragile: Connection, proxy: Proxy, admin: Admin
) -> None:
    add_rows(admin, shape)
    (lease,) = await claim_rows(fragile, shape)
    proxy.cut_after(COMMIT)
    with pytest.raises(psycopg.OperationalError):
        await settle_with_a_receipt(fragile, lease, shape)
    assert read_column(admin, shape, shape.state) == [shape.end]
    async with await connect(proxy.address) as again:
        await settle_with_a_receipt(again, lease, shape)
    assert transitions(admin, shape) == [shape.ready, shape.held, shape.end]
    assert read_column(admin, shape, "settled_by") == [lease.owner]
    assert written(admin) == [(str(lease.key), lease.owner)]
    assert (proxy.connections, proxy.connections_cut) == (2, 1)


async def test_repeated_settle_is_applied_if_the_first_commit_never_arrived(
    shape: Shape, fragile: Connection, proxy: Proxy, admin: Admin
) -> None:
    add_rows(admin, shape)
    (lease,) = await claim_rows(fragile, shape)
    proxy.cut_before(COMMIT)
    with pytest.raises(psycopg.OperationalError):
        await settle_with_a_receipt(fragile, lease, shape)
    assert read_column(admin, shape, shape.state) == [shape.held]
    assert written(admin) == []
    async with await connect(proxy.address) as again:
        await settle_with_a_receipt(again, lease, shape)
    assert transitions(admin, shape) == [shape.ready, shape.held, shape.end]
    assert read_column(admin, shape, "settled_by") == [lease.owner]
    assert written(admin) == [(str(lease.key), lease.owner)]


async def test_repeated_settle_raises_lease_lost_if_another_worker_claimed_the_row(
    shape: Shape, fragile: Connection, other: Connection, proxy: Proxy, admin: Admin, clock: Clock
) -> None:
    add_rows(admin, shape)
    (lease,) = await claim_rows(fragile, shape)
    proxy.cut_before(COMMIT)
    with pytest.raises(psycopg.OperationalError):
        await settle_with_a_receipt(fragile, lease, shape)
    clock.advance(LEASE + 1)
    new = await take_over_once_free(other, shape)
    async with await connect(proxy.address) as again:
        with pytest.raises(LeaseLost):
            await settle_with_a_receipt(again, lease, shape)
    await settle_with_a_receipt(other, new, shape)
    assert written(admin) == [(str(new.key), new.owner)]


async def take_over_once_free(connection: Connection, shape: Shape) -> Lease:
    """Claim the one expired row as soon as the server has noticed that its last transaction is dead."""
    async with asyncio.timeout(SECONDS):
        while True:
            if reclaimed := await take_over(connection, shape):
                return reclaimed[0]


async def settle_without_reply(proxy: Proxy, connection: Connection, leases: list[Lease], shape: Shape) -> None:
    """Settle a batch while answers are dropped, until the connection breaks."""
    swallowed = proxy.drop_answers()
    settling = asyncio.create_task(shape.settle(connection, leases))
    assert await asyncio.to_thread(swallowed.wait, SECONDS)
    proxy.cut()
    with pytest.raises(psycopg.OperationalError):
        await settling
    proxy.resume()


async def test_a_batch_settled_without_confirmation_is_returned_in_full_when_repeated(
    shape: Shape, fragile: Connection, proxy: Proxy, admin: Admin
) -> None:
    add_rows(admin, shape, 100)
    leases = await claim_rows(fragile, shape, limit=100)
    await settle_without_reply(proxy, fragile, leases, shape)
    async with await connect(proxy.address) as again:
        assert await shape.settle(again, leases) == {lease.key for lease in leases}
    assert transitions(admin, shape) == [shape.ready, shape.held, shape.end] * 100


async def test_a_row_that_another_worker_claimed_is_not_returned_by_a_repeated_batch(
    shape: Shape, fragile: Connection, other: Connection, proxy: Proxy, admin: Admin, clock: Clock
) -> None:
    add_rows(admin, shape, 100)
    leases = await claim_rows(fragile, shape, limit=100)
    clock.advance(LEASE + 1)
    reclaimed = await take_some(other, shape, limit=10)
    await settle_without_reply(proxy, fragile, leases, shape)
    theirs = {lease.key for lease in reclaimed}
    async with await connect(proxy.address) as again:
        assert await shape.settle(again, leases) == {lease.key for lease in leases} - theirs
        assert await shape.settle(other, reclaimed) == theirs
        assert await shape.settle(again, leases) == {lease.key for lease in leases} - theirs
    assert len(theirs) == 10
    assert read_column(admin, shape, shape.state) == [shape.end] * 100


async def test_rows_of_an_unconfirmed_claim_return_at_expiry_and_count_a_start(
    shape: Shape, fragile: Connection, other: Connection, proxy: Proxy, admin: Admin, clock: Clock
) -> None:
    add_rows(admin, shape, 3)
    proxy.cut_after(b"skip locked")
    with pytest.raises(psycopg.OperationalError):
        await claim_rows(fragile, shape, limit=3)
    assert read_column(admin, shape, shape.state) == [shape.held] * 3
    assert len(set(read_column(admin, shape, shape.owner))) == 1
    assert await claim_rows(other, shape, limit=3) == await take_some(other, shape, limit=3) == []
    clock.advance(LEASE + 1)
    assert len(await take_some(other, shape, limit=3)) == 3
    assert read_column(admin, shape, shape.table.starts) == [2] * 3


async def started_twice(connection: Connection, admin: Admin, shape: Shape, clock: Clock) -> Lease:
    """Claim a row that was lost once: taking back one start too many would be visible."""
    add_rows(admin, shape)
    await claim_rows(connection, shape)
    clock.advance(LEASE + 1)
    (lease,) = await take_over(connection, shape)
    assert read_column(admin, shape, shape.table.starts) == [2]
    return lease


async def test_release_repeated_after_a_lost_reply_returns_the_start_once(
    shape: Shape, fragile: Connection, proxy: Proxy, admin: Admin, clock: Clock
) -> None:
    lease = await started_twice(fragile, admin, shape, clock)
    proxy.cut_after(b"greatest")
    with pytest.raises(psycopg.OperationalError):
        await shape.release(fragile, [lease])
    assert read_column(admin, shape, shape.table.starts) == [1]
    async with await connect(proxy.address) as again:
        await shape.release(again, [lease])
    assert read_column(admin, shape, shape.table.starts) == [1]


async def test_concurrent_repeated_releases_return_the_start_once(
    shape: Shape, connection: Connection, other: Connection, workers: str, admin: Admin, clock: Clock
) -> None:
    lease = await started_twice(connection, admin, shape, clock)
    async with await connect(workers) as again:
        async with connection.transaction():
            await renew_leases(connection, [lease], lease_seconds=LEASE)
            releases = [asyncio.create_task(shape.release(each, [lease])) for each in (other, again)]
            await asyncio.to_thread(wait_for_waiters, admin, 2)
        await asyncio.gather(*releases)
    assert read_column(admin, shape, shape.table.starts) == [1]


def wait_for_waiters(admin: Admin, number: int) -> None:
    """Wait until so many sessions of this database wait for a lock."""
    waiting = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    deadline = time.monotonic() + SECONDS
    while admin.execute(waiting).fetchone() != (number,):
        assert time.monotonic() < deadline, f"{number} never waited"
