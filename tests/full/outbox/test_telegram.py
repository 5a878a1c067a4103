"""Telegram as a channel: what it answers, mapped to what becomes of a message."""

import pytest

from duly.outbox.channel import OutcomeUnknown
from duly.telegram.channel import Telegram
from tests.fast.outbox.test_telegram import channel, message
from tests.support.actions import working
from tests.support.bot_api import TOKEN, FakeTelegram
from tests.support.outbox.actions import MessageActions, send_work

__all__ = ["channel"]


async def test_an_answer_that_never_comes_leaves_it_unknown(channel: Telegram, telegram: FakeTelegram) -> None:
    anna = telegram.person(42)
    telegram.hanging_methods.add("sendMessage")
    channel.seconds = 0.5
    with pytest.raises(OutcomeUnknown):
        await channel.send(message())
    assert anna.texts() == ["Rent"]


async def test_what_was_sent_and_never_answered_is_uncertain_and_is_not_sent_again(
    messages: MessageActions, dsn: str, telegram: FakeTelegram
) -> None:
    messages.add_user()
    messages.admin.execute('update "user".users set telegram_id = 42')
    anna = telegram.person(42)
    telegram.hanging_methods.add("sendMessage")
    messages.create("hej", channel="telegram")
    async with working(dsn, send_work(Telegram(TOKEN, telegram.url, seconds=0.5))):
        await messages.until(lambda: messages.columns("status") == ["uncertain"])
        await messages.until(lambda: bool(messages.admin.execute("select pg_sleep(0.5)")))
    assert anna.texts() == ["hej"]
    assert messages.columns("status") == ["uncertain"]
