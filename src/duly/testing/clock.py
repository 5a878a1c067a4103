"""The clock of a test database: tests move it instead of sleeping or editing rows.

    clock = Clock(duly_database)
    clock.advance("6h")

duly decides everything by the clock of the database: what is due, which lease has expired, what has been retained long
enough. The clock of the process, and `now()` of PostgreSQL, do not move.
"""

from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import psycopg
from psycopg.rows import scalar_row

from duly.db.queries import load_queries
from duly.errors import NotATestDatabase
from duly.jobs.duration import Duration, to_seconds

SQL = load_queries(__file__, "clock.sql")


class Clock:
    """The clock of a test database, given by its DSN or by a connection to it.

    On a connection with an open transaction, the clock moves for others when that is committed.
    """

    def __init__(self, database: str | psycopg.Connection[Any]) -> None:
        self.database = database

    def now(self) -> datetime:
        """Return the current time of the database."""
        with self.connection() as connection:
            return read_clock(connection)

    def advance(self, duration: Duration) -> datetime:
        """Move the clock forward ("90s", "6h", "1d12h", a timedelta, or seconds), and return the new time."""
        seconds = to_seconds(duration)
        with self.connection() as connection:
            require_test_clock(connection)
            move_clock(connection, seconds)
            return read_clock(connection)

    @contextmanager
    def connection(self) -> Generator[psycopg.Connection[Any], None, None]:
        """Yield the given connection, or open one."""
        if not isinstance(self.database, str):
            yield self.database
            return
        with psycopg.connect(self.database, autocommit=True) as connection:
            yield connection


def require_test_clock(connection: psycopg.Connection[Any]) -> None:
    """Raise NotATestDatabase unless the clock of this database can be moved."""
    if not has_test_clock(connection):
        raise NotATestDatabase(
            f"the database '{connection.info.dbname}' has no test clock, so it does not count as a test database; use "
            "the fixture duly_database, or call duly.testing.install_test_clock(connection)"
        )


def install_test_clock(connection: psycopg.Connection[Any]) -> None:
    """Install movable clocks in a migrated test database, unless it has them."""
    if not has_test_clock(connection):
        connection.execute(SQL.install_test_clock)


def has_test_clock(connection: psycopg.Connection[Any]) -> bool:
    """Return whether the clock of this database can be moved."""
    return connection.cursor(row_factory=scalar_row).execute(SQL.has_test_clock).fetchone() is True


def move_clock(connection: psycopg.Connection[Any], seconds: float) -> None:
    """Move the clock of this database, forward or, with negative seconds, back."""
    connection.execute(SQL.move_clock, {"seconds": seconds})


def read_clock(connection: psycopg.Connection[Any]) -> datetime:
    """Return the current time of the database."""
    now = connection.cursor(row_factory=scalar_row).execute(SQL.read_clock).fetchone()
    assert isinstance(now, datetime), "the query returns one row"
    return now
