"""Without a bot token a message for Telegram waits, says why, and ends; it is never marked sent (R27)."""

import socket
from datetime import timedelta
from typing import Any

import pytest

from duly.assembly import build_channels, build_works, list_console_channels, list_waiting_channels
from duly.cli.up import build_components
from duly.db.location import Database
from duly.outbox.sender import SendWork
from duly.outbox.states import OUTBOX, MessageTable, notification_table
from duly.settings import Settings
from tests.fast.verify.test_doctor import run_check
from tests.support.actions import working
from tests.support.bot_api import TOKEN
from tests.support.outbox.actions import MessageActions, ScriptedChannel, send_work

NO_TOKEN = "TELEGRAM_BOT_TOKEN is not set"  # noqa: S105
WAITS = f"CHANNEL_NOT_CONFIGURED: {NO_TOKEN}"
MISSING = {"telegram": NO_TOKEN}
TABLES = [
    pytest.param(OUTBOX, "status", id="outbox"),
    pytest.param(notification_table(), "delivery", id="days"),
]
ABOUT_DAY = (
    "insert into schedule_ingest.schedule_notification (notification_id, user_id, schedule_date, source_session_id,"
    " notification_type, message, event_ids) values ('n1', 42, '2026-02-10',"
    " '00000000-0000-0000-0000-00000000000a', 'event', 'Hello', '[]')"
)


def settings(**variables: object) -> Settings:
    """Settings with these variables."""
    return Settings(**variables)  # type: ignore[arg-type]


def create(messages: MessageActions, table: MessageTable) -> None:
    """Create a message for Telegram in one of the two tables."""
    if table.is_outbox:
        messages.create("hello", channel="telegram")
        return
    session = "00000000-0000-0000-0000-00000000000a"
    messages.admin.execute("insert into schedule_ingest.capture_session (id, user_id) values (%s, 42)", [session])
    messages.admin.execute(ABOUT_DAY.encode())


def row(messages: MessageActions, table: MessageTable, *columns: str) -> tuple[Any, ...]:
    """Return these columns of the only message of a table."""
    (found,) = messages.rows(f"select {', '.join(columns)} from {'.'.join(table.qualified_name)}")
    return found


async def sweep(messages: MessageActions, work: SendWork) -> int:
    """Sweep once, as a worker does."""
    await work.prepare(messages.worker)
    async with messages.worker.transaction():
        return await work.sweep(messages.worker)


def without_token(table: MessageTable = OUTBOX) -> SendWork:
    """A sender that has no bot token."""
    return send_work(ScriptedChannel("console"), table=table, unconfigured=MISSING)


# What the settings say ------------------------------------------------------------------------------------------------


def test_without_a_token_telegram_is_reported_with_its_missing_setting() -> None:
    assert set(build_channels(settings())) == {"apprise", "console", "webhook"}
    assert list_waiting_channels(settings()) == MISSING
    assert list_console_channels(settings()) == {}
    assert list_waiting_channels(settings(TELEGRAM_BOT_TOKEN=TOKEN)) == {}


def test_disabled_channel_is_not_reported_as_unconfigured() -> None:
    assert list_waiting_channels(settings(DULY_SENDER_OFF="telegram")) == {}
    off = settings(DULY_SENDER_OFF="telegram", DULY_TELEGRAM_ON_CONSOLE="true")
    assert list_console_channels(off) == {}


def test_setting_redirects_telegram_messages_to_the_console() -> None:
    given = settings(DULY_TELEGRAM_ON_CONSOLE="true")
    assert (list_waiting_channels(given), list_console_channels(given)) == ({}, MISSING)
    with_token = settings(DULY_TELEGRAM_ON_CONSOLE="true", TELEGRAM_BOT_TOKEN=TOKEN)
    assert list_console_channels(with_token) == {}


