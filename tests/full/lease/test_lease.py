"""Conformance tests of leases, over every lease table and every PostgreSQL version."""

from collections.abc import Sequence
from contextlib import ExitStack

import psycopg

from duly.errors import InvalidResult
from duly.lease.bisect import bisect
from duly.lease.operations import Lease
from tests.fast.lease.test_lease import Admin, add_rows, claim_rows, read_column
from tests.support.conformance.fixtures import Connection
from tests.support.conformance.tables import Shape
from tests.support.forking import ForkedProgram


def test_no_row_is_claimed_twice_when_eight_processes_race(shape: Shape, workers: str, admin: Admin) -> None:
    add_rows(admin, shape, 400)
    with ExitStack() as stack:
        racing = ("tests.support.conformance.claim_all", workers, str(shape.table))
        racers = [stack.enter_context(ForkedProgram(*racing)) for _ in range(8)]
        for racer in racers:
            assert racer.line() == "ready"
        for racer in racers:
            racer.write_line("go")
        claimed = [key for racer in racers for key in iter(racer.line, "end")]
    assert len(claimed) == len(set(claimed)) == 400
    assert read_column(admin, shape, shape.table.starts) == [1] * 400


async def test_settling_10000_rows_with_one_poison_row_settles_9999(
    shape: Shape, connection: Connection, workers: str, admin: Admin
) -> None:
    add_rows(admin, shape, 10_000)
    leases = await claim_rows(connection, shape, limit=10_000)
    notes = [shape.poison if nth == 7_777 else "FINE" for nth in range(10_000)]
    batch = list(zip(leases, notes, strict=True))

    async def record(piece: Sequence[tuple[Lease, str]]) -> None:
        async with connection.transaction():
            await shape.settle(connection, [lease for lease, _ in piece], [note for _, note in piece])

    bad = await bisect(batch, record)
    assert list(bad) == [7_777]
    assert isinstance(bad[7_777], psycopg.errors.CheckViolation | InvalidResult)
    states = read_column(admin, shape, shape.state)
    assert (states.count(shape.end), states.count(shape.held)) == (9_999, 1)
