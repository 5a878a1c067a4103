"""Button presses on reminders: one effect, always a reply, and the message is replaced by the receipt."""

import pytest

from duly.apps.scheduler.reminder import CHOICES
from duly.telegram.buttons import MAX_DATA_BYTES, find_key, sign_key
from tests.support.bot_api import TOKEN
from tests.support.telegram.environment import BotTestEnvironment


@pytest.mark.parametrize("data", ["", "x", ".", "1:2:complete", "1:2:complete.AAAAAAAAAAAAAAAA", "ü.ö", "a" * 64])
async def test_button_data_with_an_invalid_signature_is_refused(data: str, env: BotTestEnvironment) -> None:
    anna = env.telegram.person()
    env.schedules.add_user("anna", telegram_id=42)
    async with env.listening():
        query = anna.press_data(1, data)
        await env.wait(lambda: query.answered)
    assert "not made for this chat" in query.answered[0]


async def test_button_of_an_unknown_user_is_refused_if_newcomers_are_disabled(
    env: BotTestEnvironment,
) -> None:
    ben = env.telegram.person(43, "sv")
    async with env.listening(TELEGRAM_NEWCOMERS=False):
        query = ben.press_data(1, sign_key(TOKEN, 43, "1:1:complete"))
        await env.wait(lambda: query.answered)
    assert query.answered == ["Jag känner dig inte än. Be om en länk och öppna den här."]


async def test_run_whose_reminder_is_being_sent_cannot_be_snoozed(env: BotTestEnvironment) -> None:
    anna = env.telegram.person()
    env.schedules.set_clock("2026-11-16T09:30:00+00:00")
    env.schedules.add_user("anna", telegram_id=42)
    await env.schedules.create(rule="cron: 0 10 * * *")
    await env.schedules.plan()
    async with env.listening():
        query = anna.press_data(1, sign_key(TOKEN, 42, f"{env.schedules.run_id()}:1794837780:snooze:60"))
        await env.wait(lambda: query.answered)
    assert query.answered[0].startswith("It cannot be postponed yet")
    assert env.schedules.runs("status") == ["pending"]


@pytest.mark.parametrize(("action", "minutes"), CHOICES)
@pytest.mark.parametrize("run", [1, 2**62, 2**63 - 1])
def test_signed_button_data_fits_into_64_bytes_for_every_run(run: int, action: str, minutes: int | None) -> None:
    key = f"{run}:7258118399:{action}" + (f":{minutes}" if minutes else "")
    data = sign_key(TOKEN, 2**62, key)
    assert len(data.encode()) <= MAX_DATA_BYTES
    assert find_key(TOKEN, 2**62, data) == key
    assert find_key(TOKEN, 2**62 + 1, data) is None
    assert find_key(TOKEN.replace("A", "B"), 2**62, data) is None
