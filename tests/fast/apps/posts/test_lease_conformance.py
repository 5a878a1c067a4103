"""Conformance tests of leases on posts, on every major. Tests of state transitions are in `test_machine.py`."""

import pytest

from duly.db.pool import connect
from duly.lease.operations import find_expired_keys, release_rows, renew_leases, sweep_rows
from tests.fast.lease.test_lease import (
    LEASE,
    Admin,
    add_rows,
    claim_rows,
    read_column,
    take_over,
)
from tests.support.conformance.every_table import *  # noqa: F403
from tests.support.conformance.fixtures import Clock, Connection
from tests.support.conformance.tables import POSTS, Shape
from tests.support.conformance.with_note import *  # noqa: F403

TEN_MINUTES = 600.0


@pytest.fixture
def shape() -> Shape:
    """Posts."""
    return POSTS


@pytest.fixture(autouse=True)
def author(admin: Admin) -> None:
    """Create the authors of the posts."""
    admin.execute("insert into duly.person (uid) values ('anna')")


async def test_a_settle_repeated_after_its_answer_was_lost_is_one_version(
    shape: Shape, connection: Connection, other: Connection, admin: Admin
) -> None:
    add_rows(admin, shape)
    (lease,) = await claim_rows(connection, shape)
    await shape.settle(connection, [lease], ["FIRST"])
    await shape.settle(other, [lease], ["SECOND"])
    assert read_column(admin, shape, "version") == [3]


async def test_expired_lease_returns_the_post_and_keeps_its_start(
    shape: Shape, connection: Connection, other: Connection, admin: Admin, clock: Clock
) -> None:
    add_rows(admin, shape, 2)
    await claim_rows(connection, shape, limit=2)
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
        assert read_column(admin, shape, column) == [expected] * 2, column


async def test_sweep_with_keys_returns_only_those_posts(
    shape: Shape, connection: Connection, admin: Admin, clock: Clock
) -> None:
    add_rows(admin, shape, 3)
    held = await claim_rows(connection, shape, limit=3)
    clock.advance(LEASE + 1)
    assert [row["id"] for row in await sweep_rows(connection, shape.table, keys=[held[1].key])] == [held[1].key]
    assert sorted(read_column(admin, shape, "status")) == ["PENDING", "PROCESSING", "PROCESSING"]


async def test_release_repeated_after_a_lost_reply_returns_the_start_once(
    shape: Shape, connection: Connection, other: Connection, admin: Admin, clock: Clock
) -> None:
    add_rows(admin, shape)
    await claim_rows(connection, shape)
    clock.advance(LEASE + 1)
    (lease,) = await take_over(connection, shape)
    assert read_column(admin, shape, shape.table.starts) == [2]
    await release_rows(connection, [lease])
    await release_rows(other, [lease])
    assert read_column(admin, shape, shape.table.starts) == [1]
    assert (await renew_leases(other, [lease], lease_seconds=LEASE)).lost == {lease.claim}


async def test_post_lease_lasts_at_most_ten_minutes_despite_renewals(
    shape: Shape, connection: Connection, workers: str, admin: Admin, clock: Clock
) -> None:
    add_rows(admin, shape)
    (lease,) = await claim_rows(connection, shape)
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


def test_no_index_contains_a_column_written_on_every_update(shape: Shape, admin: Admin) -> None:
    indexed = admin.execute(
        "select distinct a.attname from pg_index i join pg_attribute a on a.attrelid = i.indrelid"
        " and a.attnum = any (i.indkey) where i.indrelid = %s::regclass",
        [str(shape.table)],
    ).fetchall()
    assert not {"version", "updated_at", "processing_since"} & {name for (name,) in indexed}
