"""The rendered SQL of every lease table and machine, changed only on purpose."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from duly.db.migrations import DIRECTORY
from duly.delivery import OUTBOX_MACHINE
from duly.delivery.machine import NOTIFICATION_MACHINE
from duly.kernel.lease import TEMPLATES, LeaseTable, render, render_settle
from duly.kernel.machine import Machine, render_machine
from duly.launcher import ROOT
from duly.scheduler.machine import RUN_MACHINE, SCHEDULE_MACHINE
from tests.guards.held import HELD
from tests.laws.tables import SHAPES, Shape
from tests.support.golden import check_golden

GOLDEN = Path(__file__).parent / "lease"
LAWS_OWN = [shape for shape in SHAPES if shape.of.table[0] == "laws"]  # tables that only tests have
FRAGMENTS = ("until_", "since_", "settled")
MACHINES = (NOTIFICATION_MACHINE, RUN_MACHINE, SCHEDULE_MACHINE)  # the others are looked at beside their domain's tests


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_statements_of_a_lease_table_are_the_committed_ones(shape: Shape) -> None:
    check_golden(GOLDEN / f"{shape}.sql", statements_of(shape.of, shape.end))


@pytest.mark.parametrize("name", ["plan", "notification"])
def test_the_statements_of_plans_and_notifications_are_the_committed_ones(name: str) -> None:
    check_golden(GOLDEN / f"{name}.sql", statements_of(HELD[name].of, HELD[name].end))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_triggers_of_a_machine_are_the_committed_ones(shape: Shape) -> None:
    check_golden(GOLDEN / f"{shape}.machine.sql", render_machine(shape.machine) + "\n")


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_the_triggers_of_notifications_runs_and_schedules_are_the_committed_ones(machine: Machine) -> None:
    check_golden(GOLDEN / f"{machine.name}.machine.sql", render_machine(machine) + "\n")


def statements_of(of: LeaseTable, end: str) -> str:
    """Every statement of the lease for one table, by its name."""
    names = [name for name in TEMPLATES if not name.startswith(FRAGMENTS) and name != "settle"]
    statements = {name: render(of, name) for name in names} | {"settle": render_settle(of, end)}
    return "\n\n".join(f"-- {name}\n{statements[name].as_string(None)};" for name in sorted(statements)) + "\n"


def test_every_lease_table_in_the_house_has_its_statements_committed() -> None:
    claims = re.compile(r'^-- claim\b[^\n]*$.*?^update "\w+"."(\w+)" as t$', re.MULTILINE | re.DOTALL)
    committed = {name for file in GOLDEN.glob("*.sql") for name in claims.findall(file.read_text())}
    described = [table_of(call) for call in calls_of("LeaseTable")]
    assert len(described) >= len(HELD) - len(LAWS_OWN), "they are looked for where they are described"
    assert committed == {*described, *(shape.of.table[1] for shape in LAWS_OWN)}


def test_every_machine_in_the_house_has_its_triggers_committed() -> None:
    committed = [file.name.removesuffix(".machine.sql") for file in GOLDEN.glob("*.machine.sql")]
    described = [str(constant_of(call, "name")) for call in calls_of("Machine")]
    assert sorted(committed) == sorted([*described, *(shape.machine.name for shape in LAWS_OWN)])


def calls_of(name: str) -> Iterator[ast.Call]:
    """Wherever one of these is made in our sources, in a function or outside of any."""
    for file in (ROOT / "src" / "duly").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                yield node


def constant_of(call: ast.Call, name: str) -> object:
    """What a call gives this argument, spelled out."""
    (value,) = [argument.value for argument in call.keywords if argument.arg == name]
    assert isinstance(value, ast.Constant), f"{name} is spelled out where it is given"
    return value.value


def table_of(call: ast.Call) -> str:
    """The name of the table that a lease table is about; its schema may be the installation's."""
    (pair,) = [argument.value for argument in call.keywords if argument.arg == "table"]
    assert isinstance(pair, ast.Tuple)
    assert isinstance(pair.elts[1], ast.Constant), "a table is spelled out where it is described"
    return str(pair.elts[1].value)


def test_the_migration_of_the_outbox_holds_the_triggers_of_its_machine() -> None:
    """A migration is frozen text: whoever changes the machine writes another migration, and names it here."""
    assert render_machine(OUTBOX_MACHINE) in (DIRECTORY / "sql" / "0002_outbox.up.sql").read_text()
