"""The triggers of the state machines, changed only on purpose."""

from duly.apps.scheduler.states import RUN_MACHINE, SCHEDULE_MACHINE
from duly.db.migrations import DIRECTORY
from duly.lease.state_machine import render_state_machine
from duly.outbox import OUTBOX_MACHINE
from duly.outbox.states import NOTIFICATION_MACHINE
from tests.support.conformance.tables import SHAPES
from tests.support.golden import GOLDEN, golden_change

MACHINES = GOLDEN / "lease"
OTHERS = (NOTIFICATION_MACHINE, RUN_MACHINE, SCHEDULE_MACHINE)  # the rest are held beside the tests of their packages


def test_the_triggers_of_a_machine_are_the_committed_ones() -> None:
    machines = (*(shape.machine for shape in SHAPES), *OTHERS)
    changes = [
        golden_change(MACHINES / f"{machine.name}.machine.sql", render_state_machine(machine) + "\n")
        for machine in machines
    ]
    assert not any(changes), "\n".join(filter(None, changes))


def test_the_migration_of_the_outbox_holds_the_triggers_of_its_machine() -> None:
    """A migration is frozen text: to change the state machine, add a migration and name it here."""
    assert render_state_machine(OUTBOX_MACHINE) in (DIRECTORY / "sql" / "0002_outbox.up.sql").read_text()
