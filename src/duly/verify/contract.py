"""Compares a database with a written contract, line by line."""

import re
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import psycopg

from duly.applications import list_applications
from duly.db.fingerprint import fingerprint
from duly.db.migrations import Names
from duly.db.queries import load_queries
from duly.errors import InvalidArgument

SQL = load_queries(__file__, "contract.sql")
STANDARD = Names()
ENGINE_CONTRACTS = {"duly": ("duly",), "ledger": ("ledger",)}
# The schemas of each contract, its own first; that of ingest is replaced by DB_SCHEMA.
CONTRACTS = ENGINE_CONTRACTS | {each.name: each.schemas for each in list_applications()}
FILES = {name: Path(__file__).parent / "catalogues" / f"{name}.txt" for name in ENGINE_CONTRACTS} | {
    each.name: each.directory / "catalogue.txt" for each in list_applications()
}
CALLED = re.compile(r"trigger .* EXECUTE FUNCTION (?P<schema>\w+)\.")
# Created only where auth.jwt() exists: on Supabase.
OPTIONAL = re.compile(r"policy ledger\.\w+\.\w+_of_jwt (?!restrictive)")
USERS_SCHEMA = "user"
ABOUT_USERS = re.compile(
    r'(?:schema|table|column|constraint|grant \w+ on (?:schema|table)) "user"|index .* ON "user"\.'
)
# Grants of the lease migration to the login of a worker on a backend's tables.
GUEST_GRANT = re.compile(
    r"grant (?:usage on schema duly|execute on function duly\.(?:clock|now)\(\)"
    r"|(?:select|insert|update|delete) on table duly\.workers) to (?P<guest>\S+)"
)


@dataclass(frozen=True)
class Difference:
    """One line that is only in the database or only in its contract."""

    contract: str
    kind: Literal["missing", "unexpected"]
    line: str


def compare(connection: psycopg.Connection[Any], contract: str, names: Names = STANDARD) -> Sequence[Difference]:
    """Return the lines that the database lacks, and those that it has in addition."""
    installed = list_schemas_with_functions(connection, names)
    expected = {line for line in contract_lines(contract, names) if is_expected(line, installed)}
    schemas = contract_schemas(contract, names)
    if has_users_of_others(connection):
        schemas = tuple(schema for schema in schemas if schema != USERS_SCHEMA)
        expected = {line for line in expected if not ABOUT_USERS.match(line)}
    lines = fingerprint(connection, schemas)
    found = {line for line in lines if not OPTIONAL.match(line) and not is_guest_grant(line, names)}
    if has_test_clock(connection):
        found = {as_without_test_clock(line, expected) for line in found}
    return [
        *(Difference(contract, "missing", line) for line in sorted(expected - found)),
        *(Difference(contract, "unexpected", line) for line in sorted(found - expected)),
    ]


def has_users_of_others(connection: psycopg.Connection[Any]) -> bool:
    """Return whether "user".users is a table that duly did not create, and uses as it is."""
    (found,) = connection.execute(SQL.has_users_of_others).fetchone() or (False,)
    return found


def has_test_clock(connection: psycopg.Connection[Any]) -> bool:
    """Return whether this is a database for tests, with a clock that they can move."""
    (found,) = connection.execute(SQL.has_test_clock).fetchone() or (False,)
    return found


def as_without_test_clock(line: str, expected: Collection[str]) -> str:
    """Return the line of a column with the default of its contract, which the installer of the test clock replaced."""
    original = line.replace(" default duly.clock()", " default now()")
    return original if original in expected else line


def is_expected(line: str, installed: Collection[str]) -> bool:
    """Return whether these schemas have the line: a trigger that calls another part comes with that part."""
    found = CALLED.match(line)
    return found is None or found["schema"] in installed


def installed_contracts(connection: psycopg.Connection[Any], names: Names = STANDARD) -> list[str]:
    """List the contracts of the engine and of the applications that this database has."""
    installed = list_schemas_with_functions(connection, names)
    return [
        contract
        for contract in CONTRACTS
        if contract in ENGINE_CONTRACTS or contract_schemas(contract, names)[0] in installed
    ]


def list_schemas_with_functions(connection: psycopg.Connection[Any], names: Names = STANDARD) -> list[str]:
    """List the schemas of duly that have functions."""
    schemas = [schema for contract in CONTRACTS for schema in contract_schemas(contract, names)]
    rows = connection.execute(SQL.list_schemas_with_functions, {"schemas": schemas})
    return [schema for (schema,) in rows]


def is_guest_grant(line: str, names: Names) -> bool:
    """Return whether this line is a grant of the lease migration to a login that is not one of duly's roles."""
    found = GUEST_GRANT.fullmatch(line)
    return found is not None and found["guest"] not in asdict(names).values()


def list_contracts(apps: str) -> list[str]:
    """List the contracts of the engine and of the applications that a value of DULY_APPS switches on."""
    return [*ENGINE_CONTRACTS, *(each.name for each in list_applications(apps))]


def has_tables(connection: psycopg.Connection[Any], contract: str, names: Names = STANDARD) -> bool:
    """Return whether this database has any table of a contract, no matter who created it."""
    return any(line.startswith("table ") for line in fingerprint(connection, contract_schemas(contract, names)))


def contract_schemas(contract: str, names: Names = STANDARD) -> tuple[str, ...]:
    """Return the schemas of a contract, by their configured names."""
    return tuple(names.ingest if schema == STANDARD.ingest else schema for schema in CONTRACTS[contract])


def contract_lines(contract: str, names: Names = STANDARD) -> list[str]:
    """Return the lines of a contract, with the configured names of roles and schemas."""
    if contract not in CONTRACTS:
        raise InvalidArgument(f"there is no contract '{contract}'; there are {', '.join(CONTRACTS)}")
    configured = {getattr(STANDARD, field): name for field, name in asdict(names).items()}
    standard_name = re.compile(r"\b(" + "|".join(configured) + r")\b")
    text = FILES[contract].read_text()
    return [standard_name.sub(lambda found: configured[found[1]], line) for line in text.splitlines()]
