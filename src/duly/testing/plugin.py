"""The pytest plugin: a database for every test, and its clock.

It is installed with duly and named `duly` (`-p no:duly` disables it). A test run that uses none of its fixtures pays
only for the import of this file.

    duly_home       a directory shared by the processes of the run, removed at the end   session
    duly_server     the DSN of the server of the run                                     session
    duly_template   to override: creates your own tables in the template                 session
    duly_databases  the template and its clones                                          session
    duly_database   the DSN of a new database for this test, with a test clock           function
    duly_clock      the clock of that database                                           function
"""

import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

if TYPE_CHECKING:  # imported by the fixtures that need them
    from duly.testing.clock import Clock
    from duly.testing.databases import TestDatabases

BASE_DIRECTORY = Path("/tmp")  # noqa: S108 (short enough for the path of a socket; the name is random)


@pytest.fixture(scope="session")
def duly_home() -> Generator[Path, None, None]:
    """Yield a directory shared by all processes of this test run; the last one removes it."""
    from duly.testing.databases import shared_directory

    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or uuid4().hex
    with shared_directory(BASE_DIRECTORY / f"duly-tests-{run}") as directory:
        yield directory


@pytest.fixture(scope="session")
def duly_server(duly_home: Path) -> Generator[str, None, None]:
    """Yield the DSN of the server: TEST_DATABASE_URL, or a private server."""
    from duly.testing.databases import open_server

    with open_server(duly_home) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def duly_template() -> Callable[[str], None]:
    """Return a function that gets the DSN of the future template once; override it to create your own tables."""
    return lambda _: None


@pytest.fixture(scope="session")
def duly_databases(duly_server: str, duly_home: Path, duly_template: Callable[[str], None]) -> "TestDatabases":
    """Return the template, built by the first process of the run, and its clones."""
    from duly.testing.databases import TestDatabases, build_test_template, database_prefix

    prefix = database_prefix(duly_home)
    databases = TestDatabases(duly_server, prefix, template=f"{prefix}_movable")

    def build(dsn: str) -> None:
        build_test_template(dsn)
        duly_template(dsn)

    databases.build_template(build)
    return databases


@pytest.fixture
def duly_database(duly_databases: "TestDatabases") -> Generator[str, None, None]:
    """Yield the URL of a new database for this test: migrated, empty, with a test clock.

    psycopg, asyncpg and SQLAlchemy's `create_engine` accept it as it is.
    """
    from duly.db.location import to_url

    with duly_databases.clone(f"of_{os.getpid()}") as dsn:
        yield to_url(dsn)


@pytest.fixture
def duly_clock(duly_database: str) -> "Clock":
    """Return the clock of this test's database: `duly_clock.advance("6h")`."""
    from duly.testing.clock import Clock

    return Clock(duly_database)
