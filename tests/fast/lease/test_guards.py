"""The guards and timelines in every `guards.sql` are rendered from the state machines."""

import ast

import pytest

from duly.launcher import ROOT
from tests.support.golden import golden_change
from tools.state_machines import INGEST, MACHINES
from tools.state_machines.model import StateMachine
from tools.state_machines.render import render_state_machine

PACKAGE = ROOT / "src" / "duly"
DESCRIPTIONS = ROOT / "tools" / "state_machines"


def render_guards(package: str) -> str:
    """The file of a package: its machines, one after the other."""
    names = " and ".join(machine.name for machine in MACHINES[package])
    heading = f"-- Guard and timeline of {names}: rendered from the state machine, and compared with it by a test.\n\n"
    rendered = "\n\n".join(map(render_state_machine, MACHINES[package]))
    return heading + rendered.replace(f'"{INGEST}"', INGEST) + "\n"


@pytest.mark.golden
def test_every_file_of_guards_is_rendered_from_its_state_machines() -> None:
    offenders = [golden_change(PACKAGE / package / "guards.sql", render_guards(package)) for package in MACHINES]
    assert not any(offenders), "\n".join(filter(None, offenders))


def test_every_state_machine_has_its_guard() -> None:
    rendered = {machine.name for machines in MACHINES.values() for machine in machines}
    assert {file.parent.relative_to(PACKAGE).as_posix() for file in PACKAGE.rglob("guards.sql")} == set(MACHINES)
    described = [name for file in DESCRIPTIONS.glob("*.py") for name in machine_names(ast.parse(file.read_text()))]
    assert rendered == {*described}


def machine_names(tree: ast.Module) -> list[str]:
    """The names of the state machines that a module describes."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    machines = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == StateMachine.__name__]
    values = [keyword.value for call in machines for keyword in call.keywords if keyword.arg == "name"]
    return [str(value.value) for value in values if isinstance(value, ast.Constant)]
