"""Every lease table is held to the conformance tests."""

import ast
from collections.abc import Iterator

from duly.launcher import ROOT
from tests.support.conformance.tables import EVERY_SHAPE, SHAPES

SOURCES = ROOT / "src" / "duly"
TEST_ONLY = [shape for shape in SHAPES if shape.table.qualified_name[0] == "conformance"]  # tables that only tests have


def test_every_file_of_lease_statements_is_held_to_the_conformance_tests() -> None:
    tried = {frozenset(shape.table.statements.statements) for shape in EVERY_SHAPE if shape not in TEST_ONLY}
    files = sorted(SOURCES.rglob("lease.sql"))
    assert len(files) == len(tried) == 5
    for file in files:
        names = frozenset(
            line.removeprefix("-- name: ") for line in file.read_text().splitlines() if "-- name: " in line
        )
        assert names in tried, f"{file} has no shape in tests/support/conformance/tables.py"


def find_calls(name: str) -> Iterator[ast.Call]:
    """Yield every call of this name in our sources."""
    for file in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                yield node
