"""Taps on the buttons of a reminder: answered once, explained always, and the message becomes the receipt."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from aiogram import Router
from aiogram.types import CallbackQuery

from duly.accounts import User
from duly.apps.scheduler import service
from duly.apps.scheduler.model import Action, Answer, Receipt, Reminder, Run, RunStatus
from duly.apps.scheduler.receipt import closed_text, first_of, reason_of, receipt_line, receipt_text
from duly.crashpoint import crashpoint
from duly.errors import AlreadyAnswered, KeyReused, NotFound, RunClosed
from duly.logging import get_log
from duly.telegram.buttons import find_key
from duly.telegram.messages import say
from duly.telegram.services import Desk

__all__ = ["Tap", "read_tap", "router"]

KEY = re.compile(r"(\d{1,19}):\d{1,12}:(?:(complete|skip|cancel)|(snooze):(\d{1,5}))", re.ASCII)
RECEIPT = re.compile(r"(-?\d{1,19}):(\d{1,19})", re.ASCII)
MAX_LOOKS = 3

log = get_log("duly.telegram")


Place = tuple[int, int]  # a chat, and the number of a message in it


@dataclass(frozen=True)
class Tap:
    """What the button says."""

    run: int
    answer: Answer


@dataclass(frozen=True)
class Standing:
    """Where a run is by now: what the one who tapped is told, and what which of its messages say."""

    words: str
    text: str = ""
    places: tuple[Place, ...] = ()
    is_mine: bool = False  # what the tap did, and nobody else


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


async def answer(desk: Desk, person: User, tap: Tap, query: str, pressed: Place | None) -> None:
    """What a tap does, and what is said of it: of the run as it is by now, which may be more than this tap did."""
    try:
        receipt = (await service.answer_run(desk.pool, person.id, tap.run, tap.answer)).row
        crashpoint("after_work")
    except (AlreadyAnswered, RunClosed):
        receipt = None
    except NotFound:
        await desk.explain(query, say(person.language, "no such run"), loudly=True)
        return
    except KeyReused:
        await desk.explain(query, say(person.language, "another answer"), loudly=True)
        return
    standing = await look(desk, person, tap.run, receipt, pressed)
    await desk.explain(query, standing.words, loudly=not standing.is_mine)
    for _ in range(MAX_LOOKS):  # whoever writes last has looked after everybody else wrote
        for chat, message_id in standing.places:
            await desk.rewrite(chat, message_id, standing.text)
        before, standing = standing, await look(desk, person, tap.run, receipt, pressed)
        if standing == before:
            break
    log.info("a button was tapped", run=tap.run, action=tap.answer.action, key=tap.answer.key, person=person.uid)


async def look(desk: Desk, person: User, run_id: int, receipt: Receipt | None, pressed: Place | None) -> Standing:
    """Where a run is, for somebody who got this receipt.

    Its messages are looked up before its state: so none of them is newer than what is said of it. A run that waits for
    an answer again has a newer message, which is left alone; the one that was tapped says what became of it.
    """
    try:
        places = places_of(await service.list_reminders(desk.pool, person.id, run_id))
        run = await service.get_run(desk.pool, person.id, run_id)
        receipts = await service.list_receipts(desk.pool, person.id, run_id)
    except NotFound:  # its month was archived
        return Standing(say(person.language, "no such run"))
    everywhere = tuple(dict.fromkeys([pressed, *places] if pressed else places))
    match run.status:
        case RunStatus.PENDING | RunStatus.SENT:
            assert receipt, "only an answer that was taken leaves it open"
            text = receipt_text(run, receipt, person.zone, person.language)
            return Standing(say(person.language, "reminded again"), text, (pressed,) if pressed else ())
        case RunStatus.SNOOZED:
            return answered(person, run, receipts[-1], receipt, everywhere)
        case RunStatus.CONFIRMED | RunStatus.SKIPPED | RunStatus.CANCELLED if first := first_of(receipts):
            return answered(person, run, first, receipt, everywhere)
        case _:
            words = say(person.language, "closed", reason=reason_of(run, person.language))
            return Standing(words, closed_text(run, person.zone, person.language), everywhere)


def answered(person: User, run: Run, counts: Receipt, mine: Receipt | None, places: tuple[Place, ...]) -> Standing:
    """Where a run is that has an answer which counts, for somebody who got a receipt of their own."""
    line = receipt_line(counts, person.zone, person.language)
    is_mine = mine is not None and (counts == mine or counts.action is Action.SNOOZE)
    words = line if is_mine else say(person.language, "answered", receipt=line)
    return Standing(words, receipt_text(run, counts, person.zone, person.language), places, is_mine)


def places_of(reminders: Sequence[Reminder]) -> list[Place]:
    """The chat and the number of each message that went out by Telegram, the latest first."""
    receipts = [str(each.payload.get("receipt")) for each in reminders if each.payload.get("channel") == "telegram"]
    found = [RECEIPT.fullmatch(receipt) for receipt in reversed(receipts)]
    return [(int(each[1]), int(each[2])) for each in found if each]


def router() -> Router:
    """Who takes taps."""
    router = Router(name="answers")
    router.callback_query.register(take_tap)
    return router
