"""Screenshots: each is added once, to the right session, and nothing else is accepted."""

from tests.support.storage.pictures import gradient, written
from tests.support.telegram.environment import BotTestEnvironment

PNG = written(gradient(), "PNG")


async def test_compressed_photograph_is_refused_with_a_hint_to_send_it_as_a_file(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42, "sv")
    async with env.listening():
        anna.send_photo()
        await env.wait(anna.texts)
    assert "Skicka det som fil" in anna.texts()[0]
    assert env.sessions() == []


async def test_message_without_text_or_file_is_refused(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    async with env.listening():
        anna.send_location()
        await env.wait(anna.texts)
    assert "I cannot read this" in anna.texts()[0]


async def test_oversized_file_is_not_downloaded(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    async with env.listening():
        anna.send_file(PNG + bytes(20_000_001))
        await env.wait(anna.texts)
    assert "too large" in anna.texts()[0]
    assert env.telegram.called("getFile") == []


async def test_file_missing_at_telegram_is_requested_again(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    anna.send_file(PNG)
    env.telegram.files.clear()
    async with env.listening():
        await env.wait(anna.texts)
    assert "send it again" in anna.texts()[0]


async def test_a_session_without_a_screenshot_stays_open(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    async with env.listening():
        anna.send_text("/done")
        anna.send_text("/start_session")
        anna.send_text("/done")
        anna.send_text("/start_session")
        await env.wait(lambda: len(anna.texts()) == 4)
    assert [text.split(".")[0] for text in anna.texts()] == [
        "No session is open",
        "The session is open",
        "Your session has no screenshot yet",
        "Your session is open and has 0 screenshots",
    ]
    assert env.sessions() == [(False, 0)]
