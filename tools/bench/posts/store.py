"""One function per statement of `queries.sql`."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from psycopg import Connection
from psycopg.rows import dict_row, scalar_row

from duly.db.queries import load_queries
from tools.bench.posts.content import CAPTIONS

SQL = load_queries(__file__)
AN_HOUR = timedelta(hours=1)


# Making ---------------------------------------------------------------------------------------------------------------


def add_people(connection: Connection[Any], prefix: str, people: int) -> None:
    """Create people."""
    connection.execute(SQL.add_people, {"prefix": prefix, "people": people})


def read_clock(connection: Connection[Any]) -> datetime:
    """Read the database's clock."""
    now = connection.cursor(row_factory=scalar_row).execute(SQL.read_clock).fetchone()
    assert isinstance(now, datetime)
    return now


def add_waiting(connection: Connection[Any], prefix: str, posts: int, first: datetime, seconds: float) -> None:
    """Create a post of each person, due within some seconds from a time on."""
    connection.execute(
        SQL.add_waiting,
        {"prefix": prefix, "posts": posts, "first": first, "seconds": seconds, "captions": CAPTIONS},
    )


def disable_triggers(connection: Connection[Any]) -> None:
    """Write without guards, events and foreign keys from now on."""
    connection.execute(SQL.disable_triggers)


def add_stored(connection: Connection[Any], prefix: str, authors: int, numbers: range, ai: str) -> None:
    """Create posts that were released long ago."""
    connection.execute(
        SQL.add_stored,
        {
            "prefix": prefix,
            "authors": authors,
            "begin": numbers.start,
            "end": numbers.stop,
            "captions": CAPTIONS,
            "ai": ai,
        },
    )


def vacuum(connection: Connection[Any]) -> None:
    """Vacuum and analyze the tables."""
    connection.execute(SQL.vacuum)


def add_authors(
    connection: Connection[Any],
    uids: Sequence[str],
    uploads: Sequence[str],
    prefixes: Sequence[str],
    secrets: Sequence[bytes],
) -> None:
    """Create people who may post, each with a key and an image."""
    connection.execute(
        SQL.add_authors,
        {"uids": list(uids), "uploads": list(uploads), "prefixes": list(prefixes), "secrets": list(secrets)},
    )


# Looking --------------------------------------------------------------------------------------------------------------


def has_unfinished(connection: Connection[Any], first: datetime) -> bool:
    """Check for a post, due from this time on, that is not released."""
    found = connection.execute(SQL.has_unfinished, {"first": first, "last": first + AN_HOUR}).fetchone()
    return found == (True,)


def get_release(connection: Connection[Any], first: datetime) -> Mapping[str, Any]:
    """Read how posts due from this time on were released."""
    cursor = connection.cursor(row_factory=dict_row)
    row = cursor.execute(SQL.get_release, {"first": first, "last": first + AN_HOUR}).fetchone()
    assert row is not None
    return row


def count_intents(connection: Connection[Any], uids: Sequence[str]) -> int:
    """Count the people who have a complete post."""
    found = connection.cursor(row_factory=scalar_row).execute(SQL.count_intents, {"uids": list(uids)}).fetchone()
    assert isinstance(found, int)
    return found
