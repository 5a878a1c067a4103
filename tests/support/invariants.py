"""Checks after a test that the invariants of `duly verify` hold in its database.

Planning every invariant in every new database would cost more than many tests do. So only those are checked whose
tables have rows, or whose state machines have events, and all in one statement.
"""

import re
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pytest

from duly.db.migrations import Names, fill
from duly.launcher import ROOT
from duly.verify.contract import CONTRACTS, Difference, compare
from duly.verify.invariants import INVARIANTS, Invariant, render_statement

# What these packages do, people and workers do: the invariants hold afterwards. Tests of no package are the contracts'.
CHECKED_PACKAGES = (
    *("apps", "cli", "demo", "examples", "faults", "http", "integrations"),
    *("jobs", "outbox", "telegram", "testing", "verify", "worker"),
)
CATALOGUE_TESTS = ("test_demo", "test_contract_story")
SCHEMAS = [schema for several in CONTRACTS.values() for schema in several]
TABLE = re.compile(r'\b(?:from|join)\s+((?:"\w+"|\w+)\.\w+\b)(?!\()')
MACHINE = re.compile(r"machine = '(\w+)'")
# The two clocks, in the words of the contract and in those of a test, and the table that moves them; nothing else.
CLOCK = re.compile(
    r"function CREATE OR REPLACE FUNCTION duly\.(?:clock|now)\(\) RETURNS timestamp with time zone LANGUAGE sql"
    r"(?: STABLE)? PARALLEL SAFE RETURN \(?(?:clock|statement)_timestamp\(\)"
    r"(?: \+ \( ?SELECT test_clock\.shift FROM duly\.test_clock\)\))? ?"
    r"|column duly\.test_clock\.shift interval not null"
    r"|grant \w+ on table duly\.test_clock to \w+"
    r"|table duly\.test_clock owner \w+"
)
LOG = "duly.transition"
CATALOGUE = "pg_catalog."
REFERENCE_TABLES = {"duly.workers", "duly.orgs", "duly.person"}  # invariants use these only to check others
# Tables that have at least a page, a whole by its parts, and machines that the log tells of.
USED_TABLES = """
select n.nspname || '.' || named.relname
from pg_catalog.pg_class as c
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
left join pg_catalog.pg_inherits as i on i.inhrelid = c.oid
join pg_catalog.pg_class as named on named.oid in (c.oid, i.inhparent)
where c.relkind = 'r' and n.nspname = any (%(schemas)s) and pg_catalog.pg_relation_size(c.oid) > 0
union
select machine from duly.transition
"""


def must_keep_invariants(request: pytest.FixtureRequest) -> bool:
    """Does a test leave its database lawful: is it of these packages, and not marked as breaking invariants?"""
    package = Path(str(request.path)).relative_to(ROOT / "tests").parts[1:-1]
    return (not package or package[0] in CHECKED_PACKAGES) and request.node.get_closest_marker(
        "breaks_invariants"
    ) is None


def compares_catalogue(request: pytest.FixtureRequest) -> bool:
    """Is a test a whole story of a contract or the demo, after which the catalogue is compared too?"""
    return Path(str(request.path)).stem in CATALOGUE_TESTS


def find_contract_differences(connection: psycopg.Connection[Any]) -> Sequence[Difference]:
    """In what the catalogue of this database differs from the contracts, but for a clock that tests can move."""
    found = [each for contract in CONTRACTS for each in compare(connection, contract)]
    return [each for each in found if not belongs_to_test_clock(each.line)]


def belongs_to_test_clock(line: str) -> bool:
    """Is this line of a catalogue what a clock that tests can move is made of, and no more?"""
    return CLOCK.fullmatch(line) is not None


def find_violations(connection: psycopg.Connection[Any]) -> Sequence[tuple[str, str]]:
    """Return the invariants that this database violates, each with its offender."""
    used = {name for (name,) in connection.execute(USED_TABLES, {"schemas": SCHEMAS})}
    query = " union all ".join(render_part(invariant.name) for invariant in invariants_about(used))
    return connection.execute(query.encode()).fetchall()


def invariants_about(used: Collection[str]) -> list[Invariant]:
    """Return the invariants that can be violated where only these tables and machines are used."""
    return [invariant for invariant in INVARIANTS if subjects(invariant) & {*used, CATALOGUE}]


@cache
def subjects(invariant: Invariant) -> frozenset[str]:
    """Return the tables and machines whose rows can violate an invariant; the catalogue if there are none."""
    statement = fill(invariant.statement, {"ingest": Names().ingest})
    named = {name.replace('"', "") for name in TABLE.findall(statement)}
    tables = {name for name in named if name.partition(".")[0] in SCHEMAS} - REFERENCE_TABLES
    machines = set(MACHINE.findall(statement))
    return frozenset((tables - ({LOG} if machines else set())) | machines or {CATALOGUE})


@cache
def render_part(name: str) -> str:
    """Return an invariant as a part of one statement that checks several."""
    (invariant,) = (each for each in INVARIANTS if each.name == name)
    return f"(select '{name}', offender from ({render_statement(invariant, SCHEMAS).removesuffix(';')}) as asked)"
