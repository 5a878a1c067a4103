"""Comparing a live database with a written contract, line by line."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import psycopg

from duly.db.fingerprint import fingerprint
from duly.db.migrations import Names
from duly.errors import InvalidArgument

__all__ = ["CONTRACTS", "Difference", "compare", "contract_lines", "has_tables", "schemas_of"]

DIRECTORY = Path(__file__).parent / "contracts"
STANDARD = Names()
# Each contract, and the schemas it is about; the last one is called as DB_SCHEMA says.
CONTRACTS = {
    "duly": ("duly", "user"),
    "ledger": ("ledger",),
    "posts": ("posts",),
    "scheduler": ("scheduler", "expense"),
    "ingest": (STANDARD.ingest,),
}
OPTIONAL = re.compile(
    r"policy ledger\.\w+\.\w+_of_jwt (?!restrictive)"
)  # made where there is an auth.jwt() to ask: on Supabase
# What the login of a worker on a backend's tables is granted, beside our roles.
OF_GUEST = re.compile(
    r"grant (?:usage on schema duly|execute on function duly\.(?:clock|now)\(\)"
    r"|(?:select|insert|update|delete) on table duly\.workers) to (?P<guest>\S+)"
)


@dataclass(frozen=True)
class Difference:
    """One line in which a database and its contract disagree."""

    contract: str
    kind: Literal["missing", "unexpected"]
    line: str


def compare(connection: psycopg.Connection[Any], contract: str, roles: Names = STANDARD) -> Sequence[Difference]:
    """Everything the contract asks for and the database lacks, and everything it has besides."""
    expected = set(contract_lines(contract, roles))
    lines = fingerprint(connection, schemas_of(contract, roles))
    found = {line for line in lines if not OPTIONAL.match(line) and not is_of_guest(line, roles)}
    return [
        *(Difference(contract, "missing", line) for line in sorted(expected - found)),
        *(Difference(contract, "unexpected", line) for line in sorted(found - expected)),
    ]


def is_of_guest(line: str, roles: Names) -> bool:
    """Is it a grant of the lease migration's, to a login that is none of our roles?"""
    found = OF_GUEST.fullmatch(line)
    return found is not None and found["guest"] not in asdict(roles).values()


def has_tables(connection: psycopg.Connection[Any], contract: str, names: Names = STANDARD) -> bool:
    """Is there any table of a contract in this database, whoever made it?"""
    return any(line.startswith("table ") for line in fingerprint(connection, schemas_of(contract, names)))


def schemas_of(contract: str, names: Names = STANDARD) -> tuple[str, ...]:
    """The schemas that a contract is about, as they are called here."""
    return tuple(names.ingest if schema == STANDARD.ingest else schema for schema in CONTRACTS[contract])


def contract_lines(contract: str, roles: Names = STANDARD) -> list[str]:
    """The lines of a contract, with the names that roles and schemas have here."""
    if contract not in CONTRACTS:
        raise InvalidArgument(f"there is no contract '{contract}'; there are {', '.join(CONTRACTS)}")
    here = {getattr(STANDARD, part): name for part, name in asdict(roles).items()}
    names = re.compile(r"\b(" + "|".join(here) + r")\b")
    text = (DIRECTORY / f"{contract}.txt").read_text()
    return [names.sub(lambda found: here[found[1]], line) for line in text.splitlines()]
