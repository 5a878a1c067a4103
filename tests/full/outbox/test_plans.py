"""The statements that send messages find their rows by an index, also where no message waited at ANALYZE."""

import pytest

from duly.outbox import repository
from tests.fast.lease.test_lease import Admin
from tests.fast.outbox.test_lease_conformance import session, shape
from tests.full.lease.test_plans import (
    check_statements,
    fill_and_analyse_while_idle,
    plan,
    test_no_statement_scans_a_table_that_was_analysed_while_idle,
)
from tests.support.conformance.fixtures import Connection, admin, conformance_dsn, connection, workers
from tests.support.conformance.tables import MESSAGE, MessageShape
from tests.support.plans import check_plan

__all__ = [
    "admin",
    "conformance_dsn",
    "connection",
    "session",
    "shape",
    "test_no_statement_scans_a_table_that_was_analysed_while_idle",
    "workers",
]
SENDING = ("resend_uncertain",)  # beside the statements of the lease


@pytest.mark.parametrize("table", ["outbox", "notification"])
async def test_no_sending_statement_scans_a_table_that_was_analysed_while_idle(
    table: str, shape: MessageShape, connection: Connection, admin: Admin
) -> None:
    messages = MESSAGE if table == "outbox" else shape
    await fill_and_analyse_while_idle(messages, connection, admin)
    statements = repository.SQL.using(**messages.messages.names)
    for mode in ("force_custom_plan", "force_generic_plan"):
        admin.execute(f"set plan_cache_mode = {mode}".encode())
        for name in SENDING:
            check_plan(name, plan(admin, messages, getattr(statements, name)))
        check_plan("claim", plan(admin, messages, messages.table.statements.claim))
        check_statements(admin, messages)
