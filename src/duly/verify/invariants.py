"""The invariants: named statements, each returning what breaks its law."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString, cast

import psycopg
from psycopg import sql

from duly.db.queries import parse_queries

__all__ = ["INVARIANTS", "Invariant", "Offence", "check", "load_invariants"]

MOST_OFFENDERS = 100


@dataclass(frozen=True)
class Invariant:
    """A law and the statement that looks for what breaks it."""

    name: str
    law: str
    statement: str


@dataclass(frozen=True)
class Offence:
    """Something that breaks a law."""

    invariant: str
    offender: str


def load_invariants(file: Path) -> tuple[Invariant, ...]:
    """The invariants of one file; the comment under each name is its law."""
    found: list[Invariant] = []
    for name, text in parse_queries(file.read_text()).items():
        comments = [line for line in text.splitlines() if line.startswith("-- ")]
        found.append(Invariant(name, " ".join(line.removeprefix("-- ") for line in comments), text))
    return tuple(found)


INVARIANTS = load_invariants(Path(__file__).with_name("invariants.sql"))


def check(
    connection: psycopg.Connection[Any], schemas: Sequence[str], invariants: Sequence[Invariant] = INVARIANTS
) -> Sequence[Offence]:
    """Every offender against every law, at most a hundred a law; reads only, in one snapshot."""
    offences: list[Offence] = []
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        for invariant in invariants:
            statement = sql.SQL(cast("LiteralString", invariant.statement))
            rows = connection.execute(statement, {"schemas": list(schemas), "most": MOST_OFFENDERS})
            offences += [Offence(invariant.name, offender) for (offender,) in rows]
    return offences
