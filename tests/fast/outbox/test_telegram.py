"""Telegram as a channel: what it answers, mapped to what becomes of a message."""

from collections.abc import AsyncGenerator

import pytest

from duly.assembly import build_channels
from duly.outbox.channel import Contact, NotSent, OutboundMessage, Undeliverable
from duly.outbox.states import notification_table
from duly.settings import Settings
from duly.telegram.channel import Telegram
from duly.telegram.client import MAX_TEXT_LENGTH, truncate
from tests.support.actions import working
from tests.support.bot_api import TOKEN, FakeTelegram, Json, ProxyResponse
from tests.support.outbox.actions import MessageActions, send_work

BUTTONS = [{"action": "complete", "label": "Klart", "key": "1:1794837780:complete"}]
NOTIFICATION = """
with session as (insert into schedule_ingest.capture_session (user_id) values (%(user)s) returning id)
insert into schedule_ingest.schedule_notification
    (notification_id, user_id, schedule_date, source_session_id, notification_type, message, event_ids)
select 'n1', %(user)s, '2026-02-10', id, 'event', 'New shift on 2026-02-10.', '["e1"]' from session
"""


@pytest.fixture
async def channel(telegram: FakeTelegram) -> AsyncGenerator[Telegram, None]:
    """The channel to it."""
    made = Telegram(TOKEN, telegram.url, seconds=2)
    yield made
    await made.close()


def message(telegram_id: int | None = 42, **payload: object) -> OutboundMessage:
    """Create a message to a person with this Telegram id."""
    contact = Contact("anna", telegram_id=telegram_id)
    given = {"text": "Rent", **payload}
    return OutboundMessage(
        "0194f3c2-0000-7000-8000-000000000001", "telegram", "anna", "reminder.due", given, "now", contact
    )


async def test_message_is_sent_with_buttons_and_its_id_is_the_receipt(
    channel: Telegram, telegram: FakeTelegram
) -> None:
    anna = telegram.person(42)
    assert await channel.send(message(text="Hyra å 你 <b>&", buttons=BUTTONS)) == "42:1"
    (arrived,) = anna.messages()
    assert arrived["text"] == "Hyra å 你 <b>&"
    ((button,),) = arrived["reply_markup"]["inline_keyboard"]
    assert button["text"] == "Klart"
    assert button["callback_data"].startswith("1:1794837780:complete.")


async def test_retry_after_of_telegram_is_respected(channel: Telegram, telegram: FakeTelegram) -> None:
    telegram.person(42)
    telegram.rate_limit(17)
    with pytest.raises(NotSent, match="Too Many Requests") as refusal:
        await channel.send(message())
    assert refusal.value.retry_after == 17


@pytest.mark.parametrize("how", ["blocked", "no such chat", "never wrote", "no id"])
async def test_unreachable_recipient_is_undeliverable(how: str, channel: Telegram, telegram: FakeTelegram) -> None:
    telegram.person(42).block()
    telegram.person(44, has_started=False)
    to, expected_text = {
        "blocked": (42, "blocked by the user"),
        "no such chat": (43, "chat not found"),
        "never wrote": (44, "can't initiate"),
        "no id": (None, "duly people link-telegram anna"),
    }[how]
    with pytest.raises(Undeliverable, match=expected_text):
        await channel.send(message(to))


@pytest.mark.parametrize("status", [401, 404, 500, 502])
async def test_an_error_that_an_operator_can_fix_is_retried(
    status: int, channel: Telegram, telegram: FakeTelegram
) -> None:
    telegram.person(42)
    telegram.plan_errors(status, "Something is wrong")
    with pytest.raises(NotSent, match="Something is wrong"):
        await channel.send(message())


