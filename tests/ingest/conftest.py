"""Databases for captures, with a clock that can be moved, and connections as the roles that use them."""

from collections.abc import AsyncGenerator, Generator
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.db.pool import connect
from duly.testing import install_test_clock
from tests.ingest.hands import Hands


@pytest.fixture
def database(movable_database: str) -> str:
    """Here, one with a clock that can be moved."""
    return movable_database


@pytest.fixture
def admin(database: str) -> Generator[psycopg.Connection[Any], None, None]:
    """The test's own hand, with a clock that it can move."""
    with psycopg.connect(database, autocommit=True) as connection:
        install_test_clock(connection)
        yield connection


@pytest.fixture
async def worker(admin: psycopg.Connection[Any]) -> AsyncGenerator[AsyncConnection[Any], None]:
    """A worker's connection, with a worker's rights."""
    async with await connect(make_conninfo(admin.info.dsn, user=Names().worker)) as connection:
        yield connection


@pytest.fixture
async def api(admin: psycopg.Connection[Any]) -> AsyncGenerator[AsyncConnection[Any], None]:
    """A connection with the API's rights."""
    async with await connect(make_conninfo(admin.info.dsn, user=Names().api)) as connection:
        yield connection


@pytest.fixture
def hands(admin: psycopg.Connection[Any], api: AsyncConnection[Any], worker: AsyncConnection[Any]) -> Hands:
    """What tests do all the time."""
    return Hands(admin, api, worker)
