"""The rendered SQL of every lease table and machine, changed only on purpose."""

from pathlib import Path

import pytest

from duly.db.migrations import DIRECTORY
from duly.delivery import OUTBOX_MACHINE
from duly.kernel.lease import TEMPLATES, render, render_settle
from duly.kernel.machine import render_machine
from tests.laws.tables import SHAPES, Shape
from tests.support.golden import check_golden

GOLDEN = Path(__file__).parent / "lease"
FRAGMENTS = ("until_", "since_", "settled")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_statements_of_a_lease_table_are_the_committed_ones(shape: Shape) -> None:
    names = [name for name in TEMPLATES if not name.startswith(FRAGMENTS) and name != "settle"]
    statements = {name: render(shape.of, name) for name in names} | {"settle": render_settle(shape.of, shape.end)}
    text = "\n\n".join(f"-- {name}\n{statements[name].as_string(None)};" for name in sorted(statements))
    check_golden(GOLDEN / f"{shape}.sql", text + "\n")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_triggers_of_a_machine_are_the_committed_ones(shape: Shape) -> None:
    check_golden(GOLDEN / f"{shape}.machine.sql", render_machine(shape.machine) + "\n")


def test_the_migration_of_the_outbox_holds_the_triggers_of_its_machine() -> None:
    """A migration is frozen text: whoever changes the machine writes another migration, and names it here."""
    assert render_machine(OUTBOX_MACHINE) in (DIRECTORY / "sql" / "0002_outbox.up.sql").read_text()
