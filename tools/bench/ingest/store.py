"""One small function per statement: connection in, value out."""

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
    """From now on write without guards, logs and checks of keys."""
    connection.execute(SQL.disable_triggers)


def add_known(connection: Connection[Any], user_id: int, days: Sequence[Known]) -> None:
    """Write down what was seen of a person's days long ago."""
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
    """Let the planner know the tables."""
    connection.execute(SQL.vacuum)


def add_sessions(connection: Connection[Any], sessions: Sequence[Shown]) -> None:
    """Make sessions that wait."""
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
    """Is there a session that is not done?"""
    return connection.execute(SQL.has_unfinished).fetchone() == (True,)


def get_drain(connection: Connection[Any], first: UUID) -> Mapping[str, Any]:
    """What came of the sessions from this one on."""
    row = connection.cursor(row_factory=dict_row).execute(SQL.get_drain, {"first": first}).fetchone()
    assert row is not None
    return row


def as_json(value: object) -> str:
    """A value as PostgreSQL takes it."""
    return orjson.dumps(value).decode()
