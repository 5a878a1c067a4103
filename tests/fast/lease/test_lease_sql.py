"""The rendered SQL of every lease table and state machine, changed only on purpose."""

from duly.apps.scheduler.states import RUN_MACHINE, SCHEDULE_MACHINE
from duly.db.migrations import DIRECTORY
from duly.lease.operations import TEMPLATES, LeaseTable, render, render_settle
from duly.lease.state_machine import render_state_machine
from duly.outbox import OUTBOX_MACHINE
from duly.outbox.states import NOTIFICATION_MACHINE
from tests.proof.guards.held import HELD
from tests.support.conformance.tables import SHAPES
from tests.support.golden import GOLDEN, golden_change

STATEMENTS = GOLDEN / "lease"
FRAGMENTS = ("until_", "since_", "settled")
MACHINES = (NOTIFICATION_MACHINE, RUN_MACHINE, SCHEDULE_MACHINE)  # the others are looked at beside their domain's tests


def changes_of(texts: dict[str, str]) -> list[str]:
    """Compare every text with the golden file of its name: the differences of all."""
    return [change for name, text in texts.items() if (change := golden_change(STATEMENTS / name, text))]


def test_the_statements_of_a_lease_table_are_the_committed_ones() -> None:
    offenders = changes_of({f"{shape}.sql": statements_of(shape.table, shape.end) for shape in SHAPES})
    assert not offenders, "\n".join(offenders)


def test_the_statements_of_plans_and_notifications_are_the_committed_ones() -> None:
    held = {name: HELD[name] for name in ("plan", "notification")}
    offenders = changes_of({f"{name}.sql": statements_of(each.table, each.end) for name, each in held.items()})
    assert not offenders, "\n".join(offenders)


def test_the_triggers_of_a_machine_are_the_committed_ones() -> None:
    offenders = changes_of({f"{shape}.machine.sql": render_state_machine(shape.machine) + "\n" for shape in SHAPES})
    assert not offenders, "\n".join(offenders)


def test_the_triggers_of_notifications_runs_and_schedules_are_the_committed_ones() -> None:
    offenders = changes_of(
        {f"{machine.name}.machine.sql": render_state_machine(machine) + "\n" for machine in MACHINES}
    )
    assert not offenders, "\n".join(offenders)


def statements_of(table: LeaseTable, end: str) -> str:
    """Every statement of the lease for one table, by its name."""
    names = [name for name in TEMPLATES if not name.startswith(FRAGMENTS) and name != "settle"]
    statements = {name: render(table, name) for name in names} | {"settle": render_settle(table, end)}
    return "\n\n".join(f"-- {name}\n{statements[name].as_string(None)};" for name in sorted(statements)) + "\n"


def test_the_migration_of_the_outbox_holds_the_triggers_of_its_machine() -> None:
    """A migration is frozen text: to change the state machine, add a migration and name it here."""
    assert render_state_machine(OUTBOX_MACHINE) in (DIRECTORY / "sql" / "0002_outbox.up.sql").read_text()
