"""A contract as one document for programs: the catalogue, the state machines and the invariants.

It is built without a database, and its readers need nothing of duly: the catalogue is parsed line by line, the machines
are states and edges, and every invariant is a statement that any client can run.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from duly import __version__
from duly.db.migrations import Names
from duly.verify.contract import contract_lines, contract_schemas
from duly.verify.invariants import INVARIANTS, Invariant, render_statement
from duly.verify.machines import CONTRACT_MACHINES, ContractMachine

FORMAT = 1  # increased when readers of the document have to change
STANDARD = Names()
# How to find the name in a line of each kind, where it does not come first.
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
MORE_KINDS = ("begin", "edge", "policy", "enum", "function", "grant")


def build_document(
    contracts: Sequence[str], names: Names = STANDARD, *, done: str = "done", failed: str = "failed"
) -> dict[str, Any]:
    """Return contracts as values that can be encoded as JSON."""
    every_schema = [schema for contract in contracts for schema in contract_schemas(contract, names)]

    from duly.db.migrate import newest_revisions  # with Alembic and SQLAlchemy

    def describe_invariants(contract: str | None) -> list[dict[str, str]]:
        return [
            {"name": invariant.name, "invariant": invariant.description, "sql": render(invariant)}
            for invariant in INVARIANTS
            if invariant.contract == contract
        ]

    def render(invariant: Invariant) -> str:
        return render_statement(invariant, every_schema, ingest=names.ingest, done=done, failed=failed)

    return {
        "format": FORMAT,
        "duly": __version__,
        "revisions": list(newest_revisions()),
        "contracts": [
            {
                "name": contract,
                "schemas": list(contract_schemas(contract, names)),
                "catalogue": [parse_line(line) for line in contract_lines(contract, names)],
                "machines": [
                    describe_machine(each, names) for each in CONTRACT_MACHINES.values() if each.contract == contract
                ],
                "invariants": describe_invariants(contract),
            }
            for contract in contracts
        ],
        "invariants": describe_invariants(None),
    }


def describe_machine(machine: ContractMachine, names: Names) -> dict[str, Any]:
    """Return a state machine: its states, initial states and edges."""
    schema, table = machine.table.split(".")
    return {
        "name": machine.name,
        "table": f"{names.ingest if schema == STANDARD.ingest else schema}.{table}",
        "column": machine.column,
        "log": machine.log,
        "states": list(machine.states),
        "begin": list(machine.begin),
        "edges": [list(edge) for edge in machine.edges],
        "stays": list(machine.stays),
    }


def parse_line(line: str) -> dict[str, Any]:
    """Parse a line of the catalogue to kind, name and definition; a column also to type, nullability and default."""
    kind = next(kind for kind in (*KINDS, *MORE_KINDS) if line.startswith(f"{kind} "))
    rest = line.removeprefix(f"{kind} ")
    if shape := SHAPES.get(kind):
        found = shape.match(rest)
        assert found, f"unexpected format of a line: {line}"
        parts = found.groupdict()
        return {"kind": kind, "name": parts.get("name") or f"{parts['first']}.{parts['last']}", "definition": rest}
    name, _, definition = rest.partition(" ")
    return {
        "kind": kind,
        "name": name,
        "definition": definition,
        **(parse_column(definition) if kind == "column" else {}),
    }


def parse_column(definition: str) -> dict[str, Any]:
    """Parse the definition of a column: type, nullability and default."""
    found = COLUMN.fullmatch(definition)
    assert found, f"unexpected format of a column: {definition}"
    return {"type": found["type"], "nullable": not found["not_null"], "default": found["default"]}
