"""What users of duly need in their own tests.

    def test_an_order_makes_a_thumbnail(duly_database):
        with psycopg.connect(duly_database) as tx:
            place_order(tx, "a1")
            assert_enqueued(tx, thumbnail, image_id="a1")     # in the transaction that will commit it
        (job,) = drain(app, duly_database)                    # a real worker performs what is due
        assert job.result == {"width": 256}

`jobs` performs handlers and looks for what was asked for, `clock` lets time pass in a database, `databases` makes one
for every test, and `plugin` gives all of it to pytest as the fixtures `duly_database` and `duly_clock`. The database is
a real one, always: there is no twin of it in memory. docs/testing.md shows the whole of it.

The names below are imported when they are first used: pytest imports this package in every project that has duly.
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

PLACES = {
    **dict.fromkeys(("Clock", "install_test_clock", "move_clock"), "duly.testing.clock"),
    **dict.fromkeys(("FAST_SETTINGS", "FOREIGN_DATABASE_VARIABLES"), "duly.testing.databases"),
    **dict.fromkeys(("TestDatabases", "open_server", "server_for_tests", "shared_directory"), "duly.testing.databases"),
    **dict.fromkeys(("assert_enqueued", "assert_not_enqueued", "drain", "perform"), "duly.testing.jobs"),
}


def __getattr__(name: str) -> Any:
    if name not in PLACES:
        raise AttributeError(f"module 'duly.testing' has no attribute '{name}'")
    value = getattr(import_module(PLACES[name]), name)
    globals()[name] = value
    return value
