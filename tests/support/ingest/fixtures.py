"""Fixtures for tests of captures; the API has an asynchronous connection."""

from collections.abc import AsyncGenerator

import pytest

from duly.db.migrations import Names
from duly.db.pool import connect
from tests.support.actions import Admin, Connection
from tests.support.fixtures import address_for, admin, database, dsn, worker
from tests.support.ingest.actions import CaptureActions

__all__ = ["admin", "api", "captures", "database", "dsn", "worker"]


@pytest.fixture
async def api(admin: Admin) -> AsyncGenerator[Connection, None]:
    """A connection with the rights of the API."""
    async with await connect(address_for(admin, Names().api)) as connection:
        yield connection


@pytest.fixture
def captures(admin: Admin, worker: Connection, api: Connection) -> CaptureActions:
    """The actions of capture tests."""
    return CaptureActions(admin, worker, api)
