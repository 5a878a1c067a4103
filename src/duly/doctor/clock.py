"""Clock: skew between this machine and the database, and test clocks."""

import time
from collections.abc import Sequence

from duly.db.queries import load_queries
from duly.db.rows import Row
from duly.doctor.connection import Connection
from duly.doctor.context import CheckContext
from duly.doctor.finding import Note, Verdict, bad, grade, ok

SQL = load_queries(__file__, "clock.sql")
CLOCK_READINGS = 5


def check_clock(context: CheckContext) -> Sequence[Note]:
    """Check that the clocks of this machine and of the database agree."""
    with context.short_transaction() as connection:
        half_trip, skew = min((read_skew(connection) for _ in range(CLOCK_READINGS)), key=lambda reading: reading[0])
    side = "ahead of" if skew > 0 else "behind"
    found = f"this machine is {abs(skew):.3f} s {side} the database, give or take {half_trip:.3f} s"
    verdict = grade(abs(skew), context.limits.skew_warn_seconds, context.limits.skew_bad_seconds)
    if verdict is Verdict.OK:
        return [ok(found)]
    scope = "duly uses only the clock of the database; logs use that of this machine"
    return [Note(verdict, f"{found} ({scope})", "run a time service (chrony, systemd-timesyncd) on both machines")]


def read_skew(connection: Connection) -> tuple[float, float]:
    """Return half of the round trip, and how far our clock was ahead in the middle of it, in seconds."""
    before = time.time()
    database_time = read_clock(connection)
    after = time.time()
    return (after - before) / 2, (before + after) / 2 - database_time


def read_clock(connection: Connection) -> float:
    """Return the time of the database, in seconds since 1970."""
    row = connection.execute(SQL.read_clock).fetchone()
    assert row, "the query always returns a row"
    return row[0]


def check_test_clock(context: CheckContext) -> Sequence[Note]:
    """Check that the clock of this database is not a test clock."""
    if not find_test_clock(context):
        return [ok("not installed")]
    found = "installed: any session can change the time of this database, which is not for production"
    return [bad(found, "set DATABASE_URL to a database created by duly migrate, without the test clock")]


def find_test_clock(context: CheckContext) -> Row | None:
    """Return the table of a test clock, if there is one."""
    return next(iter(context.query(SQL.find_test_clock)), None)
