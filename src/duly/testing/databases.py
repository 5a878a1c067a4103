"""Databases for tests: a server with durability off, one template, and a clone of it for every test.

    processes of a test run ---- shared lock on <directory>/run.lock; the last process removes the directory
         |
         +---- one server: TEST_DATABASE_URL, or a private one in the directory
                  +---- one template, built by the first process
                           +---- a clone for every test

`TEST_DATABASE_URL` is used only when the name of its database contains `test`. Without it a private server is started,
and deleted afterwards; no other setting is used.
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

from duly.configuration.engine import DATABASE_VARIABLES, parse_address, plain_address
from duly.db.admin import clone_database, create_database, drop_database, has_database, list_databases, rename_database
from duly.db.embedded import EmbeddedServer
from duly.db.embedded.locks import hold_shared, is_held
from duly.db.migrate import migrate
from duly.db.migrations import names_from_settings
from duly.db.queries import load_queries
from duly.errors import NotATestDatabase, Unavailable
from duly.settings import is_for_tests, load_settings
from duly.testing.clock import install_test_clock

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
POLL_SECONDS = 0.02
SQL = load_queries(__file__, "databases.sql")


# The server -----------------------------------------------------------------------------------------------------------


def server_for_tests() -> str | None:
    """Return `TEST_DATABASE_URL`, or None; raises NotATestDatabase unless its database name contains `test`."""
    dsn = os.environ.get("TEST_DATABASE_URL")
    if not dsn:
        return None
    try:
        name = parse_address(dsn).get("dbname", "")
    except ValueError as error:
        raise NotATestDatabase(f"TEST_DATABASE_URL is {error}") from None
    if not is_for_tests(name):
        raise NotATestDatabase(
            f"TEST_DATABASE_URL names the database '{name}', which is not marked as a test database; use one with "
            "'test' in its name, such as 'duly_test', or unset it to use a private server"
        )
    return plain_address(dsn)


@contextmanager
def open_server(directory: Path) -> Generator[str, None, None]:
    """Yield the DSN of the server of a test run: TEST_DATABASE_URL, or an embedded server in this directory."""
    if dsn := server_for_tests():
        yield dsn
        return
    with EmbeddedServer.start(directory / "main", settings=FAST_SETTINGS) as embedded:
        yield embedded.dsn()


# The shared directory -------------------------------------------------------------------------------------------------


@contextmanager
def shared_directory(directory: Path) -> Generator[Path, None, None]:
    """Yield a directory for all processes of a test run; the last one removes it, and the databases of the run."""
    lock_descriptor = lock_shared(directory)
    try:
        yield directory
    finally:
        try:
            if try_lock_exclusively(lock_descriptor):
                remove_test_run(directory)
        finally:
            os.close(lock_descriptor)


def lock_shared(directory: Path) -> int:
    """Create the directory and lock it shared; retries when another process removes it at the same time."""
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o755)  # an unprivileged server account must have access
        lock = directory / "run.lock"
        with suppress(FileNotFoundError):
            lock_descriptor = hold_shared(lock)
            if is_same_file(lock_descriptor, lock):
                return lock_descriptor
            os.close(lock_descriptor)


def is_same_file(descriptor: int, path: Path) -> bool:
    """Return whether an open file is still the one at this path."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


def try_lock_exclusively(lock_descriptor: int) -> bool:
    """Lock exclusively, so that new processes wait; return False when another process has the lock."""
    try:
        fcntl.flock(lock_descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def remove_test_run(directory: Path) -> None:
    """Remove the databases of a run from a permanent server, and its directory."""
    try:
        with suppress(NotATestDatabase):  # rejected before anything was created there
            if dsn := server_for_tests():
                TestDatabases(dsn, database_prefix(directory)).drop_all()
    finally:
        remove_server_directory(directory)


def remove_server_directory(directory: Path) -> None:
    """Remove a directory of servers once they have stopped."""
    deadline = time.monotonic() + STOP_SECONDS
    for lock in directory.rglob("supervisor.lock"):
        while is_held(lock):
            if time.monotonic() > deadline:
                raise Unavailable(f"PostgreSQL in {lock.parent} has not stopped within {STOP_SECONDS:.0f} s")
            time.sleep(POLL_SECONDS)
    shutil.rmtree(directory, ignore_errors=True)


def database_prefix(directory: Path) -> str:
    """Return the prefix of all database names of a run."""
    return f"duly_test_{directory.name.rsplit('-', 1)[-1].lower()[:12]}"


# Databases ------------------------------------------------------------------------------------------------------------


def build_test_template(dsn: str) -> None:
    """Migrate an empty database with the roles of the settings, and install a test clock."""
    settings = load_settings()
    migrate(dsn, names_from_settings(settings), when_empty=settings.apps)
    with connect(dsn, autocommit=True) as admin:
        install_test_clock(admin)


def lock_templates(admin: psycopg.Connection[Any]) -> None:
    """Keep other processes from building a template on this server until this connection ends."""
    admin.execute(SQL.lock_templates, {"key": TEMPLATE_LOCK})


class TestDatabases:
    """Clones of one template on one server, cheap enough for every test."""

    __test__ = False  # for pytest: not a test class

    def __init__(self, dsn: str, prefix: str, template: str | None = None) -> None:
        self.dsn = dsn
        self.prefix = prefix
        self.template = template or f"{prefix}_template"
        self.numbers = itertools.count(1)

    def build_template(self, build: Callable[[str], None]) -> None:
        """Create the template unless another process has; `build` gets its DSN."""
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
        """Yield the DSN of a new database, which is dropped afterwards together with its connections."""
        name = f"{self.prefix}_{owner}_{next(self.numbers)}"
        with connect(self.dsn, autocommit=True) as admin:
            clone_database(admin, self.template, name)
        try:
            yield make_conninfo(self.dsn, dbname=name)
        finally:
            with connect(self.dsn, autocommit=True) as admin:
                drop_database(admin, name)

    def drop_all(self) -> None:
        """Drop every database with this prefix, including the template."""
        with connect(self.dsn, autocommit=True) as admin:
            for name in list_databases(admin, f"{self.prefix}_"):
                drop_database(admin, name)
