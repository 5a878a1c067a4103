"""Conformance tests of leases on capture sessions: every statement that they share with the other lease tables.

A holder of a session writes no free text beside `done`: where a law writes a note, it is told again here with results.
Tests of state transitions are in `test_machine.py`.
"""

from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from duly.lease.bisect import bisect
from duly.lease.operations import Lease, settle_many
from tests.fast.apps.ingest.test_lease_conformance import shape
from tests.fast.lease.test_lease import Admin, hold, look, put
from tests.full.lease.test_plans import test_no_statement_scans_a_table_that_was_analysed_while_idle
from tests.support.conformance.everywhere import *  # noqa: F403
from tests.support.conformance.fixtures import Connection
from tests.support.conformance.tables import Shape

__all__ = ["shape", "test_no_statement_scans_a_table_that_was_analysed_while_idle"]


async def test_a_batch_of_10000_with_one_poisonous_row_settles_9999(
    shape: Shape, connection: Connection, admin: Admin
) -> None:
    put(admin, shape, 10_000)
    leases = await hold(connection, shape, limit=10_000)
    results: list[Any] = [Jsonb([] if nth == 7_777 else {}) for nth in range(10_000)]
    batch = list(zip(leases, results, strict=True))

    async def record(piece: list[tuple[Lease, Any]]) -> None:
        async with connection.transaction():
            given = [result for _, result in piece]
            await settle_many(connection, [lease for lease, _ in piece], shape.end, {"result": ("jsonb", given)})

    bad = await bisect(batch, record)  # type: ignore[arg-type]
    assert list(bad) == [7_777]
    assert isinstance(bad[7_777], psycopg.errors.CheckViolation)
    states = look(admin, shape, shape.table.state)
    assert (states.count(shape.end), states.count(shape.table.held)) == (9_999, 1)
