"""Lease conformance of plans: every statement that they share with the other lease tables.

A plan has no timeline; its schedule and its runs have one.
"""

import pytest

from duly.apps.scheduler.states import PLAN_TABLE
from duly.lease.operations import claim_expired_rows, quarantine_rows
from tests.fast.lease.test_lease import LEASE, Admin, add_rows, claim_rows, read_column
from tests.support.conformance.every_table import *  # noqa: F403
from tests.support.conformance.fixtures import Clock, Connection
from tests.support.conformance.tables import PLANS, Shape
from tests.support.conformance.with_note import *  # noqa: F403


@pytest.fixture
def shape() -> Shape:
    """The shape of plans."""
    return PLANS


@pytest.fixture(autouse=True)
def alone(admin: Admin) -> None:
    """Let plans exist without schedules, with ids of their own."""
    admin.execute("alter table scheduler.job_plans drop constraint fk_job_plans_jobs_job_id")
    admin.execute("create sequence numbers")
    admin.execute("alter table scheduler.job_plans alter job_id set default nextval('numbers')")


async def test_plan_over_the_maximum_of_starts_is_stuck_with_a_reason(
    shape: Shape, connection: Connection, admin: Admin, clock: Clock
) -> None:
    add_rows(admin, shape, 2)
    await claim_rows(connection, shape)
    for _ in range(2):
        clock.advance(LEASE + 1)
        await claim_expired_rows(connection, PLAN_TABLE, "worker-1", lease_seconds=LEASE, max_starts=3)
    clock.advance(LEASE + 1)
    assert await claim_expired_rows(connection, PLAN_TABLE, "worker-1", lease_seconds=LEASE, max_starts=3) == []
    (row,) = await quarantine_rows(connection, PLAN_TABLE, max_starts=3)
    assert row["state"] == "stuck"
    assert row["last_error"].startswith("The worker died each time it planned this schedule.")
    assert sorted(read_column(admin, shape, "starts")) == [0, 3]
