"""Telegram as a channel: what it answers, mapped to what becomes of a message."""

import pytest

from duly.outbox.channel import OutcomeUnknown
from duly.telegram.channel import Telegram
from tests.fast.outbox.test_telegram import channel, message
from tests.support.actions import working
from tests.support.bot_api import TOKEN, FakeTelegram
from tests.support.outbox.actions import MessageActions, send_work

__all__ = ["channel"]


async def test_a_telegram_send_without_a_response_raises_outcome_unknown(
    channel: Telegram, telegram: FakeTelegram
) -> None:
    anna = telegram.person(42)
    telegram.hanging_methods.add("sendMessage")
    channel.seconds = 0.5
    with pytest.raises(OutcomeUnknown):
        await channel.send(message())
    assert anna.texts() == ["Rent"]


async def test_a_telegram_message_without_a_response_is_uncertain_and_not_resent(
    messages: MessageActions, dsn: str, telegram: FakeTelegram
) -> None:
    messages.add_user()
    messages.admin.execute("update duly.person set telegram_id = 42")
    anna = telegram.person(42)
    telegram.hanging_methods.add("sendMessage")
    messages.create("hej", channel="telegram")
    async with working(dsn, send_work(Telegram(TOKEN, telegram.url, seconds=0.5))):
        await messages.until(lambda: messages.columns("status") == ["uncertain"])
        await messages.until(lambda: bool(messages.admin.execute("select pg_sleep(0.5)")))
    assert anna.texts() == ["hej"]
    assert messages.columns("status") == ["uncertain"]
