"""The invariants: named statements, each returning what breaks its law."""

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, LiteralString, cast

import psycopg
from psycopg import errors, sql

from duly.db.migrations import Names, fill
from duly.db.queries import parse_queries
from duly.verify.hashes import VERSIONS_HAVE_THEIR_HASH, find_wrong_hashes
from duly.verify.looking import refusal_of_the_blind, refusal_of_the_shut_out, take_room
from duly.verify.machines import drawn_steps

__all__ = ["INVARIANTS", "SEEING", "Invariant", "Offence", "check", "invariants_of", "load_invariants", "spelled_out"]

MAX_OFFENDERS = 100
SEEING = "every_role_sees_every_row"  # the first, and the last where it does not hold: the others would be blind
OF_CONTRACT = "-- contract: "
STANDARD = Names()
VALUE = re.compile(r"%%|%\((\w+)\)s")
NOT_HERE = (errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction, errors.InvalidSchemaName)


@dataclass(frozen=True)
class Invariant:
    """A law, the statement that looks for what breaks it, and the contract it belongs to: None for every one."""

    name: str
    law: str
    statement: str
    contract: str | None = None


@dataclass(frozen=True)
class Offence:
    """Something that breaks a law; or, in a database that somebody else made, why the law cannot be looked at."""

    invariant: str
    offender: str
    kind: Literal["broken", "unasked"] = "broken"


def load_invariants(file: Path) -> tuple[Invariant, ...]:
    """The invariants of one file; the comment under each name is its law."""
    found: list[Invariant] = []
    for name, text in parse_queries(file.read_text()).items():
        comments = [line for line in text.splitlines() if line.startswith("-- ")]
        law = [line.removeprefix("-- ") for line in comments if not line.startswith(OF_CONTRACT)]
        contract = [line.removeprefix(OF_CONTRACT) for line in comments if line.startswith(OF_CONTRACT)]
        found.append(Invariant(name, " ".join(law), text, contract[0] if contract else None))
    return tuple(found)


INVARIANTS = load_invariants(Path(__file__).with_name("invariants.sql"))


def invariants_of(contracts: Collection[str]) -> Sequence[Invariant]:
    """The invariants that concern these contracts."""
    return [each for each in INVARIANTS if each.contract is None or each.contract in contracts]


def check(
    connection: psycopg.Connection[Any],
    schemas: Sequence[str],
    invariants: Sequence[Invariant] = INVARIANTS,
    *,
    ingest: str = STANDARD.ingest,
    done: str = "done",
    failed: str = "failed",
    reader: str = STANDARD.owner,
    watch: Callable[[int], None] = lambda _: None,
) -> Sequence[Offence]:
    """Every offender against every law, at most a hundred a law; reads only, in one snapshot.

    The schema of the ingest tables, and two of their states, are called differently here and there. A law about what
    this database does not have at all is told as unasked. `watch` hears how many laws were looked at, before
    the first and after each. A login that may not read everything, as `reader` may, is refused: it would be blind.
    """
    values = values_of(schemas, done=done, failed=failed)
    offences: list[Offence] = []
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        take_room(connection)
        for number, invariant in enumerate(invariants):
            watch(number)
            statement = sql.SQL(cast("LiteralString", fill(invariant.statement, {"ingest": ingest})))
            try:
                with connection.transaction():
                    rows = connection.execute(statement, values)
            except NOT_HERE as error:
                reason = error.diag.message_primary or str(error)
                offences.append(Offence(invariant.name, f"cannot be looked at: {reason}", "unasked"))
            except errors.InsufficientPrivilege as error:
                raise refusal_of_the_shut_out(connection, schemas, reader, error) from None
            else:
                found = [Offence(invariant.name, offender) for (offender,) in rows]
                if found and invariant.name == SEEING:
                    raise refusal_of_the_blind(connection, [each.offender for each in found], reader)
                offences += found
        if any(each.contract == "ingest" for each in invariants):
            offences += hash_offences(connection, ingest, reader, schemas)
        watch(len(invariants))
    return offences


def hash_offences(
    connection: psycopg.Connection[Any], ingest: str, reader: str, schemas: Sequence[str]
) -> Sequence[Offence]:
    """The law that no statement can ask, because the hash is over a form that SQL does not know."""
    try:
        with connection.transaction():
            wrong = list(find_wrong_hashes(connection, ingest, MAX_OFFENDERS))
    except NOT_HERE as error:
        reason = error.diag.message_primary or str(error)
        return [Offence(VERSIONS_HAVE_THEIR_HASH, f"cannot be looked at: {reason}", "unasked")]
    except errors.InsufficientPrivilege as error:
        raise refusal_of_the_shut_out(connection, schemas, reader, error) from None
    return [Offence(VERSIONS_HAVE_THEIR_HASH, each) for each in wrong]


def values_of(schemas: Sequence[str], *, done: str, failed: str) -> dict[str, Any]:
    """What stands in the places of the statements."""
    drawn = json.dumps(drawn_steps())
    return {"schemas": list(schemas), "most": MAX_OFFENDERS, "done": done, "failed": failed, "drawn": drawn}


def spelled_out(
    invariant: Invariant,
    schemas: Sequence[str],
    *,
    ingest: str = STANDARD.ingest,
    done: str = "done",
    failed: str = "failed",
) -> str:
    """The statement of a law with every name and value in its place, as any client can run it."""
    values = values_of(schemas, done=done, failed=failed)
    body = "\n".join(line for line in invariant.statement.splitlines() if not line.startswith("-- "))

    def put(place: re.Match[str]) -> str:
        return sql.Literal(values[place[1]]).as_string(None) if place[1] else "%"

    return VALUE.sub(put, fill(body.rstrip().removesuffix(";"), {"ingest": ingest})) + ";"
