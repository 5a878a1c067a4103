"""Fixtures for tests of posts."""

import pytest

from tests.support.actions import Admin, Connection
from tests.support.fixtures import admin, api, database, dsn, other, worker
from tests.support.posts.actions import PostActions

__all__ = ["admin", "api", "database", "dsn", "other", "posts", "worker"]


@pytest.fixture
def posts(admin: Admin, worker: Connection, api: Admin) -> PostActions:
    """What tests of posts do."""
    return PostActions(admin, worker, api)
