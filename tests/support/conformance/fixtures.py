"""Databases for the conformance tests: our migrations, the test tables, and a clock that can be moved."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.db.pool import connect
from duly.testing import move_clock
from tests.support.conformance.tables import SHAPES, Shape
from tests.support.database_pool import DatabasePool
from tests.support.pooler import pooler

Connection = AsyncConnection[Any]


@pytest.fixture
def conformance_dsn(conformance_databases: DatabasePool) -> Generator[str, None, None]:
    """Lend a database with the test tables; returns its address."""
    with conformance_databases.borrow() as dsn:
        yield dsn


@pytest.fixture(params=SHAPES, ids=str)
def shape(request: pytest.FixtureRequest) -> Shape:
    """Return each of the tables in turn."""
    return request.param


@pytest.fixture
def admin(conformance_dsn: str) -> Generator[psycopg.Connection[Any], None, None]:
    """Open a superuser connection for the test itself."""
    with psycopg.connect(conformance_dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def workers(conformance_dsn: str, request: pytest.FixtureRequest, home: Path) -> Generator[str, None, None]:
    """Return the address that workers connect to, as their role: the server, or a pooler in front of it."""
    address = make_conninfo(conformance_dsn, user=Names().worker)
    if not request.config.getoption("--through-pooler"):
        yield address
        return
    with pooler(address, home) as pooled:
        yield pooled


@pytest.fixture
async def connection(workers: str) -> AsyncGenerator[Connection, None]:
    """Open a connection with the rights of a worker."""
    async with await connect(workers) as connection:
        yield connection


@pytest.fixture
async def other(workers: str) -> AsyncGenerator[Connection, None]:
    """Open the connection of another worker."""
    async with await connect(workers) as connection:
        yield connection


class Clock:
    """Moves the clock of the test database."""

    def __init__(self, admin: psycopg.Connection[Any]) -> None:
        self.admin = admin

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        move_clock(self.admin, seconds)


@pytest.fixture
def clock(admin: psycopg.Connection[Any]) -> Clock:
    """Return the clock of this test's database."""
    return Clock(admin)
