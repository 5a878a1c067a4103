"""Taps on the buttons of a reminder: one effect, an explanation always, and the message becomes the receipt."""

import pytest

from duly.apps.scheduler import service
from duly.apps.scheduler.model import Action, Answer
from tests.support.telegram.hands import House

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
        "It is over, and takes no answer: the schedule was archived",
        "Over without an answer: the schedule was archived",
    ),
    "sv": ("Den är över och tar inget svar: schemat arkiverades", "Avslutad utan svar: schemat arkiverades"),
    "zh": ("已结束，不再接受回复：该计划已归档", "未回复即结束：该计划已归档"),  # noqa: RUF001
}


@pytest.mark.parametrize("language", LABELS)
async def test_a_reminder_has_buttons_in_the_persons_language_and_becomes_the_receipt(
    language: str, house: House
) -> None:
    anna = house.telegram.person(42, language)
    message = await house.remind(anna)
    assert [each["text"] for row in message["reply_markup"]["inline_keyboard"] for each in row] == LABELS[language]
    async with house.listening():
        query = anna.press(message, LABELS[language][0])
        await house.wait(lambda: anna.read() == [RECEIPTS[language]])
    assert house.answers() == ["complete"]
    assert house.booked() == ["9.99 EUR"]
    assert query.answered == [RECEIPTS[language].splitlines()[3]]
    assert "reply_markup" not in anna.messages()[0]
    assert house.telegram.waiting() == []


@pytest.mark.parametrize(
    ("label", "action", "status"),
    [("Skip", "skip", "skipped"), ("In 1 hour", "snooze", "snoozed"), ("Cancel this one", "cancel", "cancelled")],
)
async def test_every_button_does_what_it_says(label: str, action: str, status: str, house: House) -> None:
    anna = house.telegram.person()
    message = await house.remind(anna)
    async with house.listening():
        anna.press(message, label)
        await house.wait(lambda: anna.read() != [message["text"]])
    assert house.answers() == [action]
    assert house.schedules.runs("status") == [status]
    assert house.booked() == []


async def test_a_second_tap_does_nothing_more_and_is_answered_too(house: House) -> None:
    anna = house.telegram.person()
    message = await house.remind(anna)
    first, second = (anna.press(message, "Done") for _ in range(2))
    async with house.listening():
        await house.wait(lambda: first.answered and second.answered)
    assert first.answered == second.answered
    assert house.answers() == ["complete"]
    assert house.booked() == ["9.99 EUR"]


async def test_another_answer_after_the_first_is_refused_with_the_first_receipt(house: House) -> None:
    anna = house.telegram.person()
    message = await house.remind(anna)
    async with house.listening():
        anna.press(message, "Done")
        late = anna.press(message, "Skip")
        await house.wait(lambda: late.answered)
        await house.wait(lambda: anna.read() == [RECEIPTS["en"]])
    assert late.answered == ["It was answered already: ✅ Done, 2026-11-16 11:00"]
    assert house.answers() == ["complete"]


async def test_a_run_that_was_answered_elsewhere_explains_itself_and_its_message_is_rewritten(house: House) -> None:
    anna = house.telegram.person()
    message = await house.remind(anna)
    run = house.schedules.run_id()
    await service.answer_run(house.schedules.api, None, run, Answer(Action.COMPLETE, "by the API"))
    async with house.listening():
        late = anna.press(message, "Cancel this one")
        await house.wait(lambda: anna.read() == [RECEIPTS["en"]])
    assert late.answered[0].startswith("It was answered already")


@pytest.mark.parametrize("language", CLOSED)
async def test_a_run_that_is_over_without_an_answer_says_why_in_the_persons_language(
    language: str, house: House
) -> None:
    anna = house.telegram.person(42, language)
    message = await house.remind(anna)
    house.schedules.admin.execute("update scheduler.jobs set status = 'archived'")
    async with house.listening():
        late = anna.press(message, LABELS[language][0])
        await house.wait(lambda: anna.read() != [message["text"]])
    told, shown = CLOSED[language]
    assert late.answered == [told]
    assert anna.read()[0].endswith(shown)
    assert house.answers() == []


