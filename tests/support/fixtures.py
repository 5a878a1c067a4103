"""A database whose clock can be moved, and connections to it with the rights of each role.

The packages' own fixtures import these and add what tests of the package use; `api` differs among them.
"""

from collections.abc import AsyncGenerator, Generator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.db.pool import connect
from duly.testing import install_test_clock
from tests.support.actions import Admin, Connection


@pytest.fixture
def database(movable_database: str) -> str:
    """A database whose clock can be moved."""
    return movable_database


@pytest.fixture
def admin(database: str) -> Generator[Admin, None, None]:
    """A connection with every right, in UTC."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("set timezone = 'UTC'")
        install_test_clock(connection)
        yield connection


@pytest.fixture
def dsn(admin: Admin) -> str:
    """The address with which workers connect."""
    return address_for(admin, Names().worker)


@pytest.fixture
async def worker(admin: Admin) -> AsyncGenerator[Connection, None]:
    """A connection with the rights of a worker."""
    async with await connect(address_for(admin, Names().worker)) as connection:
        yield connection


@pytest.fixture
async def other(admin: Admin) -> AsyncGenerator[Connection, None]:
    """The connection of another worker."""
    async with await connect(address_for(admin, Names().worker)) as connection:
        yield connection


@pytest.fixture
def api(admin: Admin) -> Generator[Admin, None, None]:
    """A connection with the rights of the API."""
    with psycopg.connect(address_for(admin, Names().api), autocommit=True) as connection:
        yield connection


def address_for(admin: Admin, role: str) -> str:
    """Return the database's address for a role."""
    return make_conninfo(admin.info.dsn, user=role)
