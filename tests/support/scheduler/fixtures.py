"""Fixtures for tests of schedules; the API has a pool."""

from collections.abc import AsyncGenerator

import pytest

from duly.db.migrations import Names
from duly.db.pool import Pool, open_pool
from tests.support.actions import Admin, Connection
from tests.support.fixtures import address_for, admin, database, dsn, worker
from tests.support.scheduler.actions import ScheduleActions

__all__ = ["admin", "api", "database", "dsn", "schedules", "worker"]


@pytest.fixture
async def api(admin: Admin) -> AsyncGenerator[Pool, None]:
    """Connections with the rights of the API."""
    async with open_pool(address_for(admin, Names().api), size=4) as pool:
        yield pool


@pytest.fixture
def schedules(admin: Admin, worker: Connection, api: Pool) -> ScheduleActions:
    """What tests of schedules do."""
    return ScheduleActions(admin, worker, api)
