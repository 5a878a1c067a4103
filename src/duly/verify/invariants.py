"""The invariants: named statements that return offenders."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, LiteralString, TypeAlias, cast

import psycopg
from psycopg import errors, sql

from duly.applications import list_applications, load
from duly.db.error_table import MISSING_OBJECT_ERRORS
from duly.db.migrations import Names, fill
from duly.db.queries import parse_queries
from duly.verify.access import permission_error, raise_work_mem, row_security_error
from duly.verify.machines import list_steps

MAX_OFFENDERS = 100
VISIBILITY_CHECK = "every_role_sees_every_row"  # checked first; if it fails, the others would not see every row
STANDARD = Names()
PARAMETER = re.compile(r"%%|%\((\w+)\)s")


@dataclass(frozen=True)
class Invariant:
    """An invariant: the statement that finds offenders, and its contract, or None for all contracts."""

    name: str
    description: str
    statement: str
    contract: str | None = None


@dataclass(frozen=True)
class Violation:
    """An offender; or, with kind `unchecked`, the reason why an invariant cannot be checked in this database."""

    invariant: str
    offender: str
    kind: Literal["broken", "unchecked"] = "broken"


FindOffenders: TypeAlias = Callable[[psycopg.Connection[Any], str, int], Iterable[str]]  # schema of ingest, limit


def load_invariants(package: Path, contract: str | None) -> Sequence[Invariant]:
    """Load the invariants beside the modules of a package; the comment under a name is its description."""
    statements = parse_queries((package / "invariants.sql").read_text())
    return [Invariant(name, describe(text), text, contract) for name, text in statements.items()]


def describe(statement: str) -> str:
    """Return the comment of a statement."""
    return " ".join(line.removeprefix("-- ") for line in statement.splitlines() if line.startswith("-- "))


ENGINE_PACKAGES = {"verify": None, "lease": "duly", "accounts": "duly", "outbox": "duly", "jobs": "ledger"}
INVARIANTS = (
    *(
        invariant
        for package, contract in ENGINE_PACKAGES.items()
        for invariant in load_invariants(Path(__file__).parents[1] / package, contract)
    ),
    *(invariant for each in list_applications() for invariant in load_invariants(each.directory, each.name)),
)


def select_invariants(contracts: Collection[str]) -> Sequence[Invariant]:
    """Return the invariants of these contracts, and those of all contracts."""
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
    on_progress: Callable[[int], None] = lambda _: None,
) -> Sequence[Violation]:
    """Return the offenders of every invariant, at most a hundred each; reads only, in one snapshot.

    The schema of the ingest tables and two of their states are configurable. An invariant about missing objects is
    reported as `unchecked`. `on_progress` is called with the number of checked invariants, before the first and after
    each. Raises Misconfigured for a login that may not read every row, as the role `reader` may.
    """
    values = build_parameters(schemas, done=done, failed=failed)
    violations: list[Violation] = []
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        raise_work_mem(connection)
        for number, invariant in enumerate(invariants):
            on_progress(number)
            statement = sql.SQL(cast("LiteralString", fill(invariant.statement, {"ingest": ingest})))
            try:
                with connection.transaction():
                    rows = connection.execute(statement, values)
            except MISSING_OBJECT_ERRORS as error:
                reason = error.diag.message_primary or str(error)
                violations.append(Violation(invariant.name, f"cannot be checked: {reason}", "unchecked"))
            except errors.InsufficientPrivilege as error:
                raise permission_error(connection, schemas, reader, error) from None
            else:
                offenders = [Violation(invariant.name, offender) for (offender,) in rows]
                if offenders and invariant.name == VISIBILITY_CHECK:
                    raise row_security_error(connection, [each.offender for each in offenders], reader)
                violations += offenders
        for name, find in list_computed_invariants(invariants).items():
            violations += find_computed_violations(connection, name, find, ingest, reader, schemas)
        on_progress(len(invariants))
    return violations


def list_computed_invariants(invariants: Sequence[Invariant]) -> Mapping[str, FindOffenders]:
    """List the invariants that no SQL statement can check, of the contracts whose other invariants are checked."""
    contracts = {each.contract for each in invariants}
    applications = [each for each in list_applications() if each.name in contracts]
    return {name: load(path) for each in applications for name, path in each.computed_invariants.items()}


def find_computed_violations(
    connection: psycopg.Connection[Any],
    name: str,
    find: FindOffenders,
    ingest: str,
    reader: str,
    schemas: Sequence[str],
) -> Sequence[Violation]:
    """Check an invariant that no SQL statement can check."""
    try:
        with connection.transaction():
            return [Violation(name, offender) for offender in find(connection, ingest, MAX_OFFENDERS)]
    except MISSING_OBJECT_ERRORS as error:
        reason = error.diag.message_primary or str(error)
        return [Violation(name, f"cannot be checked: {reason}", "unchecked")]
    except errors.InsufficientPrivilege as error:
        raise permission_error(connection, schemas, reader, error) from None


def build_parameters(schemas: Sequence[str], *, done: str, failed: str) -> dict[str, Any]:
    """Return the parameters of the statements."""
    steps = json.dumps(list_steps())
    return {"schemas": list(schemas), "limit": MAX_OFFENDERS, "done": done, "failed": failed, "steps": steps}


def render_statement(
    invariant: Invariant,
    schemas: Sequence[str],
    *,
    ingest: str = STANDARD.ingest,
    done: str = "done",
    failed: str = "failed",
) -> str:
    """Return the statement of an invariant with all parameters filled in, for any client."""
    values = build_parameters(schemas, done=done, failed=failed)
    body = "\n".join(line for line in invariant.statement.splitlines() if not line.startswith("-- "))

    def substitute(match: re.Match[str]) -> str:
        return sql.Literal(values[match[1]]).as_string(None) if match[1] else "%"

    return PARAMETER.sub(substitute, fill(body.rstrip().removesuffix(";"), {"ingest": ingest})) + ";"
