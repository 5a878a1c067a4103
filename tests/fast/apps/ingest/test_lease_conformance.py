"""Conformance tests of leases on capture sessions. Tests of state transitions are in `test_machine.py`."""

import pytest

from duly.lease.operations import (
    claim_expired_rows,
    fence_rows,
    find_expired_keys,
    quarantine_rows,
    release_rows,
    renew_leases,
)
from tests.fast.lease.test_lease import LEASE, Admin, add_rows, claim_rows, meet_in_the_middle, read_column, take_over
from tests.full.lease.test_plans import test_no_statement_scans_the_table
from tests.support.conformance.every_table import *  # noqa: F403
from tests.support.conformance.fixtures import Clock, Connection
from tests.support.conformance.tables import CAPTURES, Shape, captures
from tests.support.conformance.with_note import *  # noqa: F403

UNWRITTEN = 300.0  # the length of a lease whose holder wrote none


DUE_BY_GIVEN_AT = captures("given_at", payload="{}")
EVERY = (captures("created_at"), CAPTURES, DUE_BY_GIVEN_AT)


@pytest.fixture
def shape(request: pytest.FixtureRequest) -> Shape:
    """Sessions that are due when they are closed; where plans are looked at, by each of the three clocks."""
    return getattr(request, "param", CAPTURES)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The three clocks have three indexes."""
    if metafunc.function is test_no_statement_scans_the_table:
        metafunc.parametrize("shape", EVERY, ids=[each.due for each in EVERY], indirect=True)


async def test_two_fences_that_meet_in_the_middle_from_both_ends_never_deadlock(
    shape: Shape, connection: Connection, other: Connection, workers: str, conformance_dsn: str, admin: Admin
) -> None:
    add_rows(admin, shape, 11)
    leases = await claim_rows(connection, shape, limit=11)
    answers = await meet_in_the_middle(shape, leases, other, workers, conformance_dsn, fence_rows)
    assert answers == [{lease.key for lease in leases}] * 2


async def test_only_rows_that_are_ours_are_fenced(
    shape: Shape, connection: Connection, admin: Admin, clock: Clock
) -> None:
    add_rows(admin, shape)
    (old,) = await claim_rows(connection, shape)
    clock.advance(LEASE + 1)
    (new,) = await take_over(connection, shape)
    assert await fence_rows(connection, [old]) == frozenset()
    assert await fence_rows(connection, [new]) == {new.key}


async def test_session_over_the_maximum_of_starts_is_quarantined_with_an_error(
    shape: Shape, connection: Connection, admin: Admin, clock: Clock
) -> None:
    add_rows(admin, shape, 2)
    (lease,) = await claim_rows(connection, shape)
    for _ in range(2):
        clock.advance(LEASE + 1)
        await claim_expired_rows(connection, shape.table, "worker-1", lease_seconds=LEASE, max_starts=3)
    clock.advance(LEASE + 1)
    assert await claim_expired_rows(connection, shape.table, "worker-1", lease_seconds=LEASE, max_starts=3) == []
    (row,) = await quarantine_rows(connection, shape.table, max_starts=3)
    assert (row["id"], row["state"], row["starts"]) == (lease.key, "failed", 3)
    assert row["error"].startswith("It was started too often")
    assert await shape.settle(connection, [lease]) == frozenset()


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


async def test_lease_without_lease_seconds_expires_after_the_workers_default(
    shape: Shape, connection: Connection, admin: Admin, clock: Clock
) -> None:
    """As the contract's first worker claims: with its name and the time, and nothing else."""
    add_rows(admin, shape)
    admin.execute(
        "update schedule_ingest.capture_session"
        " set state = 'processing', locked_by = 'worker-7', locked_at = duly.clock()"
    )
    clock.advance(UNWRITTEN - 1)
    assert await find_expired_keys(connection, shape.table) == await take_over(connection, shape) == []
    clock.advance(2)
    assert len(await find_expired_keys(connection, shape.table)) == len(await take_over(connection, shape)) == 1


@pytest.mark.parametrize("shape", [CAPTURES, DUE_BY_GIVEN_AT], ids=["closed_at", "given_at"], indirect=True)
async def test_a_session_that_is_not_ready_is_not_claimed(shape: Shape, connection: Connection, admin: Admin) -> None:
    admin.execute("insert into schedule_ingest.capture_session (user_id) values (42)")
    assert await claim_rows(connection, shape) == []
