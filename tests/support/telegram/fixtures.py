"""A bot between the scheduler's hands and a Bot API of the test's own."""

from collections.abc import Generator

import pytest

from duly.storage import Objects
from tests.support.api import objects_here
from tests.support.bot_api import FakeTelegram
from tests.support.scheduler.actions import ScheduleActions
from tests.support.scheduler.fixtures import admin, api, database, schedules, worker
from tests.support.telegram.hands import House

__all__ = ["admin", "api", "database", "house", "objects", "schedules", "worker"]


@pytest.fixture
def objects() -> Generator[Objects, None, None]:
    """Where images are kept."""
    with objects_here() as kept:
        yield kept


@pytest.fixture
def house(schedules: ScheduleActions, telegram: FakeTelegram, objects: Objects) -> House:
    """What tests of the bot do all the time."""
    return House(schedules, telegram, objects)
