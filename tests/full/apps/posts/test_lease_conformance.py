"""Conformance tests of leases on posts, on every major. Tests of state transitions are in `test_machine.py`."""

from contextlib import ExitStack

from tests.fast.apps.posts.test_lease_conformance import author, shape
from tests.fast.lease.test_lease import Admin, look, put
from tests.full.lease.test_plans import test_no_statement_scans_a_table_that_was_analysed_while_idle
from tests.support.conformance.everywhere import *  # noqa: F403
from tests.support.conformance.noted import *  # noqa: F403
from tests.support.conformance.tables import Shape
from tests.support.forking import ForkedProgram

__all__ = [
    "author",
    "shape",
    "test_no_statement_scans_a_table_that_was_analysed_while_idle",
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
