"""The webhook: needs its secret, and an update is sent again only while its effects are not committed."""

from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from duly.telegram.dispatcher import MAX_FAILURES
from tests.fast.telegram.test_webhook import HEADER, SECRET, hooked, update
from tests.support.bot_api import Json
from tests.support.telegram.environment import BotTestEnvironment


async def test_a_webhook_request_without_the_secret_is_401_and_changes_nothing(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    update_fields = {"message": anna.send_text("/start")["message"]}
    with hooked(env) as client:
        for headers in ({}, {HEADER: ""}, {HEADER: "wrong"}, {HEADER: SECRET + "x"}, {"Authorization": SECRET}):
            answer = client.post("/telegram/hook", json=update(**update_fields), headers=headers)
            assert answer.status_code == 401, headers
            assert answer.json()["code"] == "UNAUTHORIZED"
        assert client.post("/telegram/hook", json=update(**update_fields), headers={HEADER: SECRET}).status_code == 200
    assert anna.texts()
    assert env.schedules.values("select uid from duly.person") == ["telegram:42"]


async def test_a_webhook_body_over_the_limit_is_refused_with_413(env: BotTestEnvironment) -> None:
    with hooked(env) as client:
        answer = client.post("/telegram/hook", content=b" " * 1_048_577, headers={HEADER: SECRET})
    assert answer.status_code == 413


async def test_button_taps_arrive_through_the_registered_webhook(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    message = await env.remind(anna)
    with hooked(env) as client:
        address = f"{str(client.base_url).rstrip('/')}/telegram/hook"
        env.telegram.call_on_loop(
            env.telegram.do_set_webhook, {"url": address, "secret_token": SECRET}
        )  # as the API itself does when it has an address
        first, second = (anna.press(message, "Done") for _ in range(2))
        await env.wait(lambda: first.answered and second.answered)
        await env.wait(lambda: not env.telegram.waiting())
    assert env.answers() == ["complete"]
    assert env.booked() == ["9.99 EUR"]
    assert {status for _, status in env.telegram.posted} == {200}


async def test_simultaneous_taps_from_several_devices_have_one_effect(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    message = await env.remind(anna)
    taps = [anna.press(message, label) for label in ("Done", "Done", "Skip", "Cancel this one") * 3]
    with hooked(env) as client, ThreadPoolExecutor(len(taps)) as devices:

        def post(given: Json) -> httpx2.Response:
            return client.post("/telegram/hook", json=given, headers={HEADER: SECRET})

        answers = list(devices.map(post, list(env.telegram.updates)))
    assert {answer.status_code for answer in answers} == {200}
    assert len(env.answers()) == 1
    assert env.booked() == (["9.99 EUR"] if env.answers() == ["complete"] else [])
    assert all(len(press_data.answered) == 1 for press_data in taps)


async def test_the_api_registers_its_webhook_with_the_secret(env: BotTestEnvironment) -> None:
    env.telegram.plan_errors(502, "Bad Gateway", "setWebhook")
    with hooked(env, TELEGRAM_WEBHOOK_URL="https://duly.example.com/telegram/hook"):
        await env.wait(lambda: len(env.telegram.called("setWebhook")) == 2)
    given = env.telegram.called("setWebhook")[-1].given
    assert given["url"] == "https://duly.example.com/telegram/hook"
    assert given["secret_token"] == SECRET
    assert given["allowed_updates"] == ["message", "callback_query"]


async def test_an_update_that_was_not_committed_answers_503_and_is_processed_when_sent_again(
    env: BotTestEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna = env.telegram.person(42)
    message = await env.remind(anna)
    env.schedules.admin.execute("begin")
    env.schedules.admin.execute("lock table scheduler.job_runs in exclusive mode")
    monkeypatch.setenv("PGOPTIONS", "-c lock_timeout=300ms")
    with hooked(env) as client:
        address = f"{str(client.base_url).rstrip('/')}/telegram/hook"
        anna.press(message, "Done")
        env.telegram.call_on_loop(env.telegram.do_set_webhook, {"url": address, "secret_token": SECRET})
        await env.wait(lambda: [status for _, status in env.telegram.posted] == [503])
        env.schedules.admin.execute("rollback")
        await env.wait(lambda: not env.telegram.waiting())
    assert env.answers() == ["complete"]


async def test_webhook_retries_during_a_database_outage_do_not_count_towards_the_rate_limit(
    env: BotTestEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna = env.telegram.person(42)
    env.schedules.add_user("anna", telegram_id=42)
    env.schedules.admin.execute("begin")
    env.schedules.admin.execute("lock table duly.person in access exclusive mode")
    monkeypatch.setenv("PGOPTIONS", "-c lock_timeout=100ms")
    monkeypatch.setattr("duly.telegram.services.BURST", 2)
    with hooked(env) as client:
        address = f"{str(client.base_url).rstrip('/')}/telegram/hook"
        anna.send_text("/upcoming")
        env.telegram.call_on_loop(env.telegram.do_set_webhook, {"url": address, "secret_token": SECRET})
        await env.wait(lambda: [status for _, status in env.telegram.posted] == [503] * (MAX_FAILURES + 1))
        env.schedules.admin.execute("rollback")
        await env.wait(lambda: not env.telegram.waiting())
    assert anna.texts() == ["Nothing is coming."]