@pytest.mark.parametrize("is_embedded", [True, False])
def test_up_turns_the_console_on_for_telegram_on_the_embedded_server_only(
    is_embedded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DULY_TELEGRAM_ON_CONSOLE", raising=False)

    database = Database("dbname=x", server=object() if is_embedded else None)  # type: ignore[arg-type]
    with socket.socket() as listener:
        _, worker = build_components(listener, database, settings(), None)
        assert worker.environment.get("DULY_TELEGRAM_ON_CONSOLE") == ("true" if is_embedded else None)
        monkeypatch.setenv("DULY_TELEGRAM_ON_CONSOLE", "false")
        _, worker = build_components(listener, database, settings(), None)
        assert worker.environment.get("DULY_TELEGRAM_ON_CONSOLE") == ("false" if is_embedded else None)


def test_both_senders_of_a_worker_get_the_unconfigured_channels() -> None:
    works = build_works(settings(DATABASE_URL="host=unused"), ["outbox", "notifications"])
    assert [each.unconfigured for each in works if isinstance(each, SendWork)] == [MISSING, MISSING]


# What becomes of a message --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("table", "state"), TABLES)
async def test_message_of_an_unconfigured_channel_waits_with_the_reason(
    table: MessageTable, state: str, messages: MessageActions, dsn: str
) -> None:
    create(messages, table)
    console = ScriptedChannel("console")
    async with working(dsn, send_work(console, table=table, unconfigured=MISSING)):
        await messages.until(lambda: row(messages, table, "last_error") != (None,))
    assert row(messages, table, state, "last_error", "starts", "sent_at") == ("pending", WAITS, 0, None)
    assert console.sent == []


async def test_a_worker_without_a_token_never_marks_a_telegram_message_sent(messages: MessageActions, dsn: str) -> None:
    create(messages, OUTBOX)
    create(messages, notification_table())
    messages.create("later", channel="console")
    works = build_works(settings(DATABASE_URL=dsn, DULY_SWEEP_SECONDS="0.2"), ["outbox", "notifications"])
    async with working(dsn, *works):
        console = "select status from duly.outbox where channel = 'console'"
        await messages.until(lambda: messages.values(console) == ["sent"])
        days = "select last_error from schedule_ingest.schedule_notification"
        await messages.until(lambda: messages.values(days) != [None])
    assert messages.values("select status from duly.outbox where channel = 'telegram'") == ["pending"]
    assert row(messages, notification_table(), "status", "sent_at") == ("pending", None)


@pytest.mark.parametrize(("table", "state"), TABLES)
async def test_waiting_message_is_sent_once_a_token_is_set(
    table: MessageTable, state: str, messages: MessageActions, dsn: str
) -> None:
    create(messages, table)
    await sweep(messages, without_token(table))
    messages.advance_clock(days=6)
    async with working(dsn, send_work(ScriptedChannel("telegram"), table=table)):
        await messages.until(lambda: row(messages, table, state) == ("sent",))
    assert row(messages, table, "last_error", "channel") == (None, "telegram")


@pytest.mark.parametrize(("table", "state"), TABLES)
async def test_message_of_an_unconfigured_channel_fails_after_seven_days(
    table: MessageTable, state: str, messages: MessageActions
) -> None:
    create(messages, table)
    work = without_token(table)
    assert await sweep(messages, work) == 0
    messages.advance_clock(timedelta(days=7).total_seconds() - 60)
    assert await sweep(messages, work) == 0
    assert row(messages, table, state) == ("pending",)
    messages.advance_clock(120)
    assert await sweep(messages, work) == 1
    status, why, sent_at = row(messages, table, "status", "last_error", "sent_at")
    assert (status, sent_at) == ("failed", None)
    assert why == f"{WAITS}; the message waited for 7 days"
    assert await sweep(messages, work) == 0


async def test_message_of_a_disabled_channel_does_not_fail_after_seven_days(messages: MessageActions) -> None:
    create(messages, OUTBOX)
    messages.advance_clock(days=30)
    assert await sweep(messages, send_work(ScriptedChannel("console"))) == 0
    assert row(messages, OUTBOX, "status", "last_error") == ("pending", None)


@pytest.mark.parametrize(("table", "state"), TABLES)
async def test_console_fallback_sends_the_message_and_records_it(
    table: MessageTable, state: str, messages: MessageActions, dsn: str
) -> None:
    create(messages, table)
    console = ScriptedChannel("console")
    async with working(dsn, send_work(console, table=table, console_fallback=MISSING)):
        await messages.until(lambda: row(messages, table, state) == ("sent",))
    assert row(messages, table, "channel", "receipt", "last_error") == (
        "console",
        f"on the console instead of telegram: {NO_TOKEN}",
        None,
    )
    assert len(console.sent) == 1


# What doctor says -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("table", "state"), TABLES)
def test_doctor_counts_messages_that_wait_for_a_token(
    table: MessageTable, state: str, messages: MessageActions
) -> None:
    create(messages, table)
    messages.advance_clock(minutes=1)
    found = run_check("messages", messages.admin.info.dsn)
    about = "" if table.is_outbox else "about days "
    assert found.found == f"1 {about}wait for telegram: {NO_TOKEN}"
    assert found.fix == "set TELEGRAM_BOT_TOKEN, or DULY_TELEGRAM_ON_CONSOLE=true; after 7 days they fail"
    messages.advance_clock(hours=1)
    assert run_check("messages", messages.admin.info.dsn).found == found.found
    late = run_check("messages", messages.admin.info.dsn, TELEGRAM_BOT_TOKEN=TOKEN)
    assert late.found == f"1 {about}are due for more than 10 minutes and not sent"
    off = run_check("messages", messages.admin.info.dsn, DULY_SENDER_OFF="telegram")
    assert off.found == late.found
