"""What the outbox accepts and refuses, on every PostgreSQL there is."""

from typing import LiteralString

import psycopg
import pytest

from tests.fast.outbox.test_outbox import create_message
from tests.support.actions import Admin


@pytest.mark.parametrize(
    ("change", "constraint"),
    [
        ("status = 'failed'", "ck_outbox__last_error"),
        ("status = 'sending'", "ck_outbox__lease"),
        ("status = 'sending', lease_owner = 'me'", "ck_outbox__lease"),
    ],
)
def test_a_message_state_requires_its_columns(change: LiteralString, constraint: str, admin: Admin) -> None:
    create_message(admin)
    with pytest.raises(psycopg.errors.CheckViolation, match=constraint):
        admin.execute("update duly.outbox set " + change)
