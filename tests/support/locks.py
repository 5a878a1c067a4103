"""Waiting for somebody to wait."""

import time

import psycopg

__all__ = ["wait_until_blocked"]

SECONDS = 30.0


def wait_until_blocked(database: str, many: int = 1) -> None:
    """Return once so many in this database wait for a lock."""
    blocked = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    with psycopg.connect(database, autocommit=True) as admin:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            (waiting,) = admin.execute(blocked).fetchone() or (0,)
            if waiting >= many:
                return
    raise AssertionError("nobody ever waited" if many == 1 else f"never did {many} wait")
