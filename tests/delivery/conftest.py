"""Databases for messages, with a clock that can be moved, and a server that webhooks are posted to."""

from collections.abc import Generator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.testing import install_test_clock
from tests.delivery.receiver import Receiver


@pytest.fixture
def database(movable_database: str) -> str:
    """Here, one with a clock that can be moved."""
    return movable_database


@pytest.fixture
def admin(database: str) -> Generator[psycopg.Connection[Any], None, None]:
    """The test's own hand, with a clock that it can move."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("set timezone = 'UTC'")
        install_test_clock(connection)
        yield connection


@pytest.fixture
def dsn(admin: psycopg.Connection[Any]) -> str:
    """Where senders connect, as themselves."""
    return make_conninfo(admin.info.dsn, user=Names().worker)


@pytest.fixture
def receiver() -> Generator[Receiver, None, None]:
    """A server that takes webhooks, and answers as it is told."""
    with Receiver() as server:
        yield server
