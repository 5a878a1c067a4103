"""Long polling: nothing is confirmed before it is done, two pollers say so, and trouble is waited out."""

import time
from typing import Any

import pytest

from duly.telegram.dispatcher import MAX_TRIES
from duly.telegram.polling import MAX_UPDATES
from tests.support.bot_api import ForeignPage, Json, Refusal
from tests.support.telegram.hands import House


async def test_an_update_is_confirmed_after_it_was_taken_and_not_before(house: House) -> None:
    anna = house.telegram.person(42)
    house.telegram.refuse(502, "Bad Gateway", "sendMessage")
    async with house.listening():
        first = anna.say("/help")["update_id"]
        await house.wait(anna.read)
        await house.wait(lambda: not house.telegram.waiting())
    calls = [call for call in house.telegram.calls if call.method in ("sendMessage", "getUpdates")]
    said = [nth for nth, call in enumerate(calls) if call.method == "sendMessage"]
    offsets = [int(call.given.get("offset", 0)) for call in calls]
    assert [calls[nth].status for nth in said] == [502, 200]
    assert all(offset <= first for offset in offsets[: said[-1]])
    assert offsets[-1] == first + 1
    assert len(anna.read()) == 1


async def test_one_persons_trouble_holds_up_no_other_and_keeps_their_own_order(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna, ben = house.telegram.person(42), house.telegram.person(43)
    house.schedules.add_user("anna", telegram_id=42)
    house.schedules.add_user("ben", telegram_id=43)
    send, refused = house.telegram.do_send_message, iter([True])

    def refuse_anna_once(given: Json) -> Json:
        if int(given["chat_id"]) == 42 and next(refused, False):
            raise Refusal(500, "Internal Server Error")
        return send(given)

    monkeypatch.setattr(house.telegram, "do_send_message", refuse_anna_once)
    anna.say("/upcoming")
    anna.say("/help")
    ben.say("/help")
    async with house.listening():
        await house.wait(lambda: ben.read())
        await house.wait(lambda: len(anna.read()) == 2)
        await house.wait(lambda: not house.telegram.waiting())
    assert anna.read()[0] == "Nothing is coming."
    assert len(ben.read()) == 1  # what was done is not done again because of somebody else


async def test_more_than_a_window_of_others_is_served_while_one_waits(house: House) -> None:
    """Telegram shows a hundred updates, from the first that is not confirmed."""
    anna, others = house.telegram.person(42), [house.telegram.person(100 + nth) for nth in range(5)]
    message = await house.remind(anna)
    house.telegram.troubles[42] = Refusal(500, "Internal Server Error")
    anna.press(message, "Done")
    asked = 2 * MAX_UPDATES + 10
    async with house.listening() as poller:
        poller.crowded_seconds = 1.0
        for nth in range(asked):
            others[nth % 5].say("/help")
        await house.wait(lambda: sum(len(each.read()) for each in others) == asked)
        await house.wait(lambda: not house.telegram.waiting())
    assert house.answers() == ["complete"]  # though it could not be said
    assert house.booked() == ["9.99 EUR"]


async def test_one_chat_that_telegram_wants_us_to_leave_alone_delays_nobody(house: House) -> None:
    anna, ben = house.telegram.person(42), house.telegram.person(43)
    house.telegram.troubles[42] = Refusal(429, "Too Many Requests: retry after 15", retry_after=15)
    async with house.listening():
        began = time.monotonic()
        hers = anna.say("/help")
        await house.wait(lambda: any(call.status == 429 for call in house.telegram.calls))
        for nth in range(3):  # in batches that come after hers
            ben.say("/help")
            await house.wait(lambda nth=nth: len(ben.read()) == nth + 1)
        assert time.monotonic() - began < 30
    assert house.telegram.waiting()[0] == hers["update_id"]  # and comes again


async def test_two_pollers_are_told_and_no_update_is_lost(house: House, capsys: pytest.CaptureFixture[str]) -> None:
    anna = house.telegram.person(42)
    async with house.listening(), house.listening():
        await house.wait(lambda: any(call.status == 409 for call in house.telegram.called("getUpdates")))
        anna.say("/help")
        await house.wait(anna.read)
        await house.wait(lambda: not house.telegram.waiting())
    assert "one of the two must end" in capsys.readouterr().err


async def test_an_update_that_nobody_foresaw_is_tried_a_few_times_and_its_person_is_told(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna = house.telegram.person(42)
    tries: list[int] = []

    async def fail(*_: object, **__: object) -> None:
        tries.append(1)
        raise ZeroDivisionError

    monkeypatch.setattr("duly.apps.scheduler.service.list_upcoming", fail)
    async with house.listening():
        anna.say("/upcoming")
        anna.say("/help")
        await house.wait(lambda: len(anna.read()) == 2)
        await house.wait(lambda: not house.telegram.waiting())
    assert len(tries) == MAX_TRIES
    assert anna.read()[0].startswith("Something went wrong")


async def test_while_the_bot_api_is_away_the_bot_waits_and_goes_on(house: House) -> None:
    anna = house.telegram.person(42)
    house.telegram.refuse(502, "Bad Gateway", "getUpdates", times=2)
    house.telegram.flood(1, "getUpdates")
    anna.say("/help")
    async with house.listening():
        await house.wait(anna.read)
    assert [call.status for call in house.telegram.called("getUpdates")][:3] == [502, 502, 429]


PAGES = [{"message": "Bad Gateway"}, {"ok": False}, {"result": None}, {"result": ["what"]}, ["no", "answer"]]


@pytest.mark.parametrize("page", PAGES)
async def test_a_page_of_a_proxy_is_no_answer_and_the_bot_asks_again(page: Any, house: House) -> None:
    anna = house.telegram.person(42)
    house.telegram.refusals += [("getUpdates", ForeignPage(502, page))]
    anna.say("/help")
    async with house.listening():
        await house.wait(anna.read)
        await house.wait(lambda: not house.telegram.waiting())
        house.telegram.refusals += [("getUpdates", ForeignPage(502, page))] * 2  # at the last question too
    assert [call.status for call in house.telegram.called("getUpdates")][:1] == [502]
    assert len(anna.read()) == 1
