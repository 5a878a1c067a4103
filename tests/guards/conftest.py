"""A database with a row in every table, for every attack of a process: each is rolled back."""

from collections.abc import Generator
from typing import Any

import psycopg
import pytest

from duly.testing import TestDatabases
from tests.guards.ground import lay_ground


@pytest.fixture(scope="module")
def ground(databases: TestDatabases, worker_id: str) -> Generator[psycopg.Connection[Any], None, None]:
    """The connection that attacks begin with; it may do anything."""
    with databases.clone(worker_id) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        lay_ground(connection)
        yield connection
