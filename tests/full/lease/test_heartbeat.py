"""The heartbeat renews our leases, reports lost ones at once, and stops a holder in time when it gets no answer."""

import time
from typing import Any

import psycopg
import pytest
from psycopg import sql

from duly.errors import LeaseLost
from duly.lease.heartbeat import Heartbeat
from duly.lease.operations import claim_expired_rows
from tests.fast.lease.test_heartbeat import Admin, beats, claim_rows, heartbeat, lease_seconds, work_until_stopped
from tests.fast.lease.test_lease import lock
from tests.support.conformance.fixtures import Connection
from tests.support.conformance.renewing import renewing
from tests.support.conformance.tables import Shape

__all__ = ["heartbeat", "lease_seconds"]
SHORT = 3.0
SILENT = 8.0
MARGIN = 3.0  # of a usual lease, for a busy machine to eat into; the tenth of a short one is too little for that
short_lease = pytest.mark.parametrize("lease_seconds", [SHORT], ids=["short"])


async def expired(connection: Connection, shape: Shape) -> list[Any]:
    """Claim or sweep what has expired; returns the keys."""
    if not shape.table.can_claim_expired:
        return await shape.sweep(connection)
    claimed = await claim_expired_rows(connection, shape.table, "thief", lease_seconds=SHORT, max_starts=99, limit=99)
    return [lease.key for lease in claimed]


@short_lease
async def test_a_lease_that_is_renewed_stays_valid_for_many_times_its_duration(
    shape: Shape, heartbeat: Heartbeat, connection: Connection, admin: Admin
) -> None:
    (lease,) = await claim_rows(connection, admin, shape, lease_seconds=SHORT)
    began = time.monotonic()
    async with renewing(heartbeat, lease):
        while time.monotonic() - began < 2 * SHORT:
            await beats(heartbeat, 3)
            assert await expired(connection, shape) == []
        await lock(connection, shape, lease)


@pytest.mark.parametrize("lease_seconds", [SILENT], ids=["silent"])
async def test_a_worker_without_database_answers_stops_before_its_lease_expires(
    shape: Shape, heartbeat: Heartbeat, connection: Connection, admin: Admin, conformance_dsn: str
) -> None:
    heartbeat.margin_seconds = MARGIN
    (lease,) = await claim_rows(connection, admin, shape, lease_seconds=SILENT)
    with psycopg.connect(conformance_dsn, dbname="postgres", autocommit=True) as outside:
        name = sql.Identifier(admin.info.dbname)

        def cut() -> None:
            outside.execute(sql.SQL("alter database {} allow_connections false").format(name))
            outside.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [admin.info.dbname]
            )

        await_stop = time.monotonic()
        with pytest.raises(LeaseLost, match="did not confirm"):
            await work_until_stopped(heartbeat, lease, before=cut)
        assert time.monotonic() - await_stop < SILENT
        outside.execute(sql.SQL("alter database {} allow_connections true").format(name))
