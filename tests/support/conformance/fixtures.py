"""Databases for the laws: our migrations, the two tables, and a clock that can be moved."""

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
from tests.support.lending import Lender
from tests.support.pooler import pooler

Connection = AsyncConnection[Any]


@pytest.fixture
def laws(lawbooks: Lender) -> Generator[str, None, None]:
    """The address of a database with the two tables."""
    with lawbooks.lend() as dsn:
        yield dsn


@pytest.fixture(params=SHAPES, ids=str)
def shape(request: pytest.FixtureRequest) -> Shape:
    """Each of the tables in turn."""
    return request.param


@pytest.fixture
def admin(laws: str) -> Generator[psycopg.Connection[Any], None, None]:
    """A connection that may do anything: the test's own hand."""
    with psycopg.connect(laws, autocommit=True) as connection:
        yield connection


@pytest.fixture
def workers(laws: str, request: pytest.FixtureRequest, home: Path) -> Generator[str, None, None]:
    """The address workers connect to, as their role: the server, or a pooler before it."""
    address = make_conninfo(laws, user=Names().worker)
    if not request.config.getoption("--through-pooler"):
        yield address
        return
    with pooler(address, home) as pooled:
        yield pooled


@pytest.fixture
async def connection(workers: str) -> AsyncGenerator[Connection, None]:
    """A worker's connection, with a worker's rights."""
    async with await connect(workers) as connection:
        yield connection


@pytest.fixture
async def other(workers: str) -> AsyncGenerator[Connection, None]:
    """Another worker's connection."""
    async with await connect(workers) as connection:
        yield connection


class Clock:
    """The database's clock, in the test's hand."""

    def __init__(self, admin: psycopg.Connection[Any]) -> None:
        self.admin = admin

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        move_clock(self.admin, seconds)


@pytest.fixture
def clock(admin: psycopg.Connection[Any]) -> Clock:
    """The clock of this test's database."""
    return Clock(admin)
