"""Senders: created once, linked once, and one Telegram id is one person."""

from tests.fast.telegram.test_people import people
from tests.support.telegram.environment import BotTestEnvironment


async def test_the_first_message_of_a_telegram_user_creates_a_user_in_their_language(env: BotTestEnvironment) -> None:
    lin = env.telegram.person(42, "zh-hans")
    async with env.listening():
        lin.send_text("/start")
        lin.send_text("/start")
        await env.wait(lambda: len(lin.texts()) == 2)
    assert people(env) == [("telegram:42", 42, "zh")]
    assert lin.texts()[0].startswith("欢迎，telegram:42")  # noqa: RUF001
