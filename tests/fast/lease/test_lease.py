"""Conformance tests of leases, over every lease table and every PostgreSQL version."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest
from psycopg import sql

from duly.db.pool import connect
from duly.errors import LeaseLost
from duly.lease.operations import Lease, claim_expired_rows, quarantine_rows, renew_leases
from tests.support.conformance.fixtures import Clock, Connection
from tests.support.conformance.tables import LEASE, MANY_STARTS, SHAPES, Shape, insert_rows
from tests.support.locks import wait_until_blocked

Admin = psycopg.Connection[Any]
Act = Callable[[Connection, list[Lease]], Awaitable[object]]


def add_rows(admin: Admin, shape: Shape, rows: int = 1) -> None:
    """Insert due rows."""
    admin.execute(insert_rows(shape, {shape.due: sql.SQL("duly.clock()")}, rows))


def read_column(admin: Admin, shape: Shape, column: str) -> list[Any]:
    """Return one column of every row, in the order of the keys."""
    statement = sql.SQL("select {} from {} order by {}").format(
        sql.Identifier(column), sql.Identifier(*shape.table.qualified_name), sql.Identifier(shape.table.key)
    )
    return [value for (value,) in admin.execute(statement)]


async def claim_rows(connection: Connection, shape: Shape, *, seconds: float = LEASE, limit: int = 1) -> list[Lease]:
    """Claim under the worker id that every container uses."""
    return await shape.claim(connection, "worker-1", lease_seconds=seconds, limit=limit)


async def lock(connection: Connection, shape: Shape, lease: Lease) -> None:
    """Lock a row until the transaction ends; it must be ours."""
    statement = sql.SQL("select from {} where {} = %s and {} = %s for no key update")
    names = sql.Identifier(*shape.table.qualified_name), sql.Identifier(shape.table.key), sql.Identifier(shape.owner)
    found = await connection.execute(statement.format(*names), [lease.key, lease.owner])
    assert found.rowcount == 1


async def take_over(connection: Connection, shape: Shape) -> list[Lease]:
    """Claim expired rows as another worker: swept and claimed again, or reclaimed."""
    if not shape.table.can_claim_expired:
        await shape.sweep(connection)
        return await claim_rows(connection, shape)
    return await claim_expired_rows(connection, shape.table, "worker-1", lease_seconds=LEASE, max_starts=MANY_STARTS)


async def test_a_stale_worker_cannot_settle_after_its_row_was_claimed_again(
    shape: Shape, connection: Connection, admin: Admin, clock: Clock
) -> None:
    add_rows(admin, shape)
    (old,) = await claim_rows(connection, shape)
    clock.advance(LEASE + 1)
    (new,) = await take_over(connection, shape)
    assert old.key == new.key
    assert await shape.settle(connection, [old]) == frozenset()
    assert read_column(admin, shape, shape.owner) == [new.owner]
    renewal = await renew_leases(connection, [old], lease_seconds=LEASE)
    assert renewal.lost == {old.claim}
    assert await shape.settle(connection, [new]) == {new.key}
    assert read_column(admin, shape, shape.state) == [shape.end]


async def test_settle_repeated_after_a_lost_reply_succeeds_and_is_applied_once(
    shape: Shape, connection: Connection, other: Connection, admin: Admin
) -> None:
    add_rows(admin, shape)
    (lease,) = await claim_rows(connection, shape)
    assert await shape.settle(connection, [lease], ["FIRST"]) == {lease.key}
    assert await shape.settle(other, [lease], ["SECOND"]) == {lease.key}
    (note,) = read_column(admin, shape, shape.note)
    assert note in ("FIRST", {"note": "FIRST"})
    assert read_column(admin, shape, "settled_by") == [lease.owner]


async def test_two_concurrent_settles_of_one_batch_succeed_and_are_applied_once(
    shape: Shape, connection: Connection, workers: str, conformance_dsn: str, admin: Admin
) -> None:
    add_rows(admin, shape, 50)
    leases = await claim_rows(connection, shape, limit=50)
    async with await connect(workers) as one, await connect(workers) as two:
        async with one.transaction():
            first = await shape.settle(one, leases)
            waiting = asyncio.create_task(shape.settle(two, leases[::-1]))
            (transaction,) = await (await one.execute("select pg_current_xact_id()::xid")).fetchone() or ("none",)
            await asyncio.to_thread(wait_until_blocked, conformance_dsn)
        assert await waiting == first == {lease.key for lease in leases}
    assert read_column(admin, shape, "xmin") == [transaction] * 50


async def test_overlapping_batches_never_deadlock_in_any_order(
    shape: Shape, connection: Connection, workers: str, admin: Admin
) -> None:
    add_rows(admin, shape, 200)
    leases = await claim_rows(connection, shape, limit=200)
    orders = [leases, leases[::-1], leases[::2] + leases[1::2], leases[100:] + leases[:100]]
    async with await connect(workers) as one, await connect(workers) as two:
        for order in orders:
            await asyncio.gather(
                renew_leases(one, order, lease_seconds=LEASE), renew_leases(two, order[::-1], lease_seconds=LEASE)
            )
        answers = await asyncio.gather(shape.settle(one, leases), shape.settle(two, leases[::-1]))
    assert answers[0] == answers[1] == {lease.key for lease in leases}


@pytest.mark.parametrize("act", ["settle", "release"])
async def test_batches_in_opposite_order_never_deadlock(
    shape: Shape, connection: Connection, other: Connection, workers: str, conformance_dsn: str, admin: Admin, act: str
) -> None:
    add_rows(admin, shape, 11)
    leases = await claim_rows(connection, shape, limit=11)
    run: Act = shape.settle if act == "settle" else shape.release
    answers = await meet_in_the_middle(shape, leases, other, workers, conformance_dsn, run)
    if act == "settle":
        assert answers == [{lease.key for lease in leases}] * 2


async def meet_in_the_middle(
    shape: Shape, leases: list[Lease], other: Connection, workers: str, conformance_dsn: str, act: Act
) -> list[Any]:
    """Act on eleven rows from both ends at once.

    One lock in the middle blocks both: a batch that locked rows in its own order would have locked half of them.
    """
    leases = sorted(leases, key=lambda lease: lease.key)
    async with await connect(workers) as one, await connect(workers) as two:

        async def at_once(conn: Connection, batch: list[Lease]) -> object:
            async with conn.transaction():
                return await act(conn, batch)

        async with other.transaction():
            await lock(other, shape, leases[5])
            both = [asyncio.create_task(at_once(one, leases)), asyncio.create_task(at_once(two, leases[::-1]))]
            await asyncio.to_thread(wait_until_blocked, conformance_dsn, 2)
        return await asyncio.gather(*both)


async def test_renewal_skips_a_locked_row_and_reports_it_as_busy(
    shape: Shape, connection: Connection, other: Connection, admin: Admin, clock: Clock
) -> None:
    add_rows(admin, shape, 3)
    leases = await claim_rows(connection, shape, limit=3)
    async with other.transaction():
        await lock(other, shape, leases[1])
        async with asyncio.timeout(5):
            renewal = await renew_leases(connection, leases, lease_seconds=LEASE)
    assert renewal.renewed == {leases[0].claim, leases[2].claim}
    assert renewal.skipped == {leases[1].claim}
    assert not renewal.lost
    again = await renew_leases(connection, leases, lease_seconds=LEASE)
    assert again.renewed == {lease.claim for lease in leases}


async def test_renewed_lease_is_kept_and_unrenewed_lease_expires(
    shape: Shape, connection: Connection, other: Connection, admin: Admin, clock: Clock
) -> None:
    add_rows(admin, shape)
    (lease,) = await claim_rows(connection, shape)
    for _ in range(5):
        clock.advance(LEASE * 0.9)
        assert (await renew_leases(connection, [lease], lease_seconds=LEASE)).renewed == {lease.claim}
        assert await take_over(other, shape) == []
    clock.advance(LEASE * 1.1)
    (claimed,) = await take_over(other, shape)
    assert claimed.key == lease.key


async def test_a_worker_with_short_leases_does_not_take_over_a_long_lease(
    shape: Shape, connection: Connection, other: Connection, admin: Admin, clock: Clock
) -> None:
    add_rows(admin, shape)
    await claim_rows(connection, shape, seconds=300)
    clock.advance(31)
    assert await take_over(other, shape) == []
    clock.advance(270)
    assert len(await take_over(other, shape)) == 1


async def test_claim_increments_starts_and_release_decrements_it(
    shape: Shape, connection: Connection, admin: Admin, clock: Clock
) -> None:
    add_rows(admin, shape)
    (lease,) = await claim_rows(connection, shape)
    assert read_column(admin, shape, shape.table.starts) == [1]
    await shape.release(connection, [lease])
    assert read_column(admin, shape, shape.table.starts) == [0]
    clock.advance(0.01)
    (again,) = await take_over(connection, shape)
    assert again.key == lease.key
    assert read_column(admin, shape, shape.table.starts) == [1]
    await shape.settle(connection, [lease])
    assert read_column(admin, shape, shape.owner) == [again.owner]


async def test_releasing_a_lost_lease_changes_nothing(
    shape: Shape, connection: Connection, admin: Admin, clock: Clock
) -> None:
    add_rows(admin, shape)
    (old,) = await claim_rows(connection, shape)
    clock.advance(LEASE + 1)
    (new,) = await take_over(connection, shape)
    await shape.release(connection, [old])
    assert await shape.settle(connection, [new]) == {new.key}


async def test_rows_are_claimed_in_due_order_and_never_early(
    shape: Shape, connection: Connection, admin: Admin, clock: Clock
) -> None:
    add_rows(admin, shape, 3)
    clock.advance(100)
    add_rows(admin, shape, 2)
    clock.advance(-50)
    early = await claim_rows(connection, shape, limit=10)
    assert len(early) == 3
    assert [lease.row[shape.due] for lease in early] == sorted(lease.row[shape.due] for lease in early)
    clock.advance(50)
    assert len(await claim_rows(connection, shape, limit=10)) == 2


async def test_row_claimed_again_keeps_its_due_time(
    shape: Shape, connection: Connection, admin: Admin, clock: Clock
) -> None:
    add_rows(admin, shape)
    before = read_column(admin, shape, shape.due)
    await claim_rows(connection, shape)
    clock.advance(LEASE + 1)
    await take_over(connection, shape)
    assert (read_column(admin, shape, shape.due) == before) is shape.keeps_due


async def test_expired_rows_are_claimed_despite_a_backlog_and_locked_ones_skipped(
    shape: Shape, connection: Connection, other: Connection, admin: Admin, clock: Clock
) -> None:
    add_rows(admin, shape, 2)
    expired_leases = await claim_rows(connection, shape, limit=2)
    add_rows(admin, shape, 500)
    clock.advance(LEASE + 1)
    async with other.transaction():
        await other.execute(
            sql.SQL("select from {} where {} = %s for update").format(
                sql.Identifier(*shape.table.qualified_name), sql.Identifier(shape.table.key)
            ),
            [expired_leases[0].key],
        )
        if not shape.table.can_claim_expired:
            found = await shape.sweep(connection)
        else:
            leases = await claim_expired_rows(
                connection, shape.table, "worker-1", lease_seconds=LEASE, max_starts=MANY_STARTS, limit=10
            )
            found = [lease.key for lease in leases]
    assert found == [expired_leases[1].key]


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape.quarantined], ids=str)
async def test_row_over_the_maximum_of_starts_is_quarantined(
    connection: Connection, admin: Admin, clock: Clock, shape: Shape
) -> None:
    add_rows(admin, shape, 2)
    await claim_rows(connection, shape)
    for _ in range(2):
        clock.advance(LEASE + 1)
        await claim_expired_rows(connection, shape.table, "worker-1", lease_seconds=LEASE, max_starts=3)
    clock.advance(LEASE + 1)
    assert await claim_expired_rows(connection, shape.table, "worker-1", lease_seconds=LEASE, max_starts=3) == []
    (row,) = await quarantine_rows(connection, shape.table, max_starts=3)
    assert row[shape.state] == shape.quarantined
    assert read_column(admin, shape, shape.table.starts) == [3, 0]


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape.cancel], ids=str)
async def test_a_cancel_request_is_returned_by_the_renewal(shape: Shape, connection: Connection, admin: Admin) -> None:
    assert shape.cancel
    add_rows(admin, shape, 2)
    one, two = await claim_rows(connection, shape, limit=2)
    statement = sql.SQL("update {} set {} = duly.clock() where {} = %s").format(
        sql.Identifier(*shape.table.qualified_name), sql.Identifier(shape.cancel), sql.Identifier(shape.table.key)
    )
    admin.execute(statement, [two.key])
    assert (await renew_leases(connection, [one, two], lease_seconds=LEASE)).cancelled == {two.claim}


async def test_renewals_are_hot_updates(shape: Shape, connection: Connection, other: Connection, admin: Admin) -> None:
    add_rows(admin, shape, 12)  # few enough that a second version of each fits on their page
    leases = await claim_rows(connection, shape, limit=12)
    admin.execute(sql.SQL("vacuum {}").format(sql.Identifier(*shape.table.qualified_name)))
    async with other.transaction():
        before = await updates(other, shape)
        await renew_leases(other, leases, lease_seconds=LEASE)
        after = await updates(other, shape)
    assert (after[0] - before[0], after[1] - before[1]) == (12, 12)


async def updates(connection: Connection, shape: Shape) -> tuple[int, int]:
    """Return how many rows of the table this backend updated, and how many of these were HOT updates."""
    query = "select pg_stat_get_xact_tuples_updated({0}::regclass), pg_stat_get_xact_tuples_hot_updated({0}::regclass)"
    cursor = await connection.execute(sql.SQL(query).format(sql.Literal(str(shape.table))))
    return await cursor.fetchone() or (0, 0)


async def test_no_index_contains_a_column_written_by_renewal(shape: Shape, admin: Admin) -> None:
    written = {*shape.renewed, "revision", "transition_from"}
    indexed = admin.execute(
        "select distinct a.attname from pg_index i join pg_attribute a on a.attrelid = i.indrelid"
        " and a.attnum = any (i.indkey) where i.indrelid = %s::regclass",
        [str(shape.table)],
    ).fetchall()
    assert not written & {name for (name,) in indexed}


async def test_writes_after_a_settle_roll_back_when_the_lease_is_lost(
    shape: Shape, connection: Connection, admin: Admin, clock: Clock
) -> None:
    add_rows(admin, shape, 2)
    (lease, _) = await claim_rows(connection, shape, limit=2)
    clock.advance(LEASE + 1)
    await take_over(connection, shape)
    with pytest.raises(LeaseLost):
        await settle_and_write(connection, lease, shape)
    assert read_column(admin, shape, shape.note) == [None, None]


async def settle_and_write(connection: Connection, lease: Lease, shape: Shape) -> None:
    async with connection.transaction():
        if lease.key not in await shape.settle(connection, [lease]):
            raise LeaseLost(str(lease.key))
        write = sql.SQL("update {} set {} = '\"written by a stale worker\"'")
        await connection.execute(write.format(sql.Identifier(*shape.table.qualified_name), sql.Identifier(shape.note)))


async def test_renewal_after_a_release_reports_lost_and_does_not_undo_it(
    shape: Shape, connection: Connection, other: Connection, admin: Admin
) -> None:
    add_rows(admin, shape)
    (lease,) = await claim_rows(connection, shape)
    async with connection.transaction():
        await shape.release(connection, [lease])
    assert (await renew_leases(other, [lease], lease_seconds=LEASE)).lost == {lease.claim}
    assert [claimed.key for claimed in await take_over(connection, shape)] == [lease.key]


async def test_stale_lease_in_a_renewal_does_not_affect_the_valid_one(
    shape: Shape, connection: Connection, admin: Admin, clock: Clock
) -> None:
    add_rows(admin, shape)
    (old,) = await claim_rows(connection, shape)
    clock.advance(LEASE + 1)
    (new,) = await take_over(connection, shape)
    renewal = await renew_leases(connection, [old, new], lease_seconds=LEASE)
    assert (renewal.lost, renewal.renewed) == ({old.claim}, {new.claim})
