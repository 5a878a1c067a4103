"""Senders: created once, linked once, and one Telegram id is one person."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from duly.accounts.telegram_link import create_telegram_link
from tests.support.bot_api import TOKEN, ApiError, ProxyResponse
from tests.support.telegram.environment import BotTestEnvironment


def people(env: BotTestEnvironment) -> list[tuple[str, int | None, str]]:
    """Return all people with Telegram id and language."""
    return env.schedules.rows('select uid, telegram_id, language from "user".users order by id')


async def test_a_link_binds_a_telegram_id_to_a_person_once(env: BotTestEnvironment) -> None:
    anna, ben = env.telegram.person(42, "sv"), env.telegram.person(43)
    link = create_telegram_link(TOKEN, env.schedules.add_user("anna", language="sv"), datetime.now(UTC))
    async with env.listening():
        anna.send_text(f"/start {link}")
        await env.wait(lambda: len(anna.texts()) == 1)
        anna.send_text(f"/start {link}")  # it came twice
        await env.wait(lambda: len(anna.texts()) == 2)
        ben.send_text(f"/start {link}")
        await env.wait(lambda: len(ben.texts()) == 1)
    assert anna.texts() == ["Du är anna nu. Jag skriver till dig här."] * 2
    assert "another Telegram account" in ben.texts()[0]
    assert people(env) == [("anna", 42, "sv")]


async def test_one_telegram_id_is_one_person_and_the_way_out_is_told(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    env.schedules.add_user("telegram:42", telegram_id=42)
    link = create_telegram_link(TOKEN, env.schedules.add_user("anna"), datetime.now(UTC))
    async with env.listening():
        anna.send_text(f"/start {link}")
        await env.wait(lambda: len(anna.texts()) == 1)
        assert "duly users unlink telegram:42" in anna.texts()[0]
        env.schedules.admin.execute("update \"user\".users set telegram_id = null where uid = 'telegram:42'")
        anna.send_text(f"/start {link}")
        await env.wait(lambda: len(anna.texts()) == 2)
    assert ("anna", 42, "en") in people(env)


async def test_a_link_lives_by_the_clock_of_the_database(env: BotTestEnvironment) -> None:
    anna, ben = env.telegram.person(42), env.telegram.person(43)
    env.schedules.set_clock("2031-01-01T10:00:00+00:00")
    first, second = (
        create_telegram_link(TOKEN, env.schedules.add_user(uid), env.schedules.now()) for uid in ("anna", "ben")
    )
    async with env.listening():
        env.schedules.advance_clock(minutes=59)
        anna.send_text(f"/start {first}")
        await env.wait(anna.texts)
        env.schedules.advance_clock(minutes=2)
        ben.send_text(f"/start {second}")
        await env.wait(ben.texts)
    assert anna.texts() == ["You are anna now. I will write to you here."]
    assert "does not work" in ben.texts()[0]


@pytest.mark.parametrize("how", ["expired", "altered", "of another bot", "short", "not ours"])
async def test_a_link_that_is_not_one_binds_nobody_and_makes_nobody(how: str, env: BotTestEnvironment) -> None:
    ben = env.telegram.person(43)
    number, now = env.schedules.add_user("anna"), datetime.now(UTC)
    link = {
        "expired": create_telegram_link(TOKEN, number, now - timedelta(hours=2)),
        "altered": create_telegram_link(TOKEN, number, now).replace("A", "B", 1),
        "of another bot": create_telegram_link("1:other", number, now),
        "short": create_telegram_link(TOKEN, number, now)[:20],
        "not ours": "hello_world",
    }[how]
    async with env.listening():
        ben.send_text(f"/start {link}")
        await env.wait(lambda: len(ben.texts()) == 1)
    assert "does not work" in ben.texts()[0]
    assert people(env) == [("anna", None, "en")]


async def test_a_private_bot_talks_to_nobody_else(env: BotTestEnvironment) -> None:
    anna, ben = env.telegram.person(42), env.telegram.person(43)
    async with env.listening(TELEGRAM_ALLOWED_IDS="42,44"):
        anna.send_text("/help")
        ben.send_text("/help")
        await env.wait(lambda: anna.texts() and ben.texts())
    assert ben.texts() == ["This bot is private."]
    assert [uid for uid, _, _ in people(env)] == ["telegram:42"]


async def test_without_newcomers_a_stranger_is_told_to_ask_for_a_link(env: BotTestEnvironment) -> None:
    ben = env.telegram.person(43)
    async with env.listening(TELEGRAM_NEWCOMERS=False):
        ben.send_text("/today")
        await env.wait(ben.texts)
    assert ben.texts() == ["I do not know you yet. Ask for a link, and open it here."]
    assert people(env) == []


async def test_groups_are_passed_over_and_confirmed(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    async with env.listening():
        anna.send_text("/start", chat={"id": -100, "type": "group", "title": "family"})
        anna.send_text("/help")
        await env.wait(anna.texts)
        await env.wait(lambda: not env.telegram.waiting())
    assert len(anna.texts()) == 1


async def test_too_much_at_once_is_told_so(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    at = int(time.time())
    async with env.listening() as poller:
        poller.dispatcher.services.rate.burst = 1
        for _ in range(3):
            anna.send_text("/help", date=at)
        await env.wait(lambda: len(anna.texts()) == 3)
    assert "a lot at once" in anna.texts()[-1]


async def test_what_waited_for_the_bot_is_not_too_much_at_once(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    at = int(time.time()) - 3600
    for nth in range(10):
        anna.send_text("/help", date=at + nth)
    async with env.listening() as poller:
        poller.dispatcher.services.rate.burst = 1
        await env.wait(lambda: len(anna.texts()) == 10)
    assert not any("a lot at once" in text for text in anna.texts())


async def test_whoever_is_turned_away_is_told_in_their_language_and_waited_for_by_nobody(
    env: BotTestEnvironment,
) -> None:
    anna = env.telegram.person(42, "en")
    env.schedules.add_user("anna", telegram_id=42, language="sv")
    at = int(time.time())
    async with env.listening() as poller:
        poller.dispatcher.services.rate.burst = 1
        anna.send_text("/help", date=at)
        await env.wait(anna.texts)
        anna.send_text("/help", date=at)
        await env.wait(lambda: len(anna.texts()) == 2)
        env.telegram.chat_errors[42] = ApiError(429, "Too Many Requests: retry after 60", retry_after=60)
        anna.send_text("/help", date=at)
        await env.wait(lambda: not env.telegram.waiting())
    assert anna.texts()[1] == "Det var mycket på en gång. Vänta lite och skicka igen."


async def test_whoever_comes_too_often_is_turned_away_however_telegram_takes_it(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    at = int(time.time())
    async with env.listening() as poller:
        poller.dispatcher.services.rate.burst = 1
        anna.send_text("/help", date=at)
        await env.wait(anna.texts)
        env.telegram.planned_errors += [("sendMessage", ProxyResponse(502, {"message": "Bad Gateway"}))]
        anna.send_text("/help", date=at)
        await env.wait(lambda: not env.telegram.waiting())
    assert len(anna.texts()) == 1


async def test_words_that_are_no_command_get_the_list_of_commands(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42, "sv")
    async with env.listening():
        anna.send_text("hej")
        anna.send_text("/nonsense")
        await env.wait(lambda: len(anna.texts()) == 2)
    assert all("/upcoming" in text for text in anna.texts())
