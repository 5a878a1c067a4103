"""The statements of the lease find their rows by an index, whatever the statistics say and however they are planned."""

import re
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.fast.lease.test_lease import add_rows, claim_rows
from tests.support.conformance.fixtures import Connection
from tests.support.conformance.tables import Shape
from tests.support.plans import check_plan

Admin = psycopg.Connection[Any]
ROWS = 20_000
FEWER_ROWS = 5_000  # enough for a scan to be dear, where every row is moved as workers move it
PARAMETER = re.compile(r"%\((\w+)\)[sb](?:::(\"?[\w ]+\"?(?:\[\])?))?")
TYPES = {
    "limit": "bigint",
    "max_starts": "bigint",
    "lease_seconds": "float8",
    "owner": "text",
    "scan_limit": "bigint",
    "canonicalizer": "integer",
    "max_snoozes": "bigint",
}
VALUES = {
    "limit": "500",
    "max_starts": "3",
    "lease_seconds": "60",
    "owner": "'worker-1/token'",
    "channels": "array['console', 'telegram']",
    "scan_limit": "500",
    "owners": "array_fill('worker-1/token'::text, array[500])",
    "canonicalizer": "1",
    "max_snoozes": "5",
    "give_up": "false",
}
CALLS = ("ledger.",)  # what such a function does is held in the tests of its package


def plan(admin: Admin, shape: Shape, statement: sql.SQL | sql.Composed) -> str:
    """Return the plan of a prepared statement, as a worker's connection has it."""
    text = statement.as_string(admin).rstrip("; \n")
    types = TYPES | {name: given for name, given in PARAMETER.findall(text) if given}
    names = list(dict.fromkeys(name for name, _ in PARAMETER.findall(text)))
    some = f"(select array_agg({shape.table.key}) from (select * from {shape.table} limit 500) as few)"
    array = admin.execute(f"select {some}::text".encode()).fetchone() or ("{}",)
    values = {name: f"array_fill(null::{types[name][:-2]}, array[500])" for name in names if types[name][-1] == "]"}
    values |= {**VALUES, "keys": f"'{array[0]}'", "excluded_keys": f"'{array[0]}'"}
    values["key"] = "'" + array[0].strip("{}").split(",")[0] + "'"
    numbered = PARAMETER.sub(
        lambda match: f"${names.index(match[1]) + 1}" + (f"::{match[2]}" if match[2] else ""), text
    )
    kinds, given = (f"({', '.join(each[name] for name in names)})" if names else "" for each in (types, values))
    admin.execute(f"prepare asked {kinds} as {numbered}".encode())
    lines = admin.execute(f"explain execute asked {given}".encode()).fetchall()
    admin.execute("deallocate asked")
    return "\n".join(line for (line,) in lines)


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
def test_no_statement_scans_the_table(shape: Shape, admin: Admin, mode: str) -> None:
    add_rows(admin, shape, ROWS)
    admin.execute(sql.SQL("analyze {}").format(sql.Identifier(*shape.table.qualified_name)))
    admin.execute(f"set plan_cache_mode = {mode}".encode())
    check_statements(admin, shape)


async def test_no_statement_scans_a_table_that_was_analysed_while_idle(
    shape: Shape, connection: Connection, admin: Admin
) -> None:
    await fill_and_analyse_while_idle(shape, connection, admin)
    for mode in ("force_custom_plan", "force_generic_plan"):
        admin.execute(f"set plan_cache_mode = {mode}".encode())
        check_statements(admin, shape)


async def fill_and_analyse_while_idle(shape: Shape, connection: Connection, admin: Admin) -> None:
    """Have many rows finished, then analyse, then have many due and many held."""
    add_rows(admin, shape, FEWER_ROWS)
    await shape.settle(connection, await claim_rows(connection, shape, limit=FEWER_ROWS))
    admin.execute(sql.SQL("analyze {}").format(sql.Identifier(*shape.table.qualified_name)))
    add_rows(admin, shape, FEWER_ROWS)
    await claim_rows(connection, shape, limit=1_000)


def check_statements(admin: Admin, shape: Shape) -> None:
    """Hold the plan of every statement of a lease table against what no plan may do."""
    statements = shape.table.statements
    for name, text in statements.statements.items():
        if name not in shape.planned_elsewhere and not any(call in text for call in CALLS):
            check_plan(name, plan(admin, shape, getattr(statements, name)))
