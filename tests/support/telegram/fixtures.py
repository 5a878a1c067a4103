"""Fixtures of bot tests."""

from collections.abc import Generator

import pytest

from duly.storage import ObjectStore
from tests.support.api import temporary_object_store
from tests.support.bot_api import FakeTelegram
from tests.support.scheduler.actions import ScheduleActions
from tests.support.scheduler.fixtures import admin, api, database, schedules, worker
from tests.support.telegram.environment import BotTestEnvironment

__all__ = ["admin", "api", "database", "env", "objects", "schedules", "worker"]


@pytest.fixture
def objects() -> Generator[ObjectStore, None, None]:
    """Return an object store."""
    with temporary_object_store() as store:
        yield store


@pytest.fixture
def env(schedules: ScheduleActions, telegram: FakeTelegram, objects: ObjectStore) -> BotTestEnvironment:
    """Return the environment of bot tests."""
    return BotTestEnvironment(schedules, telegram, objects)
