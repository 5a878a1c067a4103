"""Prerequisites of a verification: enough memory for sorting logs, and a login that sees every row."""

import re
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import scalar_row

from duly.db.queries import load_queries
from duly.errors import Misconfigured

SQL = load_queries(__file__, "access.sql")
WORK_MEM_BYTES = 128 * 2**20  # per sort and hash

Connection = psycopg.Connection[Any]


def raise_work_mem(connection: Connection) -> None:
    """Set work_mem and planner settings for this transaction, so that full logs are sorted and hashed in memory."""
    connection.execute(SQL.raise_work_mem, {"bytes": WORK_MEM_BYTES})


def list_unreadable(connection: Connection, schemas: Sequence[str]) -> Sequence[str]:
    """Return the tables of these schemas that this login may not read."""
    return connection.cursor(row_factory=scalar_row).execute(SQL.list_unreadable, {"schemas": list(schemas)}).fetchall()


def is_member(connection: Connection, role: str) -> bool:
    """Return whether this login has the privileges of a role."""
    return connection.cursor(row_factory=scalar_row).execute(SQL.is_member, {"role": role}).fetchone() is True


def row_security_error(connection: Connection, hidden: Sequence[str], reader: str) -> Misconfigured:
    """Return the error for a login from which row security hides rows, with the fix."""
    login = connection.info.user
    return Misconfigured(
        f"{login} does not see every row, so nothing would be found: {'; '.join(hidden)}; "
        f"{describe_other_login(reader)}"
    )


def permission_error(
    connection: Connection, schemas: Sequence[str], reader: str, error: psycopg.Error
) -> Misconfigured:
    """Return the error for a login that may not read a table, with the fix: a grant for a member of the reader role."""
    login = connection.info.user
    tables = ", ".join(list_unreadable(connection, schemas))
    message = error.diag.message_primary
    if tables and is_member(connection, reader):
        fix = f"run: grant select on {tables} to {quote_identifier(login)}"
    else:
        fix = describe_other_login(reader)
    return Misconfigured(f"{login} may not read {tables or 'everything'} ({message}); {fix}")


def describe_other_login(reader: str) -> str:
    """Name the login to use instead; making an application's login the owner would lift every policy off it."""
    return f"run it with the login that migrated, or another that may act as {reader}"


def quote_identifier(name: str) -> str:
    """Quote an identifier for SQL; a name with an underscore is no keyword and needs no quotes."""
    return name if re.fullmatch(r"[a-z]+(_[a-z0-9]+)+", name) else sql.Identifier(name).as_string(None)
