"""State transitions are refused or logged by the database, whichever program makes them."""

import itertools

import psycopg
import pytest

from tests.fast.lease.test_state_machine import Admin, bring_to_state, move, statement
from tests.support.conformance.tables import Shape
from tools.state_machines.model import ILLEGAL_TRANSITION


def test_every_transition_is_allowed_or_refused_as_declared(shape: Shape, admin: Admin) -> None:
    machine = shape.machine
    for before, after in itertools.product(machine.states(), repeat=2):
        if before == after:
            continue
        admin.execute(statement("truncate {table}", shape))
        bring_to_state(admin, shape, before)
        if machine.allows(before, after):
            move(admin, shape, after)
        else:
            with pytest.raises(psycopg.DatabaseError, match=f"cannot go from {before} to {after}") as refusal:
                move(admin, shape, after)
            assert refusal.value.sqlstate == ILLEGAL_TRANSITION
