"""Conformance tests of leases on posts: every statement that posts share with the other lease tables, on every major.

A holder of a post may write no free text: where a conformance test writes a note, it is repeated here with
codes. Tests of state transitions are in `test_machine.py`.
"""

from contextlib import ExitStack

import psycopg

from duly.lease.bisect import bisect
from duly.lease.operations import Lease, settle_many
from tests.fast.apps.posts.test_lease_conformance import author, shape
from tests.fast.lease.test_lease import Admin, hold, look, put, test_what_follows_a_settle_in_its_transaction_is_fenced
from tests.full.lease.test_plans import test_no_statement_scans_a_table_that_was_analysed_while_idle
from tests.support.conformance.everywhere import *  # noqa: F403
from tests.support.conformance.fixtures import Connection
from tests.support.conformance.tables import Shape
from tests.support.forking import ForkedProgram

__all__ = [
    "author",
    "shape",
    "test_no_statement_scans_a_table_that_was_analysed_while_idle",
    "test_what_follows_a_settle_in_its_transaction_is_fenced",
]


def test_no_post_ever_has_two_holders_though_eight_processes_race(shape: Shape, workers: str, admin: Admin) -> None:
    put(admin, shape, 400)
    with ExitStack() as stack:
        racing = ("tests.support.conformance.claim_all", workers, str(shape.table))
        racers = [stack.enter_context(ForkedProgram(*racing)) for _ in range(8)]
        for racer in racers:
            assert racer.line() == "ready"
        for racer in racers:
            racer.tell("go")
        claimed = [key for racer in racers for key in iter(racer.line, "end")]
    assert len(claimed) == len(set(claimed)) == 400
    assert look(admin, shape, shape.table.starts) == [1] * 400


async def test_a_batch_of_10000_with_one_poisonous_row_settles_9999(
    shape: Shape, connection: Connection, admin: Admin
) -> None:
    put(admin, shape, 10_000)
    leases = await hold(connection, shape, limit=10_000)
    codes = [shape.poison if nth == 7_777 else "FINE" for nth in range(10_000)]
    batch = list(zip(leases, codes, strict=True))

    async def record(piece: list[tuple[Lease, str]]) -> None:
        async with connection.transaction():
            texts = [code for _, code in piece]
            await settle_many(connection, [lease for lease, _ in piece], shape.end, {"ai_error": ("text", texts)})

    bad = await bisect(batch, record)  # type: ignore[arg-type]
    assert list(bad) == [7_777]
    assert isinstance(bad[7_777], psycopg.errors.CheckViolation)
    states = look(admin, shape, shape.table.state)
    assert (states.count(shape.end), states.count(shape.table.held)) == (9_999, 1)
