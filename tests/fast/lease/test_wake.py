"""Workers are notified of new work, at most once per 50 ms, on every PostgreSQL version."""

import time
from collections.abc import Generator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.testing import install_test_clock, move_clock

Connection = psycopg.Connection[Any]
SECONDS = 30.0
WINDOW = "select floor(date_part('epoch', clock_timestamp()) * 20)::bigint"
MESSAGE = "insert into duly.outbox (channel, recipient, kind, payload) values ('console', 'anna', 'reminder', '{}')"

MESSAGE_ONCE = (
    "insert into duly.outbox (dedupe_key, channel, recipient, kind, payload)"
    " values ('only once', 'console', 'anna', 'reminder', '{}') on conflict (dedupe_key) do nothing"
)


@pytest.fixture
def admin(database: str) -> Generator[Connection, None, None]:
    """Open a superuser connection."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def api(admin: Connection) -> Generator[Connection, None, None]:
    """Open a sender's connection, with the rights of the API."""
    with psycopg.connect(make_conninfo(admin.info.dsn, user=Names().api), autocommit=True) as connection:
        yield connection


@pytest.fixture
def listener(admin: Connection) -> Generator[Connection, None, None]:
    """Open a listening worker's connection."""
    with psycopg.connect(make_conninfo(admin.info.dsn, user=Names().worker), autocommit=True) as connection:
        connection.execute("listen duly_outbox")
        yield connection


def count_notifications(listener: Connection, admin: Connection) -> int:
    """Return how many notifications arrived since the last call, of everything committed before this one."""
    admin.execute("select pg_notify('duly_outbox', 'the end')")
    payloads: list[str] = []
    for notification in listener.notifies(timeout=SECONDS):
        if notification.payload == "the end":
            assert payloads == [""] * len(payloads)
            return len(payloads)
        payloads.append(notification.payload)
    raise AssertionError("the last word never came")


def window(connection: Connection) -> int:
    """Return the number of the current window."""
    (number,) = connection.execute(WINDOW).fetchone() or (None,)
    assert isinstance(number, int)
    return number


def wait_for_another_window(connection: Connection) -> int:
    """Wait for the beginning of the next window."""
    now, deadline = window(connection), time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if (later := window(connection)) != now:
            return later
    raise AssertionError("time stands still")


def test_many_commits_send_one_notification_per_window(
    listener: Connection, api: Connection, admin: Connection
) -> None:
    first = wait_for_another_window(admin)
    for _ in range(500):
        api.execute(MESSAGE)
    windows = window(admin) - first + 1
    assert 1 <= count_notifications(listener, admin) <= windows < 500


def test_commit_after_the_window_sends_another_notification(
    listener: Connection, api: Connection, admin: Connection
) -> None:
    for _ in range(5):
        wait_for_another_window(admin)
        api.execute(MESSAGE)
        assert count_notifications(listener, admin) == 1


def test_many_rows_of_one_transaction_send_one_notification(
    listener: Connection, api: Connection, admin: Connection
) -> None:
    with api.transaction():
        for _ in range(3):
            wait_for_another_window(admin)
            api.execute(MESSAGE)
        assert count_notifications(listener, admin) == 0
    assert count_notifications(listener, admin) == 1


def test_rolled_back_transaction_suppresses_no_later_notification(
    listener: Connection, api: Connection, admin: Connection
) -> None:
    wait_for_another_window(admin)
    with api.transaction(force_rollback=True):
        api.execute(MESSAGE)
    assert count_notifications(listener, admin) == 0
    wait_for_another_window(admin)
    api.execute(MESSAGE)
    assert count_notifications(listener, admin) == 1


def test_open_transaction_does_not_block_another_notification(
    listener: Connection, api: Connection, admin: Connection, database: str
) -> None:
    with psycopg.connect(database) as slow:
        slow.execute(MESSAGE)
        wait_for_another_window(admin)
        api.execute("set lock_timeout = '1ms'")
        api.execute(MESSAGE)
        assert count_notifications(listener, admin) == 1
    assert count_notifications(listener, admin) == 1


def test_insert_of_no_row_sends_no_notification(listener: Connection, api: Connection, admin: Connection) -> None:
    for expected in (1, 0):
        wait_for_another_window(admin)
        api.execute(MESSAGE_ONCE)
        assert count_notifications(listener, admin) == expected


def test_notifications_continue_after_the_clock_was_set_back(
    listener: Connection, api: Connection, admin: Connection
) -> None:
    admin.execute("select setval('duly.wake_outbox', %s)", [window(admin) + 20 * 3_600])
    api.execute(MESSAGE)
    assert count_notifications(listener, admin) == 1


def test_notification_window_uses_the_real_clock_and_not_the_test_clock(
    listener: Connection, api: Connection, admin: Connection
) -> None:
    install_test_clock(admin)
    move_clock(admin, -3_600)
    for _ in range(2):
        wait_for_another_window(admin)
        api.execute(MESSAGE)
        assert count_notifications(listener, admin) == 1


@pytest.mark.parametrize("role", [Names().worker, Names().api])
def test_worker_and_api_roles_may_call_wake(role: str, listener: Connection, admin: Connection) -> None:
    wait_for_another_window(admin)
    with psycopg.connect(make_conninfo(admin.info.dsn, user=role), autocommit=True) as connection:
        connection.execute("select duly.wake('outbox')")
    assert count_notifications(listener, admin) == 1


@pytest.mark.parametrize("channel", ["unknown", 'a"; drop table duly.outbox; --', ""])
def test_unknown_channel_is_refused_and_named(channel: str, api: Connection) -> None:
    with pytest.raises(psycopg.errors.UndefinedObject, match="cannot wake workers"):
        api.execute("select duly.wake(%s)", [channel])


def test_no_role_may_use_the_sequence_directly_and_readers_may_not_wake_workers(admin: Connection) -> None:
    roles = Names()
    for role in (roles.worker, roles.api, roles.readonly):
        for right in ("usage", "select", "update"):
            query = "select has_sequence_privilege(%s, 'duly.wake_outbox', %s)"
            assert admin.execute(query, [role, right]).fetchone() == (False,)
    query = "select has_function_privilege(%s, 'duly.wake(text)', 'execute')"
    assert admin.execute(query, [roles.readonly]).fetchone() == (False,)
