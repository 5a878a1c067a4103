"""Conformance tests of leases on the messages of an ingest schema: every statement that they share with the outbox.

The outbox itself is one of the tables in `tests/support/conformance`; the sender's query for due messages has tests of
its own.
"""

import pytest

from duly.outbox.states import notification_machine, notification_table
from tests.fast.lease.test_lease import Admin
from tests.support.conformance.everywhere import *  # noqa: F403
from tests.support.conformance.noted import *  # noqa: F403
from tests.support.conformance.tables import Shape

SESSION = "00000000-0000-0000-0000-00000000000a"


@pytest.fixture
def shape() -> Shape:
    """Messages about days."""
    return Shape(
        table=notification_table(),
        machine=notification_machine(),
        end="sent",
        note="receipt",
        poison="x" * 2049,
        required={
            "user_id": "42",
            "schedule_date": "2026-11-17",
            "source_session_id": SESSION,
            "notification_type": "summary",
            "message": "Nothing is as it was",
            "event_ids": "[]",
        },
    )


@pytest.fixture(autouse=True)
def session(admin: Admin) -> None:
    """There is a session that they come from; and they name themselves."""
    admin.execute("insert into schedule_ingest.capture_session (id, user_id) values (%s, 42)", [SESSION])
    column = "alter table schedule_ingest.schedule_notification alter notification_id"
    admin.execute(column + " set default gen_random_uuid()::text")
