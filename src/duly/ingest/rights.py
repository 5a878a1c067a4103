"""What a worker must be allowed to do on the ingest tables, and the grants that are missing.

The lease migration prints the same list for the login of a backend's worker; a test compares the two.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["SESSION_COLUMNS", "TABLES", "Right", "grants_of", "rights_on"]

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
