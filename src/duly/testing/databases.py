"""Databases for tests: a server with durability off, one template, and a clone of it for every test.

    the processes of a test run ---- shared lock on <directory>/run.lock
         |                                              whoever is alone there at its end removes the directory
         +---- one server: TEST_DATABASE_URL, or a private one in the directory
                  +---- one template, built by whichever process comes first
                           +---- a clone for every test

Only `TEST_DATABASE_URL` is ever used, and only when its database says that it is for tests; otherwise a private server
is started and thrown away.
"""

import fcntl
import itertools
import os
import shutil
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import connect
from psycopg.conninfo import make_conninfo

from duly.db.admin import clone_database, create_database, drop_database, has_database, list_databases, rename_database
from duly.db.embedded import EmbeddedServer
from duly.db.embedded.locks import hold_shared, is_held
from duly.db.migrate import migrate
from duly.db.migrations import names_of
from duly.db.queries import load_queries
from duly.errors import NotATestDatabase, Unavailable
from duly.settings import DATABASE_VARIABLES, is_for_tests, load_settings, parse_address, plain_address
from duly.testing.clock import install_test_clock

__all__ = [
    "FAST_SETTINGS",
    "FOREIGN_DATABASE_VARIABLES",
    "TestDatabases",
    "build_movable",
    "lock_templates",
    "open_server",
    "prefix_of",
    "remove_home",
    "remove_run",
    "server_for_tests",
    "shared_directory",
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
STOP_SECONDS = 60.0
LOOK_SECONDS = 0.02
SQL = load_queries(__file__, "databases.sql")


# The server -----------------------------------------------------------------------------------------------------------


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
    return plain_address(dsn)


@contextmanager
def open_server(directory: Path) -> Generator[str, None, None]:
    """The address of a test run's server: TEST_DATABASE_URL, or an embedded one in this directory."""
    if dsn := server_for_tests():
        yield dsn
        return
    with EmbeddedServer.start(directory / "main", settings=FAST_SETTINGS) as embedded:
        yield embedded.dsn()


# What the processes of a run share ------------------------------------------------------------------------------------


@contextmanager
def shared_directory(directory: Path) -> Generator[Path, None, None]:
    """A directory for all processes of a test run; the last to leave removes it, and its databases elsewhere."""
    hold = enter(directory)
    try:
        yield directory
    finally:
        try:
            if is_alone(hold):
                remove_run(directory)
        finally:
            os.close(hold)


def enter(directory: Path) -> int:
    """Make the directory, and hold it; one that is being removed this instant is made again."""
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o755)  # an unprivileged server account must be able to enter
        lock = directory / "run.lock"
        with suppress(FileNotFoundError):
            hold = hold_shared(lock)
            if is_at(hold, lock):
                return hold
            os.close(hold)


def is_at(descriptor: int, path: Path) -> bool:
    """Is the file that we opened still the one of this name?"""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


def is_alone(hold: int) -> bool:
    """Does nobody else hold it? Then it is ours alone, and newcomers wait."""
    try:
        fcntl.flock(hold, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def remove_run(directory: Path) -> None:
    """Remove what a run left behind: its databases on a server that stays, and its directory."""
    try:
        with suppress(NotATestDatabase):  # which was refused before anything was made there
            if dsn := server_for_tests():
                TestDatabases(dsn, prefix_of(directory)).drop_all()
    finally:
        remove_home(directory)


def remove_home(directory: Path) -> None:
    """Remove a directory of servers once the servers in it have gone."""
    deadline = time.monotonic() + STOP_SECONDS
    for lock in directory.rglob("supervisor.lock"):
        while is_held(lock):
            if time.monotonic() > deadline:
                raise Unavailable(f"the PostgreSQL in {lock.parent} still runs after {STOP_SECONDS:.0f} s")
            time.sleep(LOOK_SECONDS)
    shutil.rmtree(directory, ignore_errors=True)


def prefix_of(directory: Path) -> str:
    """The beginning of every database name of a run."""
    return f"duly_test_{directory.name.rsplit('-', 1)[-1].lower()[:12]}"


# Databases ------------------------------------------------------------------------------------------------------------


def build_movable(dsn: str) -> None:
    """Give an empty database duly's tables, for the roles of the settings, and a clock that can be moved."""
    migrate(dsn, names_of(load_settings()))
    with connect(dsn, autocommit=True) as admin:
        install_test_clock(admin)


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
            rename_database(admin, draft, self.template)

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
