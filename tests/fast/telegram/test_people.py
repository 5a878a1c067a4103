"""Senders: created once, linked once, and one Telegram id is one person."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from duly.accounts.telegram_link import create_telegram_link
from tests.support.bot_api import TOKEN, ApiError, ProxyResponse
from tests.support.telegram.environment import BotTestEnvironment


def people(env: BotTestEnvironment) -> list[tuple[str, int | None, str]]:
    """Return all people with Telegram id and language."""
    return env.schedules.rows("select uid, telegram_id, language from duly.person order by id")


async def test_link_connects_a_telegram_id_to_a_user_once(env: BotTestEnvironment) -> None:
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


async def test_telegram_id_of_another_user_is_refused_with_the_unlink_command(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    env.schedules.add_user("telegram:42", telegram_id=42)
    link = create_telegram_link(TOKEN, env.schedules.add_user("anna"), datetime.now(UTC))
    async with env.listening():
        anna.send_text(f"/start {link}")
        await env.wait(lambda: len(anna.texts()) == 1)
        assert "duly people unlink-telegram telegram:42" in anna.texts()[0]
        env.schedules.admin.execute("update duly.person set telegram_id = null where uid = 'telegram:42'")
        anna.send_text(f"/start {link}")
        await env.wait(lambda: len(anna.texts()) == 2)
    assert ("anna", 42, "en") in people(env)


async def test_link_expires_by_the_database_clock(env: BotTestEnvironment) -> None:
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
async def test_invalid_link_connects_and_creates_no_user(how: str, env: BotTestEnvironment) -> None:
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


async def test_private_bot_refuses_ids_that_are_not_allowed(env: BotTestEnvironment) -> None:
    anna, ben = env.telegram.person(42), env.telegram.person(43)
    async with env.listening(TELEGRAM_ALLOWED_IDS="42,44"):
        anna.send_text("/help")
        ben.send_text("/help")
        await env.wait(lambda: anna.texts() and ben.texts())
    assert ben.texts() == ["This bot is private."]
    assert [uid for uid, _, _ in people(env)] == ["telegram:42"]


async def test_unknown_user_is_told_to_get_a_link_if_newcomers_are_disabled(env: BotTestEnvironment) -> None:
    ben = env.telegram.person(43)
    async with env.listening(TELEGRAM_NEWCOMERS=False):
        ben.send_text("/today")
        await env.wait(ben.texts)
    assert ben.texts() == ["I do not know you yet. Ask for a link, and open it here."]
    assert people(env) == []


async def test_group_messages_are_ignored_and_confirmed(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    async with env.listening():
        anna.send_text("/start", chat={"id": -100, "type": "group", "title": "family"})
        anna.send_text("/help")
        await env.wait(anna.texts)
        await env.wait(lambda: not env.telegram.waiting())
    assert len(anna.texts()) == 1


async def test_rate_limited_user_is_asked_to_wait(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    at = int(time.time())
    async with env.listening() as poller:
        poller.dispatcher.services.rate.burst = 1
        for _ in range(3):
            anna.send_text("/help", date=at)
        await env.wait(lambda: len(anna.texts()) == 3)
    assert "a lot at once" in anna.texts()[-1]


async def test_rate_limit_counts_messages_by_their_time_of_sending(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    at = int(time.time()) - 3600
    for nth in range(10):
        anna.send_text("/help", date=at + nth)
    async with env.listening() as poller:
        poller.dispatcher.services.rate.burst = 1
        await env.wait(lambda: len(anna.texts()) == 10)
    assert not any("a lot at once" in text for text in anna.texts())


async def test_rate_limit_message_uses_the_users_language_and_is_not_retried(
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


async def test_rate_limited_update_is_confirmed_even_if_the_refusal_fails(env: BotTestEnvironment) -> None:
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


async def test_text_that_is_not_a_command_gets_the_list_of_commands(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42, "sv")
    async with env.listening():
        anna.send_text("hej")
        anna.send_text("/nonsense")
        await env.wait(lambda: len(anna.texts()) == 2)
    assert all("/upcoming" in text for text in anna.texts())
