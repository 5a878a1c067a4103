"""Read the shape of the ingest tables from PostgreSQL's catalogue: one function per statement."""

from duly.db.queries import load_queries
from duly.db.rows import Connection, find_value, get_rows

SQL = load_queries(__file__, "catalog.sql")


async def find_columns(connection: Connection, schema: str) -> dict[str, set[str]]:
    """Return the columns of each table of a schema."""
    rows = await get_rows(connection, SQL.find_columns, schema=schema)
    return {row["table_name"]: set(row["columns"]) for row in rows}


async def find_session_schemas(connection: Connection) -> list[str]:
    """Return the schemas that have a table of sessions."""
    return await find_value(connection, SQL.find_session_schemas) or []


async def has_contract_event_key(connection: Connection, schema: str) -> bool:
    """Check whether events have the contract's unique key, which does not include the session."""
    return await find_value(connection, SQL.has_contract_event_key, schema=schema) is True


async def find_state_names(connection: Connection, schema: str) -> list[str] | None:
    """Return the states that a session can have in this database; None when it has no sessions."""
    return await find_value(connection, SQL.find_state_names, table=f'"{schema}".capture_session')
