"""Waiting for somebody to wait."""

import psycopg

__all__ = ["wait_until_blocked"]


def wait_until_blocked(database: str) -> None:
    """Return once somebody in this database waits for a lock."""
    blocked = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    with psycopg.connect(database, autocommit=True) as admin:
        for _ in range(3000):
            if admin.execute(blocked).fetchone() != (0,):
                return
            admin.execute("select pg_sleep(0.01)")
    raise AssertionError("nobody ever waited")
