"""Fixtures for tests of messages."""

from collections.abc import Generator

import pytest

from tests.support.actions import Admin, Connection
from tests.support.fixtures import admin, database, dsn, worker
from tests.support.outbox.actions import MessageActions
from tests.support.outbox.receiver import Receiver

__all__ = ["admin", "database", "dsn", "messages", "receiver", "worker"]


@pytest.fixture
def messages(admin: Admin, worker: Connection) -> MessageActions:
    """What tests of messages do."""
    return MessageActions(admin, worker)


@pytest.fixture
def receiver() -> Generator[Receiver, None, None]:
    """A server that accepts webhooks, and answers as a test says."""
    with Receiver() as server:
        yield server
