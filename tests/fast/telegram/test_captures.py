"""Screenshots that people send: each taken once, into the right session, and nothing else is taken."""

from tests.support.storage.pictures import gradient, written
from tests.support.telegram.hands import House

PNG = written(gradient(), "PNG")


async def test_a_compressed_photograph_is_refused_with_how_to_send_it(house: House) -> None:
    anna = house.telegram.person(42, "sv")
    async with house.listening():
        anna.send_photo()
        await house.wait(anna.read)
    assert "Skicka det som fil" in anna.read()[0]
    assert house.sessions() == []


async def test_what_is_neither_words_nor_a_file_is_refused_with_words(house: House) -> None:
    anna = house.telegram.person(42)
    async with house.listening():
        anna.send_place()
        await house.wait(anna.read)
    assert "I cannot read this" in anna.read()[0]


async def test_a_file_that_is_too_large_is_never_fetched(house: House) -> None:
    anna = house.telegram.person(42)
    async with house.listening():
        anna.send_file(PNG + bytes(20_000_001))
        await house.wait(anna.read)
    assert "too large" in anna.read()[0]
    assert house.telegram.called("getFile") == []


async def test_a_file_that_telegram_has_no_more_is_asked_for_again(house: House) -> None:
    anna = house.telegram.person(42)
    anna.send_file(PNG)
    house.telegram.files.clear()
    async with house.listening():
        await house.wait(anna.read)
    assert "send it again" in anna.read()[0]


async def test_a_session_without_a_screenshot_stays_open(house: House) -> None:
    anna = house.telegram.person(42)
    async with house.listening():
        anna.say("/done")
        anna.say("/start_session")
        anna.say("/done")
        anna.say("/start_session")
        await house.wait(lambda: len(anna.read()) == 4)
    assert [text.split(".")[0] for text in anna.read()] == [
        "No session is open",
        "The session is open",
        "Your session has no screenshot yet",
        "Your session is open and has 0 screenshots",
    ]
    assert house.sessions() == [(False, 0)]
