"""Conformance tests of leases on posts, on every major. Tests of state transitions are in `test_machine.py`."""

from contextlib import ExitStack

from tests.fast.apps.posts.test_lease_conformance import author, shape
from tests.fast.lease.test_lease import Admin, add_rows, read_column
from tests.full.lease.test_plans import test_no_statement_scans_a_table_that_was_analysed_while_idle
from tests.support.conformance.every_table import *  # noqa: F403
from tests.support.conformance.tables import Shape
from tests.support.conformance.with_note import *  # noqa: F403
from tests.support.forking import ForkedProgram

__all__ = [
    "author",
    "shape",
    "test_no_statement_scans_a_table_that_was_analysed_while_idle",
]


def test_no_post_is_claimed_twice_when_eight_processes_race(shape: Shape, workers: str, admin: Admin) -> None:
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
