"""What happened to a row, in order: the lines that the triggers of its machine wrote."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import AsyncConnection

from duly.db.queries import load_queries
from duly.db.rows import get_rows
from duly.paging import Page, checked_limit, page_of, read_place

__all__ = ["Transition", "list_transitions"]

SQL = load_queries(__file__, "timeline.sql")


@dataclass(frozen=True)
class Transition:
    """One line of a row's log."""

    seq: int
    ts: datetime
    prev_status: str | None
    next_status: str
    actor: str | None
    detail_json: Mapping[str, Any] | None


async def list_transitions(
    connection: AsyncConnection[Any], machine: str, key: object, *, place: str | None = None, limit: int = 100
) -> Page[Transition]:
    """A page of a row's log."""
    after = 0 if place is None else read_place(place, int)[0]
    rows = await get_rows(
        connection, SQL.list_transitions, machine=machine, key=str(key), after_seq=after, limit=checked_limit(limit) + 1
    )
    return page_of([Transition(**row) for row in rows], limit, lambda each: (each.seq,))
