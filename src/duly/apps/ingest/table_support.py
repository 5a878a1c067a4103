"""What the ingest tables of an installation support: ours, or those of a backend that has some of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from duly.apps.ingest.states import States
from duly.db.queries import load_queries
from duly.db.rows import Connection, find_value, get_rows
from duly.errors import Misconfigured, NotMigrated

OUR_COLUMNS = {"revision", "transition_from"}  # of capture_session, where our migrations created the table
LEASE_MIGRATION = "database/migrations/20260212_add_session_leases.sql"
# What the lease migration adds to the tables of a backend.
ADDED_COLUMNS = {
    "capture_session": {"closed_at", "given_at", "payload", "result", "lease_seconds", "starts", "settled_by"},
    "schedule_version": {"canonicalizer"},
    "day_snapshot": {"canonicalizer", "events"},
    "schedule_event": {"seq"},
}
SQL = load_queries(__file__, "table_support.sql")


@dataclass(frozen=True)
class TableSupport:
    """Which tables exist, and which unique key events have."""

    has_events: bool = True  # the tables of Phase 9: day_snapshot and schedule_event
    has_notifications: bool = True  # the table of Phase 12: schedule_notification
    has_contract_event_key: bool = False  # the unique key of events does not include the session
    can_add_sessions: bool = True  # our migrations created the table; a backend creates its own sessions
    has_delivery: bool = False  # notifications are delivered by duly, and people have a language


async def find_table_support(connection: Connection, schema: str) -> TableSupport:
    """Inspect the tables of a schema; NotMigrated when sessions or columns of the lease migration are missing."""
    tables = await find_columns(connection, schema)
    if "capture_session" not in tables:
        raise _missing_sessions(schema, await find_session_schemas(connection))
    incomplete = sorted(table for table, added in ADDED_COLUMNS.items() if not added <= tables.get(table, added))
    if incomplete:
        raise NotMigrated(
            f"DB_SCHEMA={schema}: a backend created {', '.join(incomplete)}, and the worker needs more columns; add "
            f"them with: psql -v schema={schema} -f {LEASE_MIGRATION}"
        )
    has_events = {"day_snapshot", "schedule_event"} <= tables.keys()
    return TableSupport(
        has_events=has_events,
        has_notifications=has_events and "schedule_notification" in tables,
        has_contract_event_key=has_events and await has_contract_event_key(connection, schema),
        can_add_sessions=tables["capture_session"] >= OUR_COLUMNS,
        has_delivery="delivery" in tables.get("schedule_notification", ()),
    )


async def check_states(connection: Connection, schema: str, states: States) -> None:
    """Raise Misconfigured when a setting names a state that the database does not have."""
    names = await find_state_names(connection, schema) or []
    for setting, state in vars(states).items():
        if state not in names:
            raise Misconfigured(
                f"{setting.upper()}_STATE={state}: capture_session has the states {', '.join(names)}; use one of these"
            )


def _missing_sessions(schema: str, session_schemas: Sequence[str]) -> NotMigrated:
    """Return the error for a schema without capture_session; it names the schemas that have one."""
    if session_schemas:
        fix = f"this database has one in {', '.join(session_schemas)}: set DB_SCHEMA to that"
    else:
        fix = "set DB_SCHEMA to the schema that has it, or create the tables with: duly migrate"
    return NotMigrated(f"DB_SCHEMA={schema}: there is no table {schema}.capture_session; {fix}")


# Statements -----------------------------------------------------------------------------------------------------------


async def find_columns(connection: Connection, schema: str) -> dict[str, set[str]]:
    """Return the columns of each table of a schema."""
    rows = await get_rows(connection, SQL.find_columns, schema=schema)
    return {row["table_name"]: set(row["columns"]) for row in rows}


async def find_session_schemas(connection: Connection) -> list[str]:
    """Return the schemas that have a table of sessions."""
    return await find_value(connection, SQL.find_session_schemas) or []


async def has_contract_event_key(connection: Connection, schema: str) -> bool:
    """Return whether events have the contract's unique key, which does not include the session."""
    return await find_value(connection, SQL.has_contract_event_key, schema=schema) is True


async def find_state_names(connection: Connection, schema: str) -> list[str] | None:
    """Return the states that a session can have in this database; None when it has no sessions."""
    return await find_value(connection, SQL.find_state_names, table=f'"{schema}".capture_session')
