"""The pytest plugin: a database for every test, and its clock.

Installed with duly and known to pytest as `duly` (`-p no:duly` leaves it out). It only offers fixtures: whoever asks
for none of them pays for the import of this file, and nothing more.

    duly_home       a directory that the processes of this run share, gone at the end          session
    duly_server     the address of the run's server                                            session
    duly_template   yours to override: what your databases have besides duly's own tables       session
    duly_databases  the template, and clones of it                                             session
    duly_database   the address of a fresh database of this test's own, with a movable clock   function
    duly_clock      that database's clock                                                      function
"""

import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

if TYPE_CHECKING:  # nothing that a test run without our fixtures would import in vain
    from duly.testing.clock import Clock
    from duly.testing.databases import TestDatabases

__all__ = ["duly_clock", "duly_database", "duly_databases", "duly_home", "duly_server", "duly_template"]

PLACE = Path("/tmp")  # noqa: S108 (short enough for a socket, and its name is nobody's to guess)


@pytest.fixture(scope="session")
def duly_home() -> Generator[Path, None, None]:
    """A directory that all processes of this test run share, removed by the last of them."""
    from duly.testing.databases import shared_directory

    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or uuid4().hex
    with shared_directory(PLACE / f"duly-tests-{run}") as directory:
        yield directory


@pytest.fixture(scope="session")
def duly_server(duly_home: Path) -> Generator[str, None, None]:
    """The address of the server: TEST_DATABASE_URL if it is marked as for tests, else a private one."""
    from duly.testing.databases import open_server

    with open_server(duly_home) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def duly_template() -> Callable[[str], None]:
    """Called once with the address of the database that is about to become the template: put your own tables there."""
    return lambda _: None


@pytest.fixture(scope="session")
def duly_databases(duly_server: str, duly_home: Path, duly_template: Callable[[str], None]) -> "TestDatabases":
    """The template, built by whichever process of the run comes first, and clones of it."""
    from duly.testing.databases import TestDatabases, build_movable, prefix_of

    prefix = prefix_of(duly_home)
    databases = TestDatabases(duly_server, prefix, template=f"{prefix}_movable")

    def build(dsn: str) -> None:
        build_movable(dsn)
        duly_template(dsn)

    databases.build_template(build)
    return databases


@pytest.fixture
def duly_database(duly_databases: "TestDatabases") -> Generator[str, None, None]:
    """The address of a database of this test's own: migrated, empty, with a clock that can be moved.

    A URL, which psycopg, asyncpg and SQLAlchemy's `create_engine` take as it is.
    """
    from duly.db.location import url_of

    with duly_databases.clone(f"of_{os.getpid()}") as dsn:
        yield url_of(dsn)


@pytest.fixture
def duly_clock(duly_database: str) -> "Clock":
    """The clock of this test's database: `duly_clock.advance("6h")`."""
    from duly.testing.clock import Clock

    return Clock(duly_database)
