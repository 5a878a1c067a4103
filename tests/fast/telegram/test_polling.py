"""Long polling: no update is confirmed before it is processed, a second poller is logged, and errors are retried."""

import asyncio

import pytest

from duly.errors import Misconfigured
from duly.telegram.dispatcher import open_dispatcher
from duly.telegram.polling import Poller
from tests.support.bot_api import TOKEN
from tests.support.telegram.environment import BotTestEnvironment


async def test_refused_token_ends_polling_and_names_the_setting(env: BotTestEnvironment) -> None:
    settings = env.settings(TELEGRAM_BOT_TOKEN=TOKEN.replace("123456", "999999"))
    async with open_dispatcher(settings, env.schedules.api, env.objects) as dispatcher:
        with pytest.raises(Misconfigured, match="TELEGRAM_BOT_TOKEN") as refusal:
            await Poller(dispatcher, 1).run(asyncio.Event())
    assert "AAE_" not in str(refusal.value)


async def test_polling_removes_a_webhook_and_drops_no_update(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    env.telegram.webhook = {"url": "http://127.0.0.1:9/gone"}
    anna.send_text("/help")
    async with env.listening():
        await env.wait(anna.texts)
    assert env.telegram.webhook is None


async def test_unreadable_update_does_not_block_others(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    env.telegram.call_on_loop(env.telegram.add_update, {"message": {"message_id": "what", "chat": 7}})
    anna.send_text("/help")
    async with env.listening():
        await env.wait(anna.texts)
        await env.wait(lambda: not env.telegram.waiting())
    assert len(anna.texts()) == 1


async def test_stopping_confirms_handled_updates(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    async with env.listening():
        anna.send_text("/help")
        await env.wait(anna.texts)
    assert env.telegram.waiting() == []


async def test_bot_commands_are_registered_in_every_language(env: BotTestEnvironment) -> None:
    async with env.listening():
        await env.wait(lambda: len(env.telegram.called("setMyCommands")) == 3)
    calls = env.telegram.called("setMyCommands")
    assert {call.given.get("language_code") for call in calls} == {None, "sv", "zh"}
    assert {each["command"] for each in calls[0].given["commands"]} == {
        "today",
        "upcoming",
        "start_session",
        "done",
        "help",
    }
