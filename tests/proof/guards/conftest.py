"""A database with a row in every table, for every attack of a process: each is rolled back; and such as laws have."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from duly.testing import TestDatabases
from tests.conftest import build_conformance_tables, lending
from tests.proof.guards.ground import lay_ground
from tests.support.lending import Lender


@pytest.fixture(scope="module")
def ground(databases: TestDatabases, worker_id: str) -> Generator[psycopg.Connection[Any], None, None]:
    """The connection that attacks begin with; it may do anything."""
    with databases.clone(worker_id) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        lay_ground(connection)
        yield connection


@pytest.fixture(scope="session")
def conformance_databases(server: str, run_home: Path, worker_id: str) -> Generator[Lender, None, None]:
    """Databases with the conformance tables, and a clock that can be moved."""
    yield from lending(server, run_home, worker_id, "conformance", build_conformance_tables)
