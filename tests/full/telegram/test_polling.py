"""Long polling: no update is confirmed before it is processed, a second poller is logged, and errors are retried."""

import time
from typing import Any

import pytest

from duly.telegram.dispatcher import MAX_FAILURES
from duly.telegram.polling import MAX_UPDATES
from tests.support.bot_api import ApiError, Json, ProxyResponse
from tests.support.telegram.environment import BotTestEnvironment


async def test_an_update_is_confirmed_only_after_it_was_processed(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    env.telegram.plan_errors(502, "Bad Gateway", "sendMessage")
    async with env.listening():
        first = anna.send_text("/help")["update_id"]
        await env.wait(anna.texts)
        await env.wait(lambda: not env.telegram.waiting())
    calls = [call for call in env.telegram.calls if call.method in ("sendMessage", "getUpdates")]
    send_calls = [nth for nth, call in enumerate(calls) if call.method == "sendMessage"]
    offsets = [int(call.given.get("offset", 0)) for call in calls]
    assert [calls[nth].status for nth in send_calls] == [502, 200]
    assert all(offset <= first for offset in offsets[: send_calls[-1]])
    assert offsets[-1] == first + 1
    assert len(anna.texts()) == 1


async def test_a_failing_update_delays_no_other_chat_and_keeps_the_order_of_its_own(
    env: BotTestEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna, ben = env.telegram.person(42), env.telegram.person(43)
    env.schedules.add_user("anna", telegram_id=42)
    env.schedules.add_user("ben", telegram_id=43)
    send, refused = env.telegram.do_send_message, iter([True])

    def refuse_anna_once(given: Json) -> Json:
        if int(given["chat_id"]) == 42 and next(refused, False):
            raise ApiError(500, "Internal Server Error")
        return send(given)

    monkeypatch.setattr(env.telegram, "do_send_message", refuse_anna_once)
    anna.send_text("/upcoming")
    anna.send_text("/help")
    ben.send_text("/help")
    async with env.listening():
        await env.wait(lambda: ben.texts())
        await env.wait(lambda: len(anna.texts()) == 2)
        await env.wait(lambda: not env.telegram.waiting())
    assert anna.texts()[0] == "Nothing is coming."
    assert len(ben.texts()) == 1  # another person's failure does not repeat what was done


async def test_more_than_one_batch_of_other_updates_is_processed_while_one_waits(env: BotTestEnvironment) -> None:
    """Telegram returns 100 updates from the first unconfirmed one."""
    anna, others = env.telegram.person(42), [env.telegram.person(100 + nth) for nth in range(5)]
    message = await env.remind(anna)
    env.telegram.chat_errors[42] = ApiError(500, "Internal Server Error")
    anna.press(message, "Done")
    sent_count = 2 * MAX_UPDATES + 10
    async with env.listening() as poller:
        poller.crowded_retry_seconds = 1.0
        for nth in range(sent_count):
            others[nth % 5].send_text("/help")
        await env.wait(lambda: sum(len(each.texts()) for each in others) == sent_count)
        await env.wait(lambda: not env.telegram.waiting())
    assert env.answers() == ["complete"]  # though no reply could be sent
    assert env.booked() == ["9.99 EUR"]


async def test_a_rate_limited_chat_delays_no_other_chat(env: BotTestEnvironment) -> None:
    anna, ben = env.telegram.person(42), env.telegram.person(43)
    env.telegram.chat_errors[42] = ApiError(429, "Too Many Requests: retry after 15", retry_after=15)
    async with env.listening():
        began = time.monotonic()
        hers = anna.send_text("/help")
        await env.wait(lambda: any(call.status == 429 for call in env.telegram.calls))
        for nth in range(3):  # in batches that come after hers
            ben.send_text("/help")
            await env.wait(lambda nth=nth: len(ben.texts()) == nth + 1)
        assert time.monotonic() - began < 30
    assert env.telegram.waiting()[0] == hers["update_id"]  # and comes again


async def test_two_pollers_are_reported_and_lose_no_update(
    env: BotTestEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    anna = env.telegram.person(42)
    async with env.listening(), env.listening():
        await env.wait(lambda: any(call.status == 409 for call in env.telegram.called("getUpdates")))
        anna.send_text("/help")
        await env.wait(anna.texts)
        await env.wait(lambda: not env.telegram.waiting())
    assert "telegram.polling_conflict" in capsys.readouterr().err


async def test_an_update_that_keeps_raising_is_dropped_after_a_few_tries_and_its_user_notified(
    env: BotTestEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna = env.telegram.person(42)
    tries: list[int] = []

    async def fail(*_: object, **__: object) -> None:
        tries.append(1)
        raise ZeroDivisionError

    monkeypatch.setattr("duly.apps.scheduler.service.list_upcoming", fail)
    async with env.listening():
        anna.send_text("/upcoming")
        anna.send_text("/help")
        await env.wait(lambda: len(anna.texts()) == 2)
        await env.wait(lambda: not env.telegram.waiting())
    assert len(tries) == MAX_FAILURES
    assert anna.texts()[0].startswith("Something went wrong")


async def test_the_bot_waits_while_the_bot_api_is_unreachable_and_then_continues(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    env.telegram.plan_errors(502, "Bad Gateway", "getUpdates", times=2)
    env.telegram.rate_limit(1, "getUpdates")
    anna.send_text("/help")
    async with env.listening():
        await env.wait(anna.texts)
    assert [call.status for call in env.telegram.called("getUpdates")][:3] == [502, 502, 429]


PAGES = [{"message": "Bad Gateway"}, {"ok": False}, {"result": None}, {"result": ["what"]}, ["no", "answer"]]


@pytest.mark.parametrize("page", PAGES)
async def test_an_html_page_from_a_proxy_is_retried(page: Any, env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    env.telegram.planned_errors += [("getUpdates", ProxyResponse(502, page))]
    anna.send_text("/help")
    async with env.listening():
        await env.wait(anna.texts)
        await env.wait(lambda: not env.telegram.waiting())
        env.telegram.planned_errors += [("getUpdates", ProxyResponse(502, page))] * 2  # at the last question too
    assert [call.status for call in env.telegram.called("getUpdates")][:1] == [502]
    assert len(anna.texts()) == 1
