"""How we look at a whole database: with enough memory for its histories, and not at all where we would be blind."""

import re
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import scalar_row

from duly.db.queries import load_queries
from duly.errors import Misconfigured

__all__ = ["is_member", "list_unreadable", "refusal_of_the_blind", "refusal_of_the_shut_out", "take_room"]

SQL = load_queries(__file__, "looking.sql")
ROOM_BYTES = 128 * 2**20  # for each sort and each hash
PLAIN = re.compile(r"[a-z_][a-z0-9_]*")  # needs no quotes

Connection = psycopg.Connection[Any]


def take_room(connection: Connection) -> None:
    """Have histories sorted and hashed as a whole in this transaction, with more memory than most statements need."""
    connection.execute(SQL.take_room, {"bytes": ROOM_BYTES})


def list_unreadable(connection: Connection, schemas: Sequence[str]) -> Sequence[str]:
    """The tables of these schemas that this login may not read."""
    return connection.cursor(row_factory=scalar_row).execute(SQL.list_unreadable, {"schemas": list(schemas)}).fetchall()


def is_member(connection: Connection, role: str) -> bool:
    """May this login do all that a role may?"""
    return connection.cursor(row_factory=scalar_row).execute(SQL.is_member, {"role": role}).fetchone() is True


def refusal_of_the_blind(connection: Connection, hidden: Sequence[str], reader: str) -> Misconfigured:
    """Why nothing is looked at by a login from which rows are hidden, and what lets it see them."""
    login = connection.info.user
    return Misconfigured(
        f"{login} does not see every row, and would find nothing wrong: {'; '.join(hidden)}; {another_login(reader)}"
    )


def refusal_of_the_shut_out(
    connection: Connection, schemas: Sequence[str], reader: str, error: psycopg.Error
) -> Misconfigured:
    """What a login may not read, and what lets it; a reader from whom something was taken gets that back."""
    login = connection.info.user
    tables = ", ".join(list_unreadable(connection, schemas))
    said = error.diag.message_primary
    if tables and is_member(connection, reader):
        fix = f"run: grant select on {tables} to {quoted(login)}"
    else:
        fix = another_login(reader)
    return Misconfigured(f"{login} may not read {tables or 'everything'} ({said}); {fix}")


def another_login(reader: str) -> str:
    """Who is to look instead: to make an application's login the owner would lift every policy off it."""
    return f"run it with the login that migrated, or another that may act as {reader}"


def quoted(name: str) -> str:
    """A name as it is written in a statement."""
    return name if PLAIN.fullmatch(name) else sql.Identifier(name).as_string(None)
