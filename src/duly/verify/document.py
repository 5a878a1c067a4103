"""A contract as one document for programs: what a database must have, what may happen in it, what must hold.

Nothing here needs a database, and whoever reads the document needs nothing of ours: the catalogue is taken apart line
by line, the machines are drawn as states and edges, and every law is a statement that any client can run as it is.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from duly import __version__
from duly.db.migrate import newest_revision
from duly.db.migrations import Names
from duly.verify.contract import contract_lines, schemas_of
from duly.verify.invariants import INVARIANTS, Invariant, spelled_out
from duly.verify.machines import DRAWN, Drawn

__all__ = ["FORMAT", "document_of", "parse_line"]

FORMAT = 1  # goes up when a reader of the document would have to change
STANDARD = Names()
# How a line of each kind begins, after its first word or two: the name comes first, or stands inside.
SHAPES: Mapping[str, re.Pattern[str]] = {
    "index": re.compile(r"CREATE (?:UNIQUE )?INDEX (?P<last>\S+) ON (?:ONLY )?(?P<first>\S+)\.\S+ "),
    "trigger": re.compile(r"CREATE (?:CONSTRAINT )?TRIGGER (?P<last>\S+) .*? ON (?P<first>\S+) "),
    "function": re.compile(r"CREATE OR REPLACE (?:FUNCTION|PROCEDURE) (?P<name>\S+?\(.*?\))(?= RETURNS| LANGUAGE|$)"),
    "grant": re.compile(r"\S+ on (?P<name>.+) to \S+$"),
}
COLUMN = re.compile(
    r"(?P<type>.+?)(?P<not_null> not null)?(?: default (?P<default>.+?))?(?P<identity> identity(?: always)?)?"
)
KINDS = ("partitioned table", "schema", "table", "view", "sequence", "column", "constraint", "index", "trigger")
KINDS_TOO = ("begin", "edge", "policy", "enum", "function", "grant")


def document_of(
    contracts: Sequence[str], names: Names = STANDARD, *, done: str = "done", failed: str = "failed"
) -> dict[str, Any]:
    """These contracts, as plain values that become JSON."""
    every_schema = [schema for contract in contracts for schema in schemas_of(contract, names)]

    def laws_of(contract: str | None) -> list[dict[str, str]]:
        return [{"name": law.name, "law": law.law, "sql": spell(law)} for law in INVARIANTS if law.contract == contract]

    def spell(law: Invariant) -> str:
        return spelled_out(law, every_schema, ingest=names.ingest, done=done, failed=failed)

    return {
        "format": FORMAT,
        "duly": __version__,
        "revision": newest_revision(),
        "contracts": [
            {
                "name": contract,
                "schemas": list(schemas_of(contract, names)),
                "catalogue": [parse_line(line) for line in contract_lines(contract, names)],
                "machines": [machine_of(each, names) for each in DRAWN.values() if each.contract == contract],
                "invariants": laws_of(contract),
            }
            for contract in contracts
        ],
        "invariants": laws_of(None),
    }


def machine_of(drawn: Drawn, names: Names) -> dict[str, Any]:
    """One machine: its states, where a row begins, and where it may go."""
    schema, table = drawn.table.split(".")
    return {
        "name": drawn.name,
        "table": f"{names.ingest if schema == STANDARD.ingest else schema}.{table}",
        "column": drawn.state,
        "log": drawn.log,
        "states": list(drawn.states),
        "begin": list(drawn.begin),
        "edges": [list(edge) for edge in drawn.edges],
        "stays": list(drawn.stays),
    }


def parse_line(line: str) -> dict[str, Any]:
    """A line of the catalogue as kind, name and definition, which are all that is in it; a column is taken apart."""
    kind = next(kind for kind in (*KINDS, *KINDS_TOO) if line.startswith(f"{kind} "))
    rest = line.removeprefix(f"{kind} ")
    if shape := SHAPES.get(kind):
        found = shape.match(rest)
        assert found, f"a line of another shape: {line}"
        parts = found.groupdict()
        return {"kind": kind, "name": parts.get("name") or f"{parts['first']}.{parts['last']}", "definition": rest}
    name, _, definition = rest.partition(" ")
    return {"kind": kind, "name": name, "definition": definition, **(column_of(definition) if kind == "column" else {})}


def column_of(definition: str) -> dict[str, Any]:
    """What a column is of: its type as PostgreSQL writes it, whether it may be empty, and what it is by default."""
    found = COLUMN.fullmatch(definition)
    assert found, f"a column of another shape: {definition}"
    return {"type": found["type"], "nullable": not found["not_null"], "default": found["default"]}
