"""The transitions of a row, in order, as the triggers of its state machine logged them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import AsyncConnection

from duly.db.queries import load_queries
from duly.db.rows import get_rows
from duly.paging import Page, build_page, checked_limit, decode_cursor

SQL = load_queries(__file__, "timeline.sql")


@dataclass(frozen=True)
class Transition:
    """One transition of a row."""

    seq: int
    ts: datetime
    prev_status: str | None
    next_status: str
    actor: str | None
    detail_json: Mapping[str, Any] | None


async def list_transitions(
    connection: AsyncConnection[Any], machine: str, key: object, *, cursor: str | None = None, limit: int = 100
) -> Page[Transition]:
    """List one page of the transitions of a row."""
    after = 0 if cursor is None else decode_cursor(cursor, int)[0]
    rows = await get_rows(
        connection, SQL.list_transitions, machine=machine, key=str(key), after_seq=after, limit=checked_limit(limit) + 1
    )
    return build_page([Transition(**row) for row in rows], limit, lambda each: (each.seq,))
