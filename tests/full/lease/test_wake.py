"""Workers are notified of new work, at most once per 50 ms, on every PostgreSQL version."""

from tests.fast.lease.test_wake import (
    MESSAGE,
    Connection,
    admin,
    count_notifications,
    listener,
    wait_for_another_window,
)

__all__ = ["admin", "listener"]


def test_an_insert_by_a_role_with_only_insert_rights_notifies_workers(listener: Connection, admin: Connection) -> None:
    wait_for_another_window(admin)
    with admin.transaction():
        admin.execute("grant insert on duly.outbox to duly_readonly")
        admin.execute("set local role duly_readonly")
        admin.execute(MESSAGE)
    assert count_notifications(listener, admin) == 1
