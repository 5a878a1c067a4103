"""What an ingest worker must be allowed to do, and the grants that are missing: for the worker and for `duly doctor`.

The lease migration prints the same list for the login of a backend's worker; a test compares the two.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from duly.db.queries import load_queries
from duly.db.rows import Connection, Row, get_rows

__all__ = ["SQL", "TABLES", "Right", "find_missing_rights", "grants_of", "missing_of", "parameters_of", "rights_on"]

SQL = load_queries(__file__, "rights.sql")

# The columns of a session that a worker writes: never whose it is, nor when it began.
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
        """Is it on the clocks or the list of workers, without which no worker can start?"""
        return self.schema == "duly"


def rights_on(schema: str, tables: Collection[str], *, reads_events: bool) -> list[Right]:
    """Everything a worker needs on these tables; it reads events where the owner's key may refuse one."""
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


def grants_of(rights: Sequence[Right], login: str) -> list[str]:
    """The statements that grant these rights to a login, whose name is quoted already: one for each object."""
    privileges: dict[str, list[str]] = {}
    columns: dict[str, list[str]] = {}
    for right in rights:
        match right.kind:
            case "schema":
                place = f"schema {right.name}"
            case "function":
                place = f"function {right.schema}.{right.name}()"
            case _:
                place = f"{right.schema}.{right.name}"
        named = privileges.setdefault(place, [])
        if right.column:
            columns.setdefault(place, []).append(right.column)
        else:
            named.append(right.privilege)
    for place, names in columns.items():
        privileges[place].append(f"update ({', '.join(names)})")
    return [f"grant {', '.join(named)} on {place} to {login}" for place, named in privileges.items()]


async def find_missing_rights(connection: Connection, rights: Sequence[Right]) -> tuple[list[Right], str]:
    """Which of these rights we lack, and who we are, as a statement writes it."""
    return missing_of(rights, await get_rows(connection, SQL.find_missing_rights, **parameters_of(rights)))


def parameters_of(rights: Sequence[Right]) -> Mapping[str, Any]:
    """These rights, as the statement takes them."""
    return {
        "kinds": [right.kind for right in rights],
        "schemas": [right.schema for right in rights],
        "names": [right.name for right in rights],
        "privileges": [right.privilege for right in rights],
        "columns": [right.column for right in rights],
    }


def missing_of(rights: Sequence[Right], rows: Sequence[Row]) -> tuple[list[Right], str]:
    """What the statement's answer says of them."""
    return [rights[row["nth"] - 1] for row in rows], rows[0]["login"] if rows else ""
