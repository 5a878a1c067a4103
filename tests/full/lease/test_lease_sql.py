"""The rendered SQL of every lease table and machine, changed only on purpose."""

import ast
import re
from collections.abc import Iterator

from duly.launcher import ROOT
from tests.fast.lease.test_lease_sql import STATEMENTS
from tests.proof.guards.held import HELD
from tests.support.conformance.tables import SHAPES

LAWS_OWN = [shape for shape in SHAPES if shape.table.qualified_name[0] == "laws"]  # tables that only tests have


def test_every_lease_table_in_the_house_has_its_statements_committed() -> None:
    claims = re.compile(r'^-- claim\b[^\n]*$.*?^update "\w+"."(\w+)" as t$', re.MULTILINE | re.DOTALL)
    committed = {name for file in STATEMENTS.glob("*.sql") for name in claims.findall(file.read_text())}
    described = [table_of(call) for call in calls_of("LeaseTable")]
    assert len(described) >= len(HELD) - len(LAWS_OWN), "they are looked for where they are described"
    assert committed == {*described, *(shape.table.qualified_name[1] for shape in LAWS_OWN)}


def test_every_machine_in_the_house_has_its_triggers_committed() -> None:
    committed = [file.name.removesuffix(".machine.sql") for file in STATEMENTS.glob("*.machine.sql")]
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
