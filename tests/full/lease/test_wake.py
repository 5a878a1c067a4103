"""Workers are notified of new work, at most once per 50 ms, on every PostgreSQL version."""

from tests.fast.lease.test_wake import MESSAGE, Connection, admin, heard, listener, wait_for_another_window

__all__ = ["admin", "listener"]


def test_a_role_that_may_only_insert_wakes_them_all_the_same(listener: Connection, admin: Connection) -> None:
    wait_for_another_window(admin)
    with admin.transaction():
        admin.execute("grant insert on duly.outbox to duly_readonly")
        admin.execute("set local role duly_readonly")
        admin.execute(MESSAGE)
    assert heard(listener, admin) == 1
