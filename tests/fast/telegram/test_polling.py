"""Long polling: no update is confirmed before it is processed, a second poller is logged, and errors are retried."""

import asyncio

import pytest

from duly.errors import Misconfigured
from duly.telegram.dispatcher import open_dispatcher
from duly.telegram.polling import Poller
from tests.support.bot_api import TOKEN
from tests.support.telegram.environment import BotTestEnvironment


async def test_a_token_that_is_refused_ends_it_with_the_setting_by_name(env: BotTestEnvironment) -> None:
    settings = env.settings(TELEGRAM_BOT_TOKEN=TOKEN.replace("123456", "999999"))
    async with open_dispatcher(settings, env.schedules.api, env.objects) as dispatcher:
        with pytest.raises(Misconfigured, match="TELEGRAM_BOT_TOKEN") as refusal:
            await Poller(dispatcher, 1).run(asyncio.Event())
    assert "AAE_" not in str(refusal.value)


async def test_a_webhook_that_was_set_is_taken_away_and_nothing_is_dropped(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    env.telegram.webhook = {"url": "http://127.0.0.1:9/gone"}
    anna.send_text("/help")
    async with env.listening():
        await env.wait(anna.texts)
    assert env.telegram.webhook is None


async def test_an_update_that_cannot_be_read_holds_up_nobody(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    env.telegram.call_on_loop(env.telegram.add_update, {"message": {"message_id": "what", "chat": 7}})
    anna.send_text("/help")
    async with env.listening():
        await env.wait(anna.texts)
        await env.wait(lambda: not env.telegram.waiting())
    assert len(anna.texts()) == 1


async def test_a_stop_confirms_what_is_done(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    async with env.listening():
        anna.send_text("/help")
        await env.wait(anna.texts)
    assert env.telegram.waiting() == []


async def test_apps_are_told_the_commands_in_every_language(env: BotTestEnvironment) -> None:
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
