"""How we look at a whole database: with enough memory for its histories, for as long as the transaction."""

from typing import Any

import psycopg

from duly.db.queries import load_queries

__all__ = ["take_room"]

SQL = load_queries(__file__, "looking.sql")
ROOM_BYTES = 128 * 2**20  # for each sort and each hash


def take_room(connection: psycopg.Connection[Any]) -> None:
    """Have histories sorted and hashed as a whole in this transaction, with more memory than most statements need."""
    connection.execute(SQL.take_room, {"bytes": ROOM_BYTES})
