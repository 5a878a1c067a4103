"""Conformance tests of leases on capture sessions: every statement that they share with the other lease tables.

A holder of a session writes no free text beside `done`: where a law writes a note, it is told again here with results.
Tests of state transitions are in `test_machine.py`.
"""

import pytest
from psycopg.types.json import Jsonb

from duly.apps.ingest.states import CAPTURE_MACHINE, capture_session
from duly.errors import LeaseLost
from duly.lease.operations import claim_expired, find_expired, quarantine, release, renew, settle
from tests.fast.lease.test_lease import LEASE, Admin, hold, look, put, take_over
from tests.full.lease.test_plans import test_no_statement_scans_the_table
from tests.support.conformance.everywhere import *  # noqa: F403
from tests.support.conformance.fixtures import Clock, Connection
from tests.support.conformance.tables import Shape

UNWRITTEN = 300.0  # the length of a lease whose holder wrote none


def sessions_due_by(due: str, **required: str) -> Shape:
    """Sessions as a worker sees them that goes by this clock."""
    return Shape(
        table=capture_session(due=due, lease_seconds=UNWRITTEN),
        machine=CAPTURE_MACHINE,
        end="done",
        required={"user_id": "42", **required},
    )


CLOSED = sessions_due_by("closed_at")
GIVEN = sessions_due_by("given_at", payload="{}")
EVERY = (sessions_due_by("created_at"), CLOSED, GIVEN)


@pytest.fixture
def shape(request: pytest.FixtureRequest) -> Shape:
    """Sessions that are due when they are closed; where plans are looked at, by each of the three clocks."""
    return getattr(request, "param", CLOSED)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The three clocks have three indexes."""
    if metafunc.function is test_no_statement_scans_the_table:
        metafunc.parametrize("shape", EVERY, ids=[each.table.due for each in EVERY], indirect=True)


async def test_a_settle_repeated_after_its_answer_was_lost_is_success_once(
    shape: Shape, connection: Connection, other: Connection, admin: Admin
) -> None:
    put(admin, shape)
    (lease,) = await hold(connection, shape)
    assert await settle(connection, lease, shape.end, result=("jsonb", Jsonb({"nth": 1})))
    assert not await settle(other, lease, shape.end, result=("jsonb", Jsonb({"nth": 2})))
    assert look(admin, shape, "result") == [{"nth": 1}]
    assert look(admin, shape, shape.table.settled_by) == [lease.owner]


async def test_what_follows_a_settle_in_its_transaction_is_fenced(
    shape: Shape, connection: Connection, admin: Admin, clock: Clock
) -> None:
    put(admin, shape)
    (lease,) = await hold(connection, shape)
    clock.advance(LEASE + 1)
    await take_over(connection, shape)
    with pytest.raises(LeaseLost):
        async with connection.transaction():
            await settle(connection, lease, shape.end)
    assert look(admin, shape, "result") == [None]


async def test_a_session_started_too_often_is_set_aside_with_a_sentence(
    shape: Shape, connection: Connection, admin: Admin, clock: Clock
) -> None:
    put(admin, shape, 2)
    (lease,) = await hold(connection, shape)
    for _ in range(2):
        clock.advance(LEASE + 1)
        await claim_expired(connection, shape.table, "worker-1", lease_seconds=LEASE, max_starts=3)
    clock.advance(LEASE + 1)
    assert await claim_expired(connection, shape.table, "worker-1", lease_seconds=LEASE, max_starts=3) == []
    (row,) = await quarantine(connection, shape.table, max_starts=3)
    assert (row["id"], row["state"], row["starts"]) == (lease.key, "failed", 3)
    assert row["error"].startswith("It was started too often")
    with pytest.raises(LeaseLost):
        await settle(connection, lease, shape.end)


async def test_a_hand_back_repeated_after_its_answer_was_lost_gives_one_start_back(
    shape: Shape, connection: Connection, other: Connection, admin: Admin, clock: Clock
) -> None:
    put(admin, shape)
    await hold(connection, shape)
    clock.advance(LEASE + 1)
    (lease,) = await take_over(connection, shape)
    assert look(admin, shape, shape.table.starts) == [2]
    await release(connection, [lease])
    await release(other, [lease])
    assert look(admin, shape, shape.table.starts) == [1]
    assert (await renew(other, [lease], lease_seconds=LEASE)).lost == {lease.claim}


async def test_a_holder_that_wrote_no_length_has_the_workers_own(
    shape: Shape, connection: Connection, admin: Admin, clock: Clock
) -> None:
    """As the contract's first worker claims: with its name and the time, and nothing else."""
    put(admin, shape)
    admin.execute(
        "update schedule_ingest.capture_session"
        " set state = 'processing', locked_by = 'worker-7', locked_at = duly.clock()"
    )
    clock.advance(UNWRITTEN - 1)
    assert await find_expired(connection, shape.table) == await take_over(connection, shape) == []
    clock.advance(2)
    assert len(await find_expired(connection, shape.table)) == len(await take_over(connection, shape)) == 1


@pytest.mark.parametrize("shape", [CLOSED, GIVEN], ids=["closed_at", "given_at"], indirect=True)
async def test_a_session_that_is_not_ready_is_not_claimed(shape: Shape, connection: Connection, admin: Admin) -> None:
    admin.execute("insert into schedule_ingest.capture_session (user_id) values (42)")
    assert await hold(connection, shape) == []
