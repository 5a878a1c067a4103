"""Time in a test database: six hours pass by moving its clock, not by sleeping or editing rows.

    clock = Clock(duly_database)
    clock.advance("6h")

Everything that duly decides by time it decides by the database's clock: what is due, which lease has lapsed, what has
been kept long enough. The process's own clock, and PostgreSQL's `now()`, stay as they are.
"""

from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import psycopg
from psycopg.rows import scalar_row

from duly.db.queries import load_queries
from duly.errors import NotATestDatabase
from duly.jobs.duration import Duration, seconds_of

__all__ = ["Clock", "has_test_clock", "install_test_clock", "move_clock", "read_clock", "require_test_clock"]

SQL = load_queries(__file__, "clock.sql")


class Clock:
    """The clock of a test database, named by its address or by a connection to it.

    On a connection with a transaction open, the clock moves for others when that is committed.
    """

    def __init__(self, database: str | psycopg.Connection[Any]) -> None:
        self.database = database

    def now(self) -> datetime:
        """What time it is in this database."""
        with self.connection() as connection:
            return read_clock(connection)

    def advance(self, duration: Duration) -> datetime:
        """Let so much time pass ("90s", "6h", "1d12h", a timedelta, or seconds); what time it is then."""
        seconds = seconds_of(duration)
        with self.connection() as connection:
            require_test_clock(connection)
            move_clock(connection, seconds)
            return read_clock(connection)

    @contextmanager
    def connection(self) -> Generator[psycopg.Connection[Any], None, None]:
        """The connection we were given, or one for a moment."""
        if not isinstance(self.database, str):
            yield self.database
            return
        with psycopg.connect(self.database, autocommit=True) as connection:
            yield connection


def require_test_clock(connection: psycopg.Connection[Any]) -> None:
    """Refuse a database that was not made for tests."""
    if not has_test_clock(connection):
        raise NotATestDatabase(
            f"the database '{connection.info.dbname}' has no clock that can be moved, so it is not taken for one for "
            "tests; use the fixture duly_database, or give it one with duly.testing.install_test_clock(connection)"
        )


def install_test_clock(connection: psycopg.Connection[Any]) -> None:
    """Give a migrated test database clocks that can be moved, unless it has them."""
    if not has_test_clock(connection):
        connection.execute(SQL.install_test_clock)


def has_test_clock(connection: psycopg.Connection[Any]) -> bool:
    """Can the clock of this database be moved?"""
    return connection.cursor(row_factory=scalar_row).execute(SQL.has_test_clock).fetchone() is True


def move_clock(connection: psycopg.Connection[Any], seconds: float) -> None:
    """Let so much time pass in this database; backwards too."""
    connection.execute(SQL.move_clock, {"seconds": seconds})


def read_clock(connection: psycopg.Connection[Any]) -> datetime:
    """The database's time."""
    now = connection.cursor(row_factory=scalar_row).execute(SQL.read_clock).fetchone()
    assert isinstance(now, datetime), "a clock always answers"
    return now
