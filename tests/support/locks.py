"""Waiting for a lock: until others wait for one, and for one's own turn."""

import time
from collections.abc import Generator
from contextlib import contextmanager

import psycopg

SECONDS = 30.0
SUPABASE_TURN = 0x73757061


@contextmanager
def supabase_turn(server: str) -> Generator[None, None, None]:
    """Roles belong to the whole server: one test at a time makes those of Supabase, or applies files that know them."""
    with psycopg.connect(server, autocommit=True) as turn:
        turn.execute("select pg_advisory_lock(%s)", [SUPABASE_TURN])
        yield


def wait_until_blocked(database: str, many: int = 1) -> None:
    """Return once so many in this database wait for a lock."""
    blocked = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    with psycopg.connect(database, autocommit=True) as admin:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            (waiting,) = admin.execute(blocked).fetchone() or (0,)
            if waiting >= many:
                return
    raise AssertionError(f"fewer than {many} waited for a lock")
