"""A database with a row in every table, for every attack of a process: each is rolled back."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from duly.testing import TestDatabases
from tests.conftest import build_conformance_tables, open_database_pool
from tests.proof.guards.sample_rows import insert_sample_rows
from tests.support.database_pool import DatabasePool


@pytest.fixture(scope="module")
def sample_database(databases: TestDatabases, worker_id: str) -> Generator[psycopg.Connection[Any], None, None]:
    """The connection that attacks begin with; it may do anything."""
    with databases.clone(worker_id) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        insert_sample_rows(connection)
        yield connection


@pytest.fixture(scope="session")
def conformance_databases(server: str, run_home: Path, worker_id: str) -> Generator[DatabasePool, None, None]:
    """Databases with the conformance tables, and a clock that can be moved."""
    yield from open_database_pool(server, run_home, worker_id, "conformance", build_conformance_tables)
