"""The privileges that an ingest worker needs, and the missing grants: for the worker and for `duly doctor`.

The lease migration prints the same list for the login of a backend's worker; a test compares the two.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from duly.db.queries import load_queries
from duly.db.rows import Connection, Row, get_rows

SQL = load_queries(__file__, "rights.sql")

# The columns of a session that a worker writes: never its user or its start.
SESSION_COLUMNS = (
    "state",
    "error",
    "locked_at",
    "locked_by",
    "closed_at",
    "result",
    "lease_seconds",
    "starts",
    "settled_by",
)
TABLES = {
    "capture_session": ("select",),
    "capture_image": ("select",),
    "day_schedule": ("select",),
    "schedule_version": ("select", "insert"),
    "day_snapshot": ("select", "insert", "update"),
    "schedule_event": ("insert",),
    "schedule_notification": ("insert",),
}


@dataclass(frozen=True, slots=True)
class Right:
    """A privilege on a schema, a table, a column or a function."""

    kind: Literal["schema", "table", "column", "function"]
    schema: str
    name: str
    privilege: str
    column: str = ""

    @property
    def is_engines(self) -> bool:
        """Check whether it is on the clock functions or the list of workers, without which no worker can start."""
        return self.schema == "duly"


def required_rights(schema: str, tables: Collection[str], *, reads_events: bool) -> list[Right]:
    """List the privileges that a worker needs on these tables.

    It reads events where a unique key of the backend may reject one.
    """
    found = [Right("schema", schema, schema, "usage")]
    for table, privileges in TABLES.items():
        if table not in tables:
            continue
        extra = ("select",) if table == "schedule_event" and reads_events else ()
        found += [Right("table", schema, table, privilege) for privilege in (*extra, *privileges)]
        if table == "capture_session":
            found += [Right("column", schema, table, "update", column) for column in SESSION_COLUMNS]
    found.append(Right("schema", "duly", "duly", "usage"))
    found += [Right("function", "duly", name, "execute") for name in ("clock", "now")]
    found += [Right("table", "duly", "workers", each) for each in ("select", "insert", "update", "delete")]
    return found


def format_grants(rights: Sequence[Right], login: str) -> list[str]:
    """Format the statements that grant these rights to a login, whose name is already quoted: one per object."""
    privileges: dict[str, list[str]] = {}
    columns: dict[str, list[str]] = {}
    for right in rights:
        match right.kind:
            case "schema":
                target = f"schema {right.name}"
            case "function":
                target = f"function {right.schema}.{right.name}()"
            case _:
                target = f"{right.schema}.{right.name}"
        named = privileges.setdefault(target, [])
        if right.column:
            columns.setdefault(target, []).append(right.column)
        else:
            named.append(right.privilege)
    for target, names in columns.items():
        privileges[target].append(f"update ({', '.join(names)})")
    return [f"grant {', '.join(named)} on {target} to {login}" for target, named in privileges.items()]


async def find_missing_rights(connection: Connection, rights: Sequence[Right]) -> tuple[list[Right], str]:
    """Return the rights that the current user lacks, and its quoted name."""
    return select_missing(rights, await get_rows(connection, SQL.find_missing_rights, **rights_parameters(rights)))


def rights_parameters(rights: Sequence[Right]) -> Mapping[str, Any]:
    """Build the parameters of `find_missing_rights`."""
    return {
        "kinds": [right.kind for right in rights],
        "schemas": [right.schema for right in rights],
        "names": [right.name for right in rights],
        "privileges": [right.privilege for right in rights],
        "columns": [right.column for right in rights],
    }


def select_missing(rights: Sequence[Right], rows: Sequence[Row]) -> tuple[list[Right], str]:
    """Select the missing rights from the rows of `find_missing_rights`; also return the quoted login."""
    return [rights[row["nth"] - 1] for row in rows], rows[0]["login"] if rows else ""
