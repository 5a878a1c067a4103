"""One function per statement of `queries.sql`."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import orjson
from psycopg import Connection
from psycopg.rows import dict_row

from duly.apps.ingest.canonical import CANONICALIZER
from duly.db.queries import load_queries
from tools.bench.ingest.content import Known, Shown

SQL = load_queries(__file__)


# Making ---------------------------------------------------------------------------------------------------------------


def disable_triggers(connection: Connection[Any]) -> None:
    """Write without guards, events and foreign keys from now on."""
    connection.execute(SQL.disable_triggers)


def add_known(connection: Connection[Any], user_id: int, days: Sequence[Known]) -> None:
    """Store days of a person."""
    connection.execute(
        SQL.add_known,
        {
            "user_id": user_id,
            "days": [day.schedule_date for day in days],
            "payloads": [as_json(day.seen.payload) for day in days],
            "hashes": [day.seen.payload_hash for day in days],
            "shifts": [as_json([shift.document for shift in day.seen.shifts]) for day in days],
            "canonicalizer": CANONICALIZER,
        },
    )


def vacuum(connection: Connection[Any]) -> None:
    """Vacuum and analyze the tables."""
    connection.execute(SQL.vacuum)


def add_sessions(connection: Connection[Any], sessions: Sequence[Shown]) -> None:
    """Create waiting sessions."""
    connection.execute(
        SQL.add_sessions,
        {
            "ids": [each.key for each in sessions],
            "user_ids": [each.user_id for each in sessions],
            "payloads": [as_json(each.payload) for each in sessions],
        },
    )


# Looking --------------------------------------------------------------------------------------------------------------


def has_unfinished(connection: Connection[Any]) -> bool:
    """Check for an unfinished session."""
    return connection.execute(SQL.has_unfinished).fetchone() == (True,)


def get_drain(connection: Connection[Any], first: UUID) -> Mapping[str, Any]:
    """Read the results of the sessions from this one on."""
    row = connection.cursor(row_factory=dict_row).execute(SQL.get_drain, {"first": first}).fetchone()
    assert row is not None
    return row


def as_json(value: object) -> str:
    """Encode a value as JSON text."""
    return orjson.dumps(value).decode()
