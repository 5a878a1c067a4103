"""Who writes to the bot: met once, bound by a link once, and one Telegram id is one person."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from duly.accounts.telegram_link import new_link
from tests.support.bot_api import TOKEN, ForeignPage, Refusal
from tests.support.telegram.hands import House


def people(house: House) -> list[tuple[str, int | None, str]]:
    """Everybody, with their Telegram id and language."""
    return house.schedules.rows('select uid, telegram_id, language from "user".users order by id')


async def test_a_link_binds_a_telegram_id_to_a_person_once(house: House) -> None:
    anna, ben = house.telegram.person(42, "sv"), house.telegram.person(43)
    link = new_link(TOKEN, house.schedules.add_user("anna", language="sv"), datetime.now(UTC))
    async with house.listening():
        anna.say(f"/start {link}")
        await house.wait(lambda: len(anna.read()) == 1)
        anna.say(f"/start {link}")  # it came twice
        await house.wait(lambda: len(anna.read()) == 2)
        ben.say(f"/start {link}")
        await house.wait(lambda: len(ben.read()) == 1)
    assert anna.read() == ["Du är anna nu. Jag skriver till dig här."] * 2
    assert "another Telegram account" in ben.read()[0]
    assert people(house) == [("anna", 42, "sv")]


async def test_one_telegram_id_is_one_person_and_the_way_out_is_told(house: House) -> None:
    anna = house.telegram.person(42)
    house.schedules.add_user("telegram:42", telegram_id=42)
    link = new_link(TOKEN, house.schedules.add_user("anna"), datetime.now(UTC))
    async with house.listening():
        anna.say(f"/start {link}")
        await house.wait(lambda: len(anna.read()) == 1)
        assert "duly users unlink telegram:42" in anna.read()[0]
        house.schedules.admin.execute("update \"user\".users set telegram_id = null where uid = 'telegram:42'")
        anna.say(f"/start {link}")
        await house.wait(lambda: len(anna.read()) == 2)
    assert ("anna", 42, "en") in people(house)


async def test_a_link_lives_by_the_clock_of_the_database(house: House) -> None:
    anna, ben = house.telegram.person(42), house.telegram.person(43)
    house.schedules.set_clock("2031-01-01T10:00:00+00:00")
    first, second = (new_link(TOKEN, house.schedules.add_user(uid), house.schedules.now()) for uid in ("anna", "ben"))
    async with house.listening():
        house.schedules.advance_clock(minutes=59)
        anna.say(f"/start {first}")
        await house.wait(anna.read)
        house.schedules.advance_clock(minutes=2)
        ben.say(f"/start {second}")
        await house.wait(ben.read)
    assert anna.read() == ["You are anna now. I will write to you here."]
    assert "does not work" in ben.read()[0]


@pytest.mark.parametrize("how", ["expired", "altered", "of another bot", "short", "not ours"])
async def test_a_link_that_is_not_one_binds_nobody_and_makes_nobody(how: str, house: House) -> None:
    ben = house.telegram.person(43)
    number, now = house.schedules.add_user("anna"), datetime.now(UTC)
    link = {
        "expired": new_link(TOKEN, number, now - timedelta(hours=2)),
        "altered": new_link(TOKEN, number, now).replace("A", "B", 1),
        "of another bot": new_link("1:other", number, now),
        "short": new_link(TOKEN, number, now)[:20],
        "not ours": "hello_world",
    }[how]
    async with house.listening():
        ben.say(f"/start {link}")
        await house.wait(lambda: len(ben.read()) == 1)
    assert "does not work" in ben.read()[0]
    assert people(house) == [("anna", None, "en")]


async def test_a_private_bot_talks_to_nobody_else(house: House) -> None:
    anna, ben = house.telegram.person(42), house.telegram.person(43)
    async with house.listening(TELEGRAM_ALLOWED_IDS="42,44"):
        anna.say("/help")
        ben.say("/help")
        await house.wait(lambda: anna.read() and ben.read())
    assert ben.read() == ["This bot is private."]
    assert [uid for uid, _, _ in people(house)] == ["telegram:42"]


async def test_without_newcomers_a_stranger_is_told_to_ask_for_a_link(house: House) -> None:
    ben = house.telegram.person(43)
    async with house.listening(TELEGRAM_NEWCOMERS=False):
        ben.say("/today")
        await house.wait(ben.read)
    assert ben.read() == ["I do not know you yet. Ask for a link, and open it here."]
    assert people(house) == []


async def test_groups_are_passed_over_and_confirmed(house: House) -> None:
    anna = house.telegram.person(42)
    async with house.listening():
        anna.say("/start", chat={"id": -100, "type": "group", "title": "family"})
        anna.say("/help")
        await house.wait(anna.read)
        await house.wait(lambda: not house.telegram.waiting())
    assert len(anna.read()) == 1


async def test_too_much_at_once_is_told_so(house: House) -> None:
    anna = house.telegram.person(42)
    at = int(time.time())
    async with house.listening() as poller:
        poller.reception.desk.rate.burst = 1
        for _ in range(3):
            anna.say("/help", date=at)
        await house.wait(lambda: len(anna.read()) == 3)
    assert "a lot at once" in anna.read()[-1]


async def test_what_waited_for_the_bot_is_not_too_much_at_once(house: House) -> None:
    anna = house.telegram.person(42)
    at = int(time.time()) - 3600
    for nth in range(10):
        anna.say("/help", date=at + nth)
    async with house.listening() as poller:
        poller.reception.desk.rate.burst = 1
        await house.wait(lambda: len(anna.read()) == 10)
    assert not any("a lot at once" in text for text in anna.read())


async def test_whoever_is_turned_away_is_told_in_their_language_and_waited_for_by_nobody(house: House) -> None:
    anna = house.telegram.person(42, "en")
    house.schedules.add_user("anna", telegram_id=42, language="sv")
    at = int(time.time())
    async with house.listening() as poller:
        poller.reception.desk.rate.burst = 1
        anna.say("/help", date=at)
        await house.wait(anna.read)
        anna.say("/help", date=at)
        await house.wait(lambda: len(anna.read()) == 2)
        house.telegram.troubles[42] = Refusal(429, "Too Many Requests: retry after 60", retry_after=60)
        anna.say("/help", date=at)
        await house.wait(lambda: not house.telegram.waiting())
    assert anna.read()[1] == "Det var mycket på en gång. Vänta lite och skicka igen."


async def test_whoever_comes_too_often_is_turned_away_however_telegram_takes_it(house: House) -> None:
    anna = house.telegram.person(42)
    at = int(time.time())
    async with house.listening() as poller:
        poller.reception.desk.rate.burst = 1
        anna.say("/help", date=at)
        await house.wait(anna.read)
        house.telegram.refusals += [("sendMessage", ForeignPage(502, {"message": "Bad Gateway"}))]
        anna.say("/help", date=at)
        await house.wait(lambda: not house.telegram.waiting())
    assert len(anna.read()) == 1


async def test_words_that_are_no_command_get_the_list_of_commands(house: House) -> None:
    anna = house.telegram.person(42, "sv")
    async with house.listening():
        anna.say("hej")
        anna.say("/nonsense")
        await house.wait(lambda: len(anna.read()) == 2)
    assert all("/upcoming" in text for text in anna.read())
