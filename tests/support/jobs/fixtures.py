"""Fixtures for tests of jobs."""

import pytest

from tests.support.actions import Admin, Connection
from tests.support.fixtures import admin, api, database, dsn, other, worker
from tests.support.jobs.actions import JobActions

__all__ = ["admin", "api", "database", "dsn", "jobs", "other", "worker"]


@pytest.fixture
def jobs(admin: Admin, worker: Connection) -> JobActions:
    """The actions of tests of jobs."""
    return JobActions(admin, worker)
