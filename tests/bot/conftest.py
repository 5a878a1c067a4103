"""A Bot API of the test's own, a database with a clock that can be moved, and a bot that may run in this process."""

from collections.abc import AsyncGenerator, Generator
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.db.pool import Pool, connect, open_pool
from duly.objects import Objects
from duly.testing import install_test_clock
from tests.bot.hands import House
from tests.scheduler.hands import Hands
from tests.support.api import objects_here
from tests.support.telegram import FakeTelegram


@pytest.fixture
def telegram() -> Generator[FakeTelegram, None, None]:
    """The Bot API."""
    with FakeTelegram() as server:
        yield server


@pytest.fixture
def objects() -> Generator[Objects, None, None]:
    """Where images are kept."""
    with objects_here() as kept:
        yield kept


@pytest.fixture
def admin(database: str) -> Generator[psycopg.Connection[Any], None, None]:
    """The test's own hand, with a clock that it can move."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("set timezone = 'UTC'")
        install_test_clock(connection)
        yield connection


@pytest.fixture
async def api(admin: psycopg.Connection[Any]) -> AsyncGenerator[Pool, None]:
    """Connections with the API's rights, which are the bot's too."""
    async with open_pool(make_conninfo(admin.info.dsn, user=Names().api), size=8) as pool:
        yield pool


@pytest.fixture
async def worker(admin: psycopg.Connection[Any]) -> AsyncGenerator[AsyncConnection[Any], None]:
    """A worker's connection, with a worker's rights."""
    async with await connect(make_conninfo(admin.info.dsn, user=Names().worker)) as connection:
        yield connection


@pytest.fixture
def house(
    admin: psycopg.Connection[Any], api: Pool, worker: AsyncConnection[Any], telegram: FakeTelegram, objects: Objects
) -> House:
    """What tests of the bot do all the time."""
    return House(Hands(admin, api, worker), telegram, objects)
