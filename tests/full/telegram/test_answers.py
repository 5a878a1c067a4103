"""Button presses on reminders: one effect, always a reply, and the message is replaced by the receipt."""

import pytest

from duly.apps.scheduler import service
from duly.apps.scheduler.model import Action, Answer
from tests.support.telegram.environment import BotTestEnvironment

LABELS = {
    "en": ["Done", "Skip", "In 1 hour", "Tomorrow", "Cancel this one"],
    "sv": ["Klart", "Hoppa över", "Om 1 timme", "I morgon", "Avbryt denna gång"],
    "zh": ["完成", "跳过", "稍后", "明天", "取消"],
}
RECEIPTS = {
    "en": "Rent\nDue 2026-11-16 11:00 (Europe/Stockholm)\n\n✅ Done, 2026-11-16 11:00\nBooked: 9.99 EUR",
    "sv": "Rent\nSka göras 2026-11-16 11:00 (Europe/Stockholm)\n\n✅ Klart, 2026-11-16 11:00\nBokfört: 9.99 EUR",
    "zh": "Rent\n计划时间 2026-11-16 11:00 (Europe/Stockholm)\n\n✅ 已完成，2026-11-16 11:00\n已记账：9.99 EUR",  # noqa: RUF001
}

CLOSED = {
    "en": (
        "This reminder is closed and accepts no answer: the schedule was archived",
        "Closed without an answer: the schedule was archived",
    ),
    "sv": ("Den är över och tar inget svar: schemat arkiverades", "Avslutad utan svar: schemat arkiverades"),
    "zh": ("已结束，不再接受回复：该计划已归档", "未回复即结束：该计划已归档"),  # noqa: RUF001
}


@pytest.mark.parametrize("language", LABELS)
async def test_a_reminder_has_buttons_in_the_users_language_and_is_edited_into_the_receipt(
    language: str, env: BotTestEnvironment
) -> None:
    anna = env.telegram.person(42, language)
    message = await env.remind(anna)
    assert [each["text"] for row in message["reply_markup"]["inline_keyboard"] for each in row] == LABELS[language]
    async with env.listening():
        query = anna.press(message, LABELS[language][0])
        await env.wait(lambda: anna.texts() == [RECEIPTS[language]])
    assert env.answers() == ["complete"]
    assert env.booked() == ["9.99 EUR"]
    assert query.answered == [RECEIPTS[language].splitlines()[3]]
    assert "reply_markup" not in anna.messages()[0]
    assert env.telegram.waiting() == []


@pytest.mark.parametrize(
    ("label", "action", "status"),
    [("Skip", "skip", "skipped"), ("In 1 hour", "snooze", "snoozed"), ("Cancel this one", "cancel", "cancelled")],
)
async def test_every_button_records_its_action_and_status(
    label: str, action: str, status: str, env: BotTestEnvironment
) -> None:
    anna = env.telegram.person()
    message = await env.remind(anna)
    async with env.listening():
        anna.press(message, label)
        await env.wait(lambda: anna.texts() != [message["text"]])
    assert env.answers() == [action]
    assert env.schedules.runs("status") == [status]
    assert env.booked() == []


async def test_a_repeated_tap_is_answered_and_has_no_further_effect(env: BotTestEnvironment) -> None:
    anna = env.telegram.person()
    message = await env.remind(anna)
    first, second = (anna.press(message, "Done") for _ in range(2))
    async with env.listening():
        await env.wait(lambda: first.answered and second.answered)
    assert first.answered == second.answered
    assert env.answers() == ["complete"]
    assert env.booked() == ["9.99 EUR"]


async def test_a_different_answer_after_the_first_is_refused_with_the_first_receipt(env: BotTestEnvironment) -> None:
    anna = env.telegram.person()
    message = await env.remind(anna)
    async with env.listening():
        anna.press(message, "Done")
        late = anna.press(message, "Skip")
        await env.wait(lambda: late.answered)
        await env.wait(lambda: anna.texts() == [RECEIPTS["en"]])
    assert late.answered == ["It was answered already: ✅ Done, 2026-11-16 11:00"]
    assert env.answers() == ["complete"]


async def test_a_tap_on_a_run_answered_elsewhere_shows_the_answer_and_edits_the_message(
    env: BotTestEnvironment,
) -> None:
    anna = env.telegram.person()
    message = await env.remind(anna)
    run = env.schedules.run_id()
    await service.answer_run(env.schedules.api, None, run, Answer(Action.COMPLETE, "by the API"))
    async with env.listening():
        late = anna.press(message, "Cancel this one")
        await env.wait(lambda: anna.texts() == [RECEIPTS["en"]])
    assert late.answered[0].startswith("It was answered already")


@pytest.mark.parametrize("language", CLOSED)
async def test_a_tap_on_a_closed_run_explains_why_it_closed_in_the_users_language(
    language: str, env: BotTestEnvironment
) -> None:
    anna = env.telegram.person(42, language)
    message = await env.remind(anna)
    env.schedules.admin.execute("update scheduler.jobs set status = 'archived'")
    async with env.listening():
        late = anna.press(message, LABELS[language][0])
        await env.wait(lambda: anna.texts() != [message["text"]])
    expected_answer, shown = CLOSED[language]
    assert late.answered == [expected_answer]
    assert anna.texts()[0].endswith(shown)
    assert env.answers() == []


