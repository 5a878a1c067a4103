"""Conformance tests of leases on the messages of an ingest schema.

The outbox itself is one of the tables of `tests/fast/lease`.
"""

import pytest

from tests.fast.lease.test_lease import Admin
from tests.support.conformance.every_table import *  # noqa: F403
from tests.support.conformance.tables import NOTIFICATION, MessageShape
from tests.support.conformance.with_note import *  # noqa: F403


@pytest.fixture
def shape() -> MessageShape:
    """Messages about days."""
    return NOTIFICATION


@pytest.fixture(autouse=True)
def session(admin: Admin, shape: MessageShape) -> None:
    """There is a session that they come from; and they name themselves."""
    session = shape.required["source_session_id"]
    admin.execute("insert into schedule_ingest.capture_session (id, user_id) values (%s, 42)", [session])
    column = "alter table schedule_ingest.schedule_notification alter notification_id"
    admin.execute(column + " set default gen_random_uuid()::text")
