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


def heard(listener: Connection, admin: Connection) -> int:
    """Return how many notifications arrived since the last call, of everything committed before this one."""
    admin.execute("select pg_notify('duly_outbox', 'the end')")
    words: list[str] = []
    for word in listener.notifies(timeout=SECONDS):
        if word.payload == "the end":
            assert words == [""] * len(words)
            return len(words)
        words.append(word.payload)
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


def test_many_commits_wake_the_workers_once_per_window(
    listener: Connection, api: Connection, admin: Connection
) -> None:
    first = wait_for_another_window(admin)
    for _ in range(500):
        api.execute(MESSAGE)
    windows = window(admin) - first + 1
    assert 1 <= heard(listener, admin) <= windows < 500


def test_a_commit_after_the_window_wakes_them_again(listener: Connection, api: Connection, admin: Connection) -> None:
    for _ in range(5):
        wait_for_another_window(admin)
        api.execute(MESSAGE)
        assert heard(listener, admin) == 1


def test_many_rows_of_one_transaction_are_one_notification(
    listener: Connection, api: Connection, admin: Connection
) -> None:
    with api.transaction():
        for _ in range(3):
            wait_for_another_window(admin)
            api.execute(MESSAGE)
        assert heard(listener, admin) == 0
    assert heard(listener, admin) == 1


def test_a_sender_that_rolls_back_suppresses_no_later_notification(
    listener: Connection, api: Connection, admin: Connection
) -> None:
    wait_for_another_window(admin)
    with api.transaction(force_rollback=True):
        api.execute(MESSAGE)
    assert heard(listener, admin) == 0
    wait_for_another_window(admin)
    api.execute(MESSAGE)
    assert heard(listener, admin) == 1


def test_a_sender_with_an_open_transaction_blocks_no_other(
    listener: Connection, api: Connection, admin: Connection, database: str
) -> None:
    with psycopg.connect(database) as slow:
        slow.execute(MESSAGE)
        wait_for_another_window(admin)
        api.execute("set lock_timeout = '1ms'")
        api.execute(MESSAGE)
        assert heard(listener, admin) == 1
    assert heard(listener, admin) == 1


def test_a_statement_that_inserted_nothing_wakes_no_worker(
    listener: Connection, api: Connection, admin: Connection
) -> None:
    for expected in (1, 0):
        wait_for_another_window(admin)
        api.execute(MESSAGE_ONCE)
        assert heard(listener, admin) == expected


def test_a_clock_that_was_set_back_does_not_silence_them(
    listener: Connection, api: Connection, admin: Connection
) -> None:
    admin.execute("select setval('duly.wake_outbox', %s)", [window(admin) + 20 * 3_600])
    api.execute(MESSAGE)
    assert heard(listener, admin) == 1


def test_the_real_time_counts_and_not_the_one_that_tests_move(
    listener: Connection, api: Connection, admin: Connection
) -> None:
    install_test_clock(admin)
    move_clock(admin, -3_600)
    for _ in range(2):
        wait_for_another_window(admin)
        api.execute(MESSAGE)
        assert heard(listener, admin) == 1


@pytest.mark.parametrize("role", [Names().worker, Names().api])
def test_a_role_that_creates_work_in_another_way_may_wake_workers_too(
    role: str, listener: Connection, admin: Connection
) -> None:
    wait_for_another_window(admin)
    with psycopg.connect(make_conninfo(admin.info.dsn, user=role), autocommit=True) as connection:
        connection.execute("select duly.wake('outbox')")
    assert heard(listener, admin) == 1


@pytest.mark.parametrize("channel", ["nobody", 'a"; drop table duly.outbox; --', ""])
def test_a_channel_that_is_not_there_is_refused_by_name(channel: str, api: Connection) -> None:
    with pytest.raises(psycopg.errors.UndefinedObject, match="cannot wake workers"):
        api.execute("select duly.wake(%s)", [channel])


def test_no_role_may_use_the_sequence_directly_and_readers_may_not_wake_workers(admin: Connection) -> None:
    roles = Names()
    for role in (roles.worker, roles.api, roles.readonly):
        for right in ("usage", "select", "update"):
            asked = "select has_sequence_privilege(%s, 'duly.wake_outbox', %s)"
            assert admin.execute(asked, [role, right]).fetchone() == (False,)
    asked = "select has_function_privilege(%s, 'duly.wake(text)', 'execute')"
    assert admin.execute(asked, [roles.readonly]).fetchone() == (False,)
