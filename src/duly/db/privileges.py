"""The privileges that an ingest worker needs, and the missing grants: for the worker and for `duly doctor`.

The lease migration prints the same list for the login of a backend's worker; a test compares the two.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from duly.db.queries import load_queries
from duly.db.rows import Connection, Row, get_rows

SQL = load_queries(__file__, "privileges.sql")

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
class ObjectPrivilege:
    """A privilege on a schema, a table, a column or a function."""

    object_type: Literal["schema", "table", "column", "function"]
    schema: str
    name: str
    action: str  # select, insert, usage, ...
    column: str = ""

    @property
    def is_on_engine(self) -> bool:
        """Return whether it is on the clock functions or the list of workers, without which no worker can start."""
        return self.schema == "duly"


def required_privileges(schema: str, tables: Collection[str], *, reads_events: bool) -> list[ObjectPrivilege]:
    """List the privileges that a worker needs on these tables.

    It reads events where a unique key of the backend may reject one.
    """
    found = [ObjectPrivilege("schema", schema, schema, "usage")]
    for table, privileges in TABLES.items():
        if table not in tables:
            continue
        extra = ("select",) if table == "schedule_event" and reads_events else ()
        found += [ObjectPrivilege("table", schema, table, privilege) for privilege in (*extra, *privileges)]
        if table == "capture_session":
            found += [ObjectPrivilege("column", schema, table, "update", column) for column in SESSION_COLUMNS]
    found.append(ObjectPrivilege("schema", "duly", "duly", "usage"))
    found += [ObjectPrivilege("function", "duly", name, "execute") for name in ("clock", "now")]
    found += [ObjectPrivilege("table", "duly", "workers", each) for each in ("select", "insert", "update", "delete")]
    return found


def format_grants(privileges: Sequence[ObjectPrivilege], login: str) -> list[str]:
    """Format the statements that grant these privileges to a login, whose name is already quoted: one per object."""
    actions: dict[str, list[str]] = {}
    columns: dict[str, list[str]] = {}
    for privilege in privileges:
        match privilege.object_type:
            case "schema":
                target = f"schema {privilege.name}"
            case "function":
                target = f"function {privilege.schema}.{privilege.name}()"
            case _:
                target = f"{privilege.schema}.{privilege.name}"
        named = actions.setdefault(target, [])
        if privilege.column:
            columns.setdefault(target, []).append(privilege.column)
        else:
            named.append(privilege.action)
    for target, names in columns.items():
        actions[target].append(f"update ({', '.join(names)})")
    return [f"grant {', '.join(named)} on {target} to {login}" for target, named in actions.items()]


async def find_missing_privileges(
    connection: Connection, privileges: Sequence[ObjectPrivilege]
) -> tuple[list[ObjectPrivilege], str]:
    """Return the privileges that the current user lacks, and its quoted name."""
    return select_missing(
        privileges, await get_rows(connection, SQL.find_missing_privileges, **privilege_parameters(privileges))
    )


def privilege_parameters(privileges: Sequence[ObjectPrivilege]) -> Mapping[str, Any]:
    """Build the parameters of `find_missing_privileges`."""
    return {
        "object_types": [privilege.object_type for privilege in privileges],
        "schemas": [privilege.schema for privilege in privileges],
        "names": [privilege.name for privilege in privileges],
        "actions": [privilege.action for privilege in privileges],
        "columns": [privilege.column for privilege in privileges],
    }


def select_missing(privileges: Sequence[ObjectPrivilege], rows: Sequence[Row]) -> tuple[list[ObjectPrivilege], str]:
    """Select the missing privileges from the rows of `find_missing_privileges`; also return the quoted login."""
    return [privileges[row["nth"] - 1] for row in rows], rows[0]["login"] if rows else ""
