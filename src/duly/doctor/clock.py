"""The clock: do we and the database agree what time it is, and is it the true one?"""

import time
from collections.abc import Sequence

from duly.db.queries import load_queries
from duly.db.rows import Row
from duly.doctor.case import Case
from duly.doctor.connection import Connection
from duly.doctor.finding import Note, Verdict, bad, graded, ok

__all__ = ["check_clock", "check_test_clock"]

SQL = load_queries(__file__, "clock.sql")
CLOCK_READINGS = 5


def check_clock(case: Case) -> Sequence[Note]:
    """Do this machine and the database agree what time it is?"""
    with case.quietly() as connection:
        half, skew = min((read_skew(connection) for _ in range(CLOCK_READINGS)), key=lambda reading: reading[0])
    side = "ahead of" if skew > 0 else "behind"
    found = f"this machine is {abs(skew):.3f} s {side} the database, give or take {half:.3f} s"
    verdict = graded(abs(skew), case.limits.skew_warn_seconds, case.limits.skew_bad_seconds)
    if verdict is Verdict.OK:
        return [ok(found)]
    used = "duly uses the database's clock only; logs and people do not"
    return [Note(verdict, f"{found} ({used})", "run a time service (chrony, systemd-timesyncd) on both machines")]


def read_skew(connection: Connection) -> tuple[float, float]:
    """Half the round trip, and how far our clock was ahead in the middle of it."""
    before = time.time()
    theirs = read_clock(connection)
    after = time.time()
    return (after - before) / 2, (before + after) / 2 - theirs


def read_clock(connection: Connection) -> float:
    """The database's time, in seconds since 1970."""
    row = connection.execute(SQL.read_clock).fetchone()
    assert row, "a clock always shows something"
    return row[0]


def check_test_clock(case: Case) -> Sequence[Note]:
    """Is it the true time that duly goes by here?"""
    if not find_test_clock(case):
        return [ok("not installed")]
    found = "installed: anybody can move the time of this database, which is not for production"
    return [bad(found, "set DATABASE_URL to a database made by duly migrate, without the clock of the tests")]


def find_test_clock(case: Case) -> Row | None:
    """The table that a clock of the tests stands on, if there is one."""
    return next(iter(case.ask(SQL.find_test_clock)), None)
