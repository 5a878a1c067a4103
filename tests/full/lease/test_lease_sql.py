"""The rendered SQL of every lease table, changed only on purpose."""

import ast
import re
from collections.abc import Iterator

from duly.launcher import ROOT
from tests.fast.lease.test_lease_sql import STATEMENTS
from tests.proof.guards.held import HELD
from tests.support.conformance.tables import SHAPES

TEST_ONLY = [shape for shape in SHAPES if shape.table.qualified_name[0] == "conformance"]  # tables that only tests have


def test_every_lease_table_has_its_statements_committed() -> None:
    claims = re.compile(r'^-- claim\b[^\n]*$.*?^update "\w+"."(\w+)" as t$', re.MULTILINE | re.DOTALL)
    committed = {name for file in STATEMENTS.glob("*.sql") for name in claims.findall(file.read_text())}
    described = [table_of(call) for name in ("LeaseTable", "MessageTable") for call in calls_of(name)]
    assert len(described) >= len(HELD) - len(TEST_ONLY), "every lease table was found"
    assert committed == {*described, *(shape.table.qualified_name[1] for shape in TEST_ONLY)}


def calls_of(name: str) -> Iterator[ast.Call]:
    """Yield every call of this name in our sources."""
    for file in (ROOT / "src" / "duly").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                yield node


def table_of(call: ast.Call) -> str:
    """Return the name of the table that a LeaseTable describes; its schema may be configurable."""
    (pair,) = [argument.value for argument in call.keywords if argument.arg == "qualified_name"]
    assert isinstance(pair, ast.Tuple)
    assert isinstance(pair.elts[1], ast.Constant), "a table is spelled out where it is described"
    return str(pair.elts[1].value)
