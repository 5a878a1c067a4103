"""Test helpers for users of duly.

    def test_an_order_makes_a_thumbnail(duly_database):
        with psycopg.connect(duly_database) as tx:
            place_order(tx, "a1")
            assert_enqueued(tx, thumbnail, image_id="a1")     # in the transaction that will commit it
        (job,) = drain(app, duly_database)                    # a real worker performs what is due
        assert job.result == {"width": 256}

`jobs` performs handlers and checks which jobs are enqueued, `clock` moves the time of a database, `databases` creates a
database per test, and `plugin` provides the pytest fixtures `duly_database` and `duly_clock`. The database is always a
real PostgreSQL. docs/testing.md has the details.

The names below are imported on first use, because pytest imports this package in every project that has duly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duly.testing.clock import Clock, install_test_clock, move_clock
    from duly.testing.databases import (
        FAST_SETTINGS,
        FOREIGN_DATABASE_VARIABLES,
        TestDatabases,
        open_server,
        server_for_tests,
        shared_directory,
    )
    from duly.testing.jobs import assert_enqueued, assert_not_enqueued, drain, perform

__all__ = [
    "FAST_SETTINGS",
    "FOREIGN_DATABASE_VARIABLES",
    "Clock",
    "TestDatabases",
    "assert_enqueued",
    "assert_not_enqueued",
    "drain",
    "install_test_clock",
    "move_clock",
    "open_server",
    "perform",
    "server_for_tests",
    "shared_directory",
]

MODULES = {
    **dict.fromkeys(("Clock", "install_test_clock", "move_clock"), "duly.testing.clock"),
    **dict.fromkeys(("FAST_SETTINGS", "FOREIGN_DATABASE_VARIABLES"), "duly.testing.databases"),
    **dict.fromkeys(("TestDatabases", "open_server", "server_for_tests", "shared_directory"), "duly.testing.databases"),
    **dict.fromkeys(("assert_enqueued", "assert_not_enqueued", "drain", "perform"), "duly.testing.jobs"),
}


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module 'duly.testing' has no attribute '{name}'")
    value = getattr(import_module(MODULES[name]), name)
    globals()[name] = value
    return value