async def test_an_old_reminder_of_a_snoozed_run_still_answers_it_and_both_become_receipts(
    env: BotTestEnvironment,
) -> None:
    anna = env.telegram.person()
    old = await env.remind(anna)
    async with env.listening():
        new = await env.come_back(anna, old)
        assert new["message_id"] != old["message_id"]
        anna.press(old, "Done")  # the app of another device still shows it
        await env.wait(lambda: all("Booked" in text for text in anna.texts()))
    assert env.answers() == ["snooze", "complete"]
    assert env.booked() == ["9.99 EUR"]
    assert all("reply_markup" not in message for message in anna.messages())


async def test_a_second_tap_on_an_old_snooze_keeps_the_buttons_of_the_newer_reminder(env: BotTestEnvironment) -> None:
    anna = env.telegram.person()
    old = await env.remind(anna)
    async with env.listening():
        new = await env.come_back(anna, old)
        again = anna.press(old, "In 1 hour")  # the app of another device still shows it
        await env.wait(lambda: again.answered)
    assert again.answered == ["You have been reminded again since. Please answer the newer message."]
    assert anna.messages()[1] == new
    assert "Later" in anna.texts()[0]
    assert env.schedules.runs("status") == ["sent"]


async def test_a_second_tap_on_an_old_snooze_keeps_the_receipt_of_the_answer(env: BotTestEnvironment) -> None:
    anna = env.telegram.person()
    message = await env.remind(anna)
    async with env.listening():
        anna.press(message, "In 1 hour")
        anna.press(message, "Done")
        again = anna.press(message, "In 1 hour")
        await env.wait(lambda: again.answered)
    assert again.answered == ["It was answered already: ✅ Done, 2026-11-16 11:00"]
    assert anna.texts() == [RECEIPTS["en"]]
    assert env.answers() == ["snooze", "complete"]


async def test_a_repeated_tap_on_an_earlier_snooze_keeps_the_later_snooze(env: BotTestEnvironment) -> None:
    anna = env.telegram.person()
    message = await env.remind(anna)
    async with env.listening():
        anna.press(message, "In 1 hour")
        anna.press(message, "Tomorrow")
        again = anna.press(message, "In 1 hour")
        await env.wait(lambda: again.answered)
    assert again.answered == ["⏰ Later: I will remind you 2026-11-17 11:00"]
    assert anna.texts()[0].endswith(again.answered[0])


async def test_a_button_forged_or_pressed_in_another_chat_is_refused(env: BotTestEnvironment) -> None:
    anna, ben = env.telegram.person(42), env.telegram.person(43)
    message = await env.remind(anna)
    env.schedules.add_user("ben", telegram_id=43)
    data = message["reply_markup"]["inline_keyboard"][0][0]["callback_data"]
    async with env.listening():
        from_his_chat = ben.press_data(1, data)
        in_her_chat = ben.press_data(message["message_id"], data, chat=42)  # the seal is right, and the run is not his
        altered = anna.press_data(message["message_id"], data.replace(":complete.", ":cancel."))
        await env.wait(lambda: from_his_chat.answered and in_her_chat.answered and altered.answered)
    assert "not made for this chat" in from_his_chat.answered[0]
    assert "no longer exists" in in_her_chat.answered[0]
    assert "not made for this chat" in altered.answered[0]
    assert env.answers() == []


async def test_a_tap_whose_callback_query_expired_still_answers_the_run(env: BotTestEnvironment) -> None:
    anna = env.telegram.person()
    message = await env.remind(anna)
    query = anna.press(message, "Done")
    env.telegram.expire_button_queries()
    async with env.listening():
        await env.wait(lambda: anna.texts() == [RECEIPTS["en"]])
    assert query.answered == []
    assert env.answers() == ["complete"]


async def test_a_rate_limited_edit_is_retried_until_the_receipt_is_shown(env: BotTestEnvironment) -> None:
    anna = env.telegram.person()
    message = await env.remind(anna)
    env.telegram.rate_limit(1, "editMessageText")
    env.telegram.rate_limit(1, "answerCallbackQuery")
    async with env.listening():
        query = anna.press(message, "Done")
        await env.wait(lambda: anna.texts() == [RECEIPTS["en"]])
    assert query.answered
    assert env.telegram.waiting() == []


async def test_a_tap_by_a_user_who_then_blocks_the_bot_is_recorded_and_not_retried(env: BotTestEnvironment) -> None:
    anna = env.telegram.person()
    message = await env.remind(anna)
    anna.press(message, "Done")
    anna.block()
    async with env.listening():
        await env.wait(lambda: not env.telegram.waiting())
    assert env.answers() == ["complete"]
    assert env.telegram.called("editMessageText")[-1].status == 403