@pytest.mark.parametrize("page", [{"ok": False}, {"ok": False, "description": None}])
async def test_a_gateway_error_without_a_description_is_retried(
    page: Json, channel: Telegram, telegram: FakeTelegram
) -> None:
    anna = telegram.person(42)
    telegram.planned_errors += [("sendMessage", ProxyResponse(502, page))]
    with pytest.raises(NotSent, match="HTTP 502 without a description"):
        await channel.send(message())
    assert await channel.send(message()) == "42:1"
    assert anna.texts() == ["Rent"]


async def test_unreachable_server_is_retried_and_the_token_is_not_shown(telegram: FakeTelegram) -> None:
    channel = Telegram(TOKEN, "http://127.0.0.1:9", seconds=2)
    with pytest.raises(NotSent) as refusal:
        await channel.send(message())
    await channel.close()
    assert TOKEN.partition(":")[2] not in str(refusal.value)


async def test_overlong_button_key_is_refused_before_sending(channel: Telegram, telegram: FakeTelegram) -> None:
    telegram.person(42)
    with pytest.raises(Undeliverable, match="at most 47 bytes"):
        await channel.send(message(buttons=[{"label": "x", "key": "k" * 48}]))
    assert telegram.called("sendMessage") == []


@pytest.mark.parametrize("text", ["x" * 5000, "你" * 5000, "😀" * 3000])
async def test_overlong_text_is_truncated(text: str, channel: Telegram, telegram: FakeTelegram) -> None:
    anna = telegram.person(42)
    await channel.send(message(text=text))
    (arrived,) = anna.texts()
    assert arrived.endswith("…")
    assert len(arrived.encode("utf-16-le")) // 2 in (MAX_TEXT_LENGTH, MAX_TEXT_LENGTH - 1)


def test_text_within_the_limit_is_unchanged() -> None:
    assert truncate("😀" * 2048) == "😀" * 2048


async def test_sender_settles_messages_by_the_response_of_telegram(
    messages: MessageActions, dsn: str, telegram: FakeTelegram
) -> None:
    messages.add_user()
    messages.add_user("ben")
    messages.admin.execute("update duly.person set telegram_id = case uid when 'anna' then 42 else 43 end")
    anna = telegram.person(42)
    telegram.person(43).block()
    messages.create("hej", channel="telegram")
    messages.create("nej", to="ben", channel="telegram")
    async with working(dsn, send_work(Telegram(TOKEN, telegram.url, seconds=5))):
        await messages.until(lambda: messages.columns("status") == ["sent", "failed"])
    assert anna.texts() == ["hej"]
    assert messages.columns("receipt") == ["42:1", None]
    assert "blocked by the user" in messages.columns("last_error")[1]


@pytest.mark.breaks_invariants
@pytest.mark.parametrize("uid", ["anna", "43", None])
async def test_messages_about_days_go_to_the_telegram_id_of_their_user(
    uid: str | None, messages: MessageActions, dsn: str, telegram: FakeTelegram
) -> None:
    """A uid may look like another person's Telegram id."""
    if uid:
        messages.add_user(uid)
        messages.admin.execute("update duly.person set telegram_id = 42")
    recipient = telegram.person(43 if uid == "43" else 42)
    telegram.person(42)
    messages.admin.execute(NOTIFICATION.encode(), {"user": recipient.id})
    async with working(dsn, send_work(Telegram(TOKEN, telegram.url, seconds=5), table=notification_table())):
        delivery = "select delivery from schedule_ingest.schedule_notification"
        await messages.until(lambda: messages.values(delivery) == ["sent"])
    assert recipient.texts() == ["New shift on 2026-02-10."]


def test_telegram_channel_exists_only_with_a_token() -> None:
    assert "telegram" not in build_channels(Settings())
    given = Settings(TELEGRAM_BOT_TOKEN=TOKEN)  # type: ignore[call-arg]
    assert build_channels(given)["telegram"].name == "telegram"
    off = Settings(TELEGRAM_BOT_TOKEN=TOKEN, DULY_SENDER_OFF="telegram")  # type: ignore[call-arg]
    assert "telegram" not in build_channels(off)
