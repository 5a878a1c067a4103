"""Waiting for somebody to wait."""

import time

import psycopg

__all__ = ["wait_until_blocked"]

SECONDS = 30.0


def wait_until_blocked(database: str) -> None:
    """Return once somebody in this database waits for a lock."""
    blocked = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    with psycopg.connect(database, autocommit=True) as admin:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            if admin.execute(blocked).fetchone() != (0,):
                return
    raise AssertionError("nobody ever waited")