async def test_an_old_message_about_a_run_that_came_back_still_answers_it_and_both_become_receipts(
    house: House,
) -> None:
    anna = house.telegram.person()
    old = await house.remind(anna)
    async with house.listening():
        new = await house.come_back(anna, old)
        assert new["message_id"] != old["message_id"]
        anna.press(old, "Done")  # the app of another device still shows it
        await house.wait(lambda: all("Booked" in text for text in anna.read()))
    assert house.answers() == ["snooze", "complete"]
    assert house.booked() == ["9.99 EUR"]
    assert all("reply_markup" not in message for message in anna.messages())


async def test_a_second_tap_on_an_old_snooze_leaves_the_newer_reminder_its_buttons(house: House) -> None:
    anna = house.telegram.person()
    old = await house.remind(anna)
    async with house.listening():
        new = await house.come_back(anna, old)
        again = anna.press(old, "In 1 hour")  # the app of another device still shows it
        await house.wait(lambda: again.answered)
    assert again.answered == ["You have been reminded again since. Answer the newer message, please."]
    assert anna.messages()[1] == new
    assert "Later" in anna.read()[0]
    assert house.schedules.runs("status") == ["sent"]


async def test_a_second_tap_on_an_old_snooze_leaves_the_receipt_of_the_answer(house: House) -> None:
    anna = house.telegram.person()
    message = await house.remind(anna)
    async with house.listening():
        anna.press(message, "In 1 hour")
        anna.press(message, "Done")
        again = anna.press(message, "In 1 hour")
        await house.wait(lambda: again.answered)
    assert again.answered == ["It was answered already: ✅ Done, 2026-11-16 11:00"]
    assert anna.read() == [RECEIPTS["en"]]
    assert house.answers() == ["snooze", "complete"]


async def test_of_two_snoozes_the_later_one_counts_whichever_is_tapped_again(house: House) -> None:
    anna = house.telegram.person()
    message = await house.remind(anna)
    async with house.listening():
        anna.press(message, "In 1 hour")
        anna.press(message, "Tomorrow")
        again = anna.press(message, "In 1 hour")
        await house.wait(lambda: again.answered)
    assert again.answered == ["⏰ Later: I will remind you 2026-11-17 11:00"]
    assert anna.read()[0].endswith(again.answered[0])


async def test_a_button_from_another_chat_does_nothing_and_says_so(house: House) -> None:
    anna, ben = house.telegram.person(42), house.telegram.person(43)
    message = await house.remind(anna)
    house.schedules.add_user("ben", telegram_id=43)
    data = message["reply_markup"]["inline_keyboard"][0][0]["callback_data"]
    async with house.listening():
        from_his_chat = ben.tap(1, data)
        in_her_chat = ben.tap(message["message_id"], data, chat=42)  # the seal is right, and the run is not his
        altered = anna.tap(message["message_id"], data.replace(":complete.", ":cancel."))
        await house.wait(lambda: from_his_chat.answered and in_her_chat.answered and altered.answered)
    assert "not made for this chat" in from_his_chat.answered[0]
    assert "not there any more" in in_her_chat.answered[0]
    assert "not made for this chat" in altered.answered[0]
    assert house.answers() == []


async def test_a_tap_that_is_too_old_to_be_answered_counts_all_the_same(house: House) -> None:
    anna = house.telegram.person()
    message = await house.remind(anna)
    query = anna.press(message, "Done")
    house.telegram.expire_queries()
    async with house.listening():
        await house.wait(lambda: anna.read() == [RECEIPTS["en"]])
    assert query.answered == []
    assert house.answers() == ["complete"]


async def test_being_told_to_wait_while_rewriting_ends_in_the_receipt(house: House) -> None:
    anna = house.telegram.person()
    message = await house.remind(anna)
    house.telegram.flood(1, "editMessageText")
    house.telegram.flood(1, "answerCallbackQuery")
    async with house.listening():
        query = anna.press(message, "Done")
        await house.wait(lambda: anna.read() == [RECEIPTS["en"]])
    assert query.answered
    assert house.telegram.waiting() == []


async def test_who_blocks_the_bot_after_a_tap_is_answered_and_nothing_waits(house: House) -> None:
    anna = house.telegram.person()
    message = await house.remind(anna)
    anna.press(message, "Done")
    anna.block()
    async with house.listening():
        await house.wait(lambda: not house.telegram.waiting())
    assert house.answers() == ["complete"]
    assert house.telegram.called("editMessageText")[-1].status == 403
