"""Compares a database with a written contract, line by line."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import psycopg

from duly.applications import ALL, list_applications
from duly.db.fingerprint import fingerprint
from duly.db.migrations import Names
from duly.errors import InvalidArgument

STANDARD = Names()
ENGINE_CONTRACTS = {"duly": ("duly", "user"), "ledger": ("ledger",)}
# The schemas of each contract; that of ingest is replaced by DB_SCHEMA.
CONTRACTS = ENGINE_CONTRACTS | {each.name: each.schemas for each in list_applications()}
FILES = {name: Path(__file__).parent / "contracts" / f"{name}.txt" for name in ENGINE_CONTRACTS} | {
    each.name: each.directory / "contract.txt" for each in list_applications()
}
OPTIONAL = re.compile(
    r"policy ledger\.\w+\.\w+_of_jwt (?!restrictive)"
)  # created only where auth.jwt() exists: on Supabase
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


def compare(connection: psycopg.Connection[Any], contract: str, roles: Names = STANDARD) -> Sequence[Difference]:
    """Return the lines that the database lacks, and those that it has in addition."""
    expected = set(contract_lines(contract, roles))
    lines = fingerprint(connection, contract_schemas(contract, roles))
    found = {line for line in lines if not OPTIONAL.match(line) and not is_guest_grant(line, roles)}
    return [
        *(Difference(contract, "missing", line) for line in sorted(expected - found)),
        *(Difference(contract, "unexpected", line) for line in sorted(found - expected)),
    ]


def is_guest_grant(line: str, roles: Names) -> bool:
    """Is this line a grant of the lease migration to a login that is not one of duly's roles?"""
    found = GUEST_GRANT.fullmatch(line)
    return found is not None and found["guest"] not in asdict(roles).values()


def list_contracts(apps: str = ALL) -> list[str]:
    """List the contracts of the engine and of the applications that a value of DULY_APPS switches on."""
    return [*ENGINE_CONTRACTS, *(each.name for each in list_applications(apps))]


def has_tables(connection: psycopg.Connection[Any], contract: str, names: Names = STANDARD) -> bool:
    """Does this database have any table of a contract, whoever created it?"""
    return any(line.startswith("table ") for line in fingerprint(connection, contract_schemas(contract, names)))


def contract_schemas(contract: str, names: Names = STANDARD) -> tuple[str, ...]:
    """Return the schemas of a contract, by their configured names."""
    return tuple(names.ingest if schema == STANDARD.ingest else schema for schema in CONTRACTS[contract])


def contract_lines(contract: str, roles: Names = STANDARD) -> list[str]:
    """Return the lines of a contract, with the configured names of roles and schemas."""
    if contract not in CONTRACTS:
        raise InvalidArgument(f"there is no contract '{contract}'; there are {', '.join(CONTRACTS)}")
    here = {getattr(STANDARD, part): name for part, name in asdict(roles).items()}
    names = re.compile(r"\b(" + "|".join(here) + r")\b")
    text = FILES[contract].read_text()
    return [names.sub(lambda found: here[found[1]], line) for line in text.splitlines()]
