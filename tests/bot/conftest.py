"""A bot between the scheduler's hands and a Bot API of the test's own."""

from collections.abc import Generator

import pytest

from duly.objects import Objects
from tests.bot.hands import House
from tests.scheduler.conftest import admin, api, database, hands, worker
from tests.scheduler.hands import Hands
from tests.support.api import objects_here
from tests.support.telegram import FakeTelegram

__all__ = ["admin", "api", "database", "hands", "house", "objects", "worker"]


@pytest.fixture
def objects() -> Generator[Objects, None, None]:
    """Where images are kept."""
    with objects_here() as kept:
        yield kept


@pytest.fixture
def house(hands: Hands, telegram: FakeTelegram, objects: Objects) -> House:
    """What tests of the bot do all the time."""
    return House(hands, telegram, objects)
