"""The database of the contract's own tests, which run by `python -m unittest` as well as by pytest.

TEST_DATABASE_URL, or DATABASE_URL     that one, if its name says that it is for tests; made ours if it is empty
neither                                one of our own, on a private server that goes afterwards
a run of pytest                        one of our own, on the run's server
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg

from duly.db.admin import create_database
from duly.db.migrate import migrate
from duly.db.migrations import names_of
from duly.errors import NotATestDatabase
from duly.settings import is_for_tests, load_settings, parse_address, plain_address
from duly.testing.databases import TestDatabases, build_movable, open_server, prefix_of, shared_directory

__all__ = ["database_for_tests", "given_database"]

VARIABLES = ("TEST_DATABASE_URL", "DATABASE_URL")
RUN_HOME = "DULY_TEST_RUN_HOME"  # of pytest
PLACE = Path("/tmp")  # short enough for a socket
LEFT = """
update schedule_ingest.capture_session
set state = 'failed', error = 'left behind by another test', locked_at = null, locked_by = null, lease_seconds = null
where state in ('pending', 'processing')
"""


def given_database() -> str | None:
    """The address that the environment names; NotATestDatabase when that is not one for tests."""
    for variable in VARIABLES:
        if dsn := os.environ.get(variable):
            name = parse_address(dsn).get("dbname", "")
            if not is_for_tests(name):
                raise NotATestDatabase(f"{variable} names the database '{name}', which is not marked as one for tests")
            return plain_address(dsn)
    return None


@contextmanager
def database_for_tests() -> Generator[str, None, None]:
    """The address of a migrated database in which no session waits."""
    if run_home := os.environ.get(RUN_HOME):
        with open_server(Path(run_home)) as server:
            prefix = prefix_of(Path(run_home))
            databases = TestDatabases(server, prefix, template=f"{prefix}_movable")
            databases.build_template(build_movable)
            with databases.clone(f"contract_{uuid4().hex[:8]}") as dsn:
                yield dsn
    elif dsn := given_database():
        yield made_ours(dsn)
    else:
        with shared_directory(PLACE / f"duly-tests-{uuid4().hex}") as directory, open_server(directory) as server:
            yield made_ours(create_database(server, "contract_test"))


def made_ours(dsn: str) -> str:
    """The same address, once the database has our tables, and no session that an earlier run left waiting."""
    migrate(dsn, names_of(load_settings()))
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(LEFT)
    return dsn
