"""Conformance tests of leases on posts, on every major. Tests of state transitions are in `test_machine.py`."""

import pytest

from duly.db.pool import connect
from duly.lease.operations import find_expired_keys, release_rows, renew_leases, sweep_rows
from tests.fast.lease.test_lease import (
    LEASE,
    Admin,
    hold,
    look,
    put,
    take_over,
)
from tests.support.conformance.everywhere import *  # noqa: F403
from tests.support.conformance.fixtures import Clock, Connection
from tests.support.conformance.noted import *  # noqa: F403
from tests.support.conformance.tables import POSTS, Shape

TEN_MINUTES = 600.0


@pytest.fixture
def shape() -> Shape:
    """Posts."""
    return POSTS


@pytest.fixture(autouse=True)
def author(admin: Admin) -> None:
    """Whoever posts is known."""
    admin.execute("insert into \"user\".users (uid) values ('anna')")


async def test_a_settle_repeated_after_its_answer_was_lost_is_one_version(
    shape: Shape, connection: Connection, other: Connection, admin: Admin
) -> None:
    put(admin, shape)
    (lease,) = await hold(connection, shape)
    await shape.settle(connection, [lease], ["FIRST"])
    await shape.settle(other, [lease], ["SECOND"])
    assert look(admin, shape, "version") == [3]


async def test_a_lapse_returns_the_post_and_keeps_its_start(
    shape: Shape, connection: Connection, other: Connection, admin: Admin, clock: Clock
) -> None:
    put(admin, shape, 2)
    await hold(connection, shape, limit=2)
    assert await find_expired_keys(other, shape.table) == list(await sweep_rows(other, shape.table)) == []
    clock.advance(LEASE + 1)
    found = await find_expired_keys(other, shape.table)
    assert found == [row["id"] for row in await sweep_rows(other, shape.table)]
    assert await sweep_rows(other, shape.table) == []
    for column, expected in {
        "status": "PENDING",
        "lease_owner": None,
        "lease_expires_at": None,
        "processing_since": None,
        "process_attempts": 1,
        "released_at": None,
        "version": 3,
    }.items():
        assert look(admin, shape, column) == [expected] * 2, column


async def test_only_the_posts_that_are_named_are_swept(
    shape: Shape, connection: Connection, admin: Admin, clock: Clock
) -> None:
    put(admin, shape, 3)
    held = await hold(connection, shape, limit=3)
    clock.advance(LEASE + 1)
    assert [row["id"] for row in await sweep_rows(connection, shape.table, keys=[held[1].key])] == [held[1].key]
    assert sorted(look(admin, shape, "status")) == ["PENDING", "PROCESSING", "PROCESSING"]


async def test_a_hand_back_repeated_after_its_answer_was_lost_gives_one_start_back(
    shape: Shape, connection: Connection, other: Connection, admin: Admin, clock: Clock
) -> None:
    put(admin, shape)
    await hold(connection, shape)
    clock.advance(LEASE + 1)
    (lease,) = await take_over(connection, shape)
    assert look(admin, shape, shape.table.starts) == [2]
    await release_rows(connection, [lease])
    await release_rows(other, [lease])
    assert look(admin, shape, shape.table.starts) == [1]
    assert (await renew_leases(other, [lease], lease_seconds=LEASE)).lost == {lease.claim}


async def test_no_lease_lasts_longer_than_ten_minutes_however_often_it_is_renewed(
    shape: Shape, connection: Connection, workers: str, admin: Admin, clock: Clock
) -> None:
    put(admin, shape)
    (lease,) = await hold(connection, shape)
    held = 0.0
    while held + 0.9 * LEASE < TEN_MINUTES:
        clock.advance(0.9 * LEASE)
        held += 0.9 * LEASE
        assert (await renew_leases(connection, [lease], lease_seconds=LEASE)).renewed == {lease.claim}
    async with await connect(workers) as other:
        assert await sweep_rows(other, shape.table) == []
        clock.advance(TEN_MINUTES - held + 1)
        assert (await renew_leases(connection, [lease], lease_seconds=LEASE)).lost == {lease.claim}
        assert len(await take_over(other, shape)) == 1
    assert await shape.settle(connection, [lease]) == frozenset()


def test_no_index_contains_what_the_guard_writes_at_every_change(shape: Shape, admin: Admin) -> None:
    indexed = admin.execute(
        "select distinct a.attname from pg_index i join pg_attribute a on a.attrelid = i.indrelid"
        " and a.attnum = any (i.indkey) where i.indrelid = %s::regclass",
        [str(shape.table)],
    ).fetchall()
    assert not {"version", "updated_at", "processing_since"} & {name for (name,) in indexed}
