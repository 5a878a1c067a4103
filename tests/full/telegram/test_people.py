"""Who writes to the bot: met once, bound by a link once, and one Telegram id is one person."""

from tests.fast.telegram.test_people import people
from tests.support.telegram.hands import House


async def test_whoever_writes_for_the_first_time_becomes_a_person_in_their_language(house: House) -> None:
    lin = house.telegram.person(42, "zh-hans")
    async with house.listening():
        lin.say("/start")
        lin.say("/start")
        await house.wait(lambda: len(lin.read()) == 2)
    assert people(house) == [("telegram:42", 42, "zh")]
    assert lin.read()[0].startswith("欢迎，telegram:42")  # noqa: RUF001
