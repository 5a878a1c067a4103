"""The webhook: only with its secret, always answered, and sent again only while its effects are not committed."""

from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from duly.telegram.dispatcher import MAX_TRIES
from tests.fast.telegram.test_webhook import HEADER, SECRET, hooked, update
from tests.support.bot_api import Json
from tests.support.telegram.hands import House


async def test_without_the_secret_it_is_401_and_nothing_is_done(house: House) -> None:
    anna = house.telegram.person(42)
    words = {"message": anna.say("/start")["message"]}
    with hooked(house) as client:
        for headers in ({}, {HEADER: ""}, {HEADER: "wrong"}, {HEADER: SECRET + "x"}, {"Authorization": SECRET}):
            answer = client.post("/telegram/hook", json=update(**words), headers=headers)
            assert answer.status_code == 401, headers
            assert answer.json()["code"] == "UNAUTHORIZED"
        assert client.post("/telegram/hook", json=update(**words), headers={HEADER: SECRET}).status_code == 200
    assert anna.read()
    assert house.schedules.values('select uid from "user".users') == ["telegram:42"]


async def test_a_body_that_is_too_large_is_not_read(house: House) -> None:
    with hooked(house) as client:
        answer = client.post("/telegram/hook", content=b" " * 1_048_577, headers={HEADER: SECRET})
    assert answer.status_code == 413


async def test_telegram_is_told_the_address_and_taps_come_by_it(house: House) -> None:
    anna = house.telegram.person(42)
    message = await house.remind(anna)
    with hooked(house) as client:
        address = f"{str(client.base_url).rstrip('/')}/telegram/hook"
        house.telegram.on_loop(
            house.telegram.do_set_webhook, {"url": address, "secret_token": SECRET}
        )  # as the API itself does when it has an address
        first, second = (anna.press(message, "Done") for _ in range(2))
        await house.wait(lambda: first.answered and second.answered)
        await house.wait(lambda: not house.telegram.waiting())
    assert house.answers() == ["complete"]
    assert house.booked() == ["9.99 EUR"]
    assert {status for _, status in house.telegram.posted} == {200}


async def test_two_devices_that_tap_at_the_same_instant_have_one_effect(house: House) -> None:
    anna = house.telegram.person(42)
    message = await house.remind(anna)
    taps = [anna.press(message, label) for label in ("Done", "Done", "Skip", "Cancel this one") * 3]
    with hooked(house) as client, ThreadPoolExecutor(len(taps)) as devices:

        def post(given: Json) -> httpx2.Response:
            return client.post("/telegram/hook", json=given, headers={HEADER: SECRET})

        answers = list(devices.map(post, list(house.telegram.updates)))
    assert {answer.status_code for answer in answers} == {200}
    assert len(house.answers()) == 1
    assert house.booked() == (["9.99 EUR"] if house.answers() == ["complete"] else [])
    assert all(len(tap.answered) == 1 for tap in taps)


async def test_the_api_tells_telegram_where_it_is_with_the_secret(house: House) -> None:
    house.telegram.refuse(502, "Bad Gateway", "setWebhook")
    with hooked(house, TELEGRAM_WEBHOOK_URL="https://duly.example.com/telegram/hook"):
        await house.wait(lambda: len(house.telegram.called("setWebhook")) == 2)
    given = house.telegram.called("setWebhook")[-1].given
    assert given["url"] == "https://duly.example.com/telegram/hook"
    assert given["secret_token"] == SECRET
    assert given["allowed_updates"] == ["message", "callback_query"]


async def test_an_update_whose_effects_are_not_committed_is_sent_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna = house.telegram.person(42)
    message = await house.remind(anna)
    house.schedules.admin.execute("begin")
    house.schedules.admin.execute("lock table scheduler.job_runs in exclusive mode")
    monkeypatch.setenv("PGOPTIONS", "-c lock_timeout=300ms")
    with hooked(house) as client:
        address = f"{str(client.base_url).rstrip('/')}/telegram/hook"
        anna.press(message, "Done")
        house.telegram.on_loop(house.telegram.do_set_webhook, {"url": address, "secret_token": SECRET})
        await house.wait(lambda: [status for _, status in house.telegram.posted] == [503])
        house.schedules.admin.execute("rollback")
        await house.wait(lambda: not house.telegram.waiting())
    assert house.answers() == ["complete"]


async def test_however_often_a_message_is_posted_while_the_database_is_away_it_is_never_too_much(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna = house.telegram.person(42)
    house.schedules.add_user("anna", telegram_id=42)
    house.schedules.admin.execute("begin")
    house.schedules.admin.execute('lock table "user".users in access exclusive mode')
    monkeypatch.setenv("PGOPTIONS", "-c lock_timeout=100ms")
    monkeypatch.setattr("duly.telegram.services.BURST", 2)
    with hooked(house) as client:
        address = f"{str(client.base_url).rstrip('/')}/telegram/hook"
        anna.say("/upcoming")
        house.telegram.on_loop(house.telegram.do_set_webhook, {"url": address, "secret_token": SECRET})
        await house.wait(lambda: [status for _, status in house.telegram.posted] == [503] * (MAX_TRIES + 1))
        house.schedules.admin.execute("rollback")
        await house.wait(lambda: not house.telegram.waiting())
    assert anna.read() == ["Nothing is coming."]
