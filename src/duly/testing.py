"""Databases for tests: a server with durability off, one template, and a clone of it for every test.

Only `TEST_DATABASE_URL` is ever used, and only when its database says that it is for tests; otherwise a private server
is started and thrown away.
"""

import itertools
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg import connect
from psycopg.conninfo import make_conninfo

from duly.db.admin import clone_database, create_database, drop_database, has_database, list_databases
from duly.db.queries import load_queries
from duly.errors import NotATestDatabase
from duly.settings import DATABASE_VARIABLES, is_for_tests, parse_address

__all__ = [
    "FAST_SETTINGS",
    "FOREIGN_DATABASE_VARIABLES",
    "TestDatabases",
    "install_test_clock",
    "move_clock",
    "server_for_tests",
]

FAST_SETTINGS: Final = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "autovacuum": "off",
}
FOREIGN_DATABASE_VARIABLES = ("DATABASE_DIRECT_URL", *(set(DATABASE_VARIABLES) - {"TEST_DATABASE_URL"}))
TEMPLATE_LOCK = 0x64756C79  # "duly"
SQL = load_queries(__file__, "testing.sql")


def server_for_tests() -> str | None:
    """`TEST_DATABASE_URL` when set and marked: the word `test` stands in the database's name."""
    dsn = os.environ.get("TEST_DATABASE_URL")
    if not dsn:
        return None
    try:
        name = parse_address(dsn).get("dbname", "")
    except ValueError as error:
        raise NotATestDatabase(f"TEST_DATABASE_URL is {error}") from None
    if not is_for_tests(name):
        raise NotATestDatabase(
            f"TEST_DATABASE_URL names the database '{name}', which is not marked as one for tests; use one with the "
            "word 'test' in its name, say 'duly_test', or unset it to test on a private server"
        )
    return dsn


def install_test_clock(connection: psycopg.Connection[Any]) -> None:
    """Give a test database clocks that can be moved: six hours pass by moving them, not by sleeping or editing rows."""
    connection.execute(SQL.install_test_clock)


def move_clock(connection: psycopg.Connection[Any], seconds: float) -> None:
    """Let so much time pass in this database; backwards too."""
    connection.execute(SQL.move_clock, {"seconds": seconds})


def lock_templates(admin: psycopg.Connection[Any]) -> None:
    """Keep every other process from building a template on this server, until this connection ends."""
    admin.execute(SQL.lock_templates, {"key": TEMPLATE_LOCK})


class TestDatabases:
    """Clones of one template on one server, cheap enough for every test."""

    __test__ = False  # pytest: not a class of tests

    def __init__(self, dsn: str, prefix: str, template: str | None = None) -> None:
        self.dsn = dsn
        self.prefix = prefix
        self.template = template or f"{prefix}_template"
        self.numbers = itertools.count(1)

    def build_template(self, build: Callable[[str], None]) -> None:
        """Make the template once, whichever of many processes comes first; `build` gets its address."""
        with connect(self.dsn, autocommit=True) as admin:
            lock_templates(admin)
            if has_database(admin, self.template):
                return
            draft = f"{self.prefix}_draft"
            drop_database(admin, draft)
            build(create_database(self.dsn, draft))
            clone_database(admin, draft, self.template)
            drop_database(admin, draft)

    @contextmanager
    def clone(self, owner: str) -> Generator[str, None, None]:
        """The address of a fresh database, gone afterwards together with its connections."""
        name = f"{self.prefix}_{owner}_{next(self.numbers)}"
        with connect(self.dsn, autocommit=True) as admin:
            clone_database(admin, self.template, name)
        try:
            yield make_conninfo(self.dsn, dbname=name)
        finally:
            with connect(self.dsn, autocommit=True) as admin:
                drop_database(admin, name)

    def drop_all(self) -> None:
        """Remove every database of this prefix, the template included."""
        with connect(self.dsn, autocommit=True) as admin:
            for name in list_databases(admin, f"{self.prefix}_"):
                drop_database(admin, name)
