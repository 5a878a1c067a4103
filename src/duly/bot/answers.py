"""Taps on the buttons of a reminder: answered once, explained always, and the message becomes the receipt."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from aiogram import Router
from aiogram.types import CallbackQuery

from duly.bot.desk import Desk
from duly.bot.words import say
from duly.delivery.telegram.buttons import find_key
from duly.errors import AlreadyAnswered, KeyReused, NotFound, RunClosed
from duly.kernel.crashpoint import crashpoint
from duly.logs import get_log
from duly.people import User
from duly.scheduler import service
from duly.scheduler.model import Action, Answer, Receipt, Reminder
from duly.scheduler.receipt import closed_text, first_of, receipt_line, receipt_text

__all__ = ["Tap", "read_tap", "router"]

KEY = re.compile(r"(\d{1,19}):\d{1,12}:(?:(complete|skip|cancel)|(snooze):(\d{1,5}))", re.ASCII)
RECEIPT = re.compile(r"(-?\d{1,19}):(\d{1,19})", re.ASCII)

log = get_log("duly.bot")


@dataclass(frozen=True)
class Tap:
    """What the button says."""

    run: int
    answer: Answer


def read_tap(key: str) -> Tap | None:
    """The answer that a key stands for, as `scheduler.reminder` writes it; None for any other."""
    found = KEY.fullmatch(key)
    if found is None:
        return None
    action = Action(found[2] or found[3])
    return Tap(int(found[1]), Answer(action, key, {"minutes": int(found[4])} if found[4] else {}))


async def take_tap(query: CallbackQuery, desk: Desk, person: User) -> None:
    """Answer the run, tell the one who tapped, and make every message about it the receipt."""
    chat = query.message.chat.id if query.message else query.from_user.id
    key = find_key(desk.token, chat, query.data or "")
    tap = read_tap(key) if key is not None else None
    if tap is None:
        await desk.explain(query.id, say(person.language, "not your button"), loudly=True)
        return
    pressed = (chat, query.message.message_id) if query.message else None
    await answer(desk, person, tap, query.id, pressed)


async def answer(desk: Desk, person: User, tap: Tap, query: str, pressed: tuple[int, int] | None) -> None:
    """What a tap does, and what is said of it."""
    language = person.language
    try:
        creation = await service.answer_run(desk.pool, person.id, tap.run, tap.answer)
    except AlreadyAnswered:
        receipt = first_of(await service.list_receipts(desk.pool, person.id, tap.run))
        assert receipt, "that is why it was refused"
        first = receipt_line(receipt, person.zone, language)
        await desk.explain(query, say(language, "answered", receipt=first), loudly=True)
    except RunClosed as error:
        await desk.explain(query, say(language, "closed", reason=error), loudly=True)
        receipt = None
    except NotFound:
        await desk.explain(query, say(language, "no such run"), loudly=True)
        return
    except KeyReused:
        await desk.explain(query, say(language, "another answer"), loudly=True)
        return
    else:
        receipt = creation.row
        crashpoint("after_work")
        await desk.explain(query, receipt_line(receipt, person.zone, language))
    await rewrite(desk, person, tap.run, receipt, pressed)
    log.info("a button was tapped", run=tap.run, action=tap.answer.action, key=tap.answer.key, person=person.uid)


async def rewrite(
    desk: Desk, person: User, run_id: int, receipt: Receipt | None, pressed: tuple[int, int] | None
) -> None:
    """Every message about a run says what became of it, the one that was tapped first."""
    try:
        run = await service.get_run(desk.pool, person.id, run_id)
    except NotFound:
        return  # its month was archived
    if receipt:
        text = receipt_text(run, receipt, person.zone, person.language)
    else:
        text = closed_text(run, person.zone, person.language)
    sent = places_of(await service.list_reminders(desk.pool, person.id, run_id))
    for chat, message_id in dict.fromkeys([pressed, *sent] if pressed else sent):
        await desk.rewrite(chat, message_id, text)


def places_of(reminders: Sequence[Reminder]) -> list[tuple[int, int]]:
    """The chat and the number of each message that went out by Telegram, the latest first."""
    receipts = [str(each.payload.get("receipt")) for each in reminders if each.payload.get("channel") == "telegram"]
    found = [RECEIPT.fullmatch(receipt) for receipt in reversed(receipts)]
    return [(int(each[1]), int(each[2])) for each in found if each]


def router() -> Router:
    """Who takes taps."""
    router = Router(name="answers")
    router.callback_query.register(take_tap)
    return router
