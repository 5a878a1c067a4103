"""Long polling: nothing is confirmed before it is done, two pollers say so, and trouble is waited out."""

import asyncio

import pytest

from duly.errors import Misconfigured
from duly.telegram.dispatcher import open_reception
from duly.telegram.polling import Poller
from tests.support.bot_api import TOKEN
from tests.support.telegram.hands import House


async def test_a_token_that_is_refused_ends_it_with_the_setting_by_name(house: House) -> None:
    settings = house.settings(TELEGRAM_BOT_TOKEN=TOKEN.replace("123456", "999999"))
    async with open_reception(settings, house.schedules.api, house.objects) as reception:
        with pytest.raises(Misconfigured, match="TELEGRAM_BOT_TOKEN") as refusal:
            await Poller(reception, 1).run(asyncio.Event())
    assert "AAE_" not in str(refusal.value)


async def test_a_webhook_that_was_set_is_taken_away_and_nothing_is_dropped(house: House) -> None:
    anna = house.telegram.person(42)
    house.telegram.webhook = {"url": "http://127.0.0.1:9/gone"}
    anna.say("/help")
    async with house.listening():
        await house.wait(anna.read)
    assert house.telegram.webhook is None


async def test_an_update_that_cannot_be_read_holds_up_nobody(house: House) -> None:
    anna = house.telegram.person(42)
    house.telegram.on_loop(house.telegram.add_update, {"message": {"message_id": "what", "chat": 7}})
    anna.say("/help")
    async with house.listening():
        await house.wait(anna.read)
        await house.wait(lambda: not house.telegram.waiting())
    assert len(anna.read()) == 1


async def test_a_stop_confirms_what_is_done(house: House) -> None:
    anna = house.telegram.person(42)
    async with house.listening():
        anna.say("/help")
        await house.wait(anna.read)
    assert house.telegram.waiting() == []


async def test_apps_are_told_the_commands_in_every_language(house: House) -> None:
    async with house.listening():
        await house.wait(lambda: len(house.telegram.called("setMyCommands")) == 3)
    calls = house.telegram.called("setMyCommands")
    assert {call.given.get("language_code") for call in calls} == {None, "sv", "zh"}
    assert {each["command"] for each in calls[0].given["commands"]} == {
        "today",
        "upcoming",
        "start_session",
        "done",
        "help",
    }
