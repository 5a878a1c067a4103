"""Button presses on reminders: each takes effect once, and the message is replaced by the receipt."""

from collections.abc import Sequence
from dataclasses import dataclass

from aiogram import Router
from aiogram.types import CallbackQuery

from duly.accounts import Person
from duly.apps.scheduler import service
from duly.apps.scheduler.button_key import ButtonPress, parse_button_key
from duly.apps.scheduler.model import Action, Receipt, Reminder, Run, RunStatus
from duly.apps.scheduler.reasons import describe_reason
from duly.apps.scheduler.receipt import closed_text, find_closing_receipt, receipt_line, receipt_text
from duly.crashpoint import crashpoint
from duly.errors import AlreadyAnswered, KeyReused, NotFound, ReminderNotSent, RunClosed
from duly.logging import get_log
from duly.telegram.buttons import find_key
from duly.telegram.channel import MessageId, parse_message_id
from duly.telegram.messages import translate
from duly.telegram.services import Services

MAX_REFRESHES = 3

log = get_log("duly.telegram")


@dataclass(frozen=True)
class RunView:
    """The current state of a run: a notice for the person who pressed, and a text for messages about the run."""

    notice: str
    text: str = ""
    message_ids: tuple[MessageId, ...] = ()
    is_own_effect: bool = False  # the state is what this button press did


async def handle_button_press(query: CallbackQuery, services: Services, person: Person) -> None:
    """Answer the run, notify the person who pressed, and replace every message about the run by the receipt."""
    chat = query.message.chat.id if query.message else query.from_user.id
    key = find_key(services.token, chat, query.data or "")
    press = parse_button_key(key) if key is not None else None
    if press is None:
        await services.answer_callback(query.id, translate(person.language, "button_invalid"), is_alert=True)
        return
    pressed = (chat, query.message.message_id) if query.message else None
    await answer(services, person, press, query.id, pressed)


async def answer(services: Services, person: Person, press: ButtonPress, query: str, pressed: MessageId | None) -> None:
    """Apply a button press and report the run as it is then, which may be the effect of another answer too."""
    try:
        receipt = (await service.answer_run(services.pool, person.schedule_owner_id, press.run_id, press.answer)).row
        crashpoint("after_work")
    except (AlreadyAnswered, RunClosed):
        receipt = None
    except NotFound:
        await services.answer_callback(query, translate(person.language, "run_not_found"), is_alert=True)
        return
    except KeyReused:
        await services.answer_callback(query, translate(person.language, "button_reused"), is_alert=True)
        return
    except ReminderNotSent:
        await services.answer_callback(query, translate(person.language, "reminder_not_sent"), is_alert=True)
        return
    view = await load_run_view(services, person, press.run_id, receipt, pressed)
    await services.answer_callback(query, view.notice, is_alert=not view.is_own_effect)
    for _ in range(MAX_REFRESHES):  # the last writer must have seen the state after all other writers
        for chat, message_id in view.message_ids:
            await services.edit_message(chat, message_id, view.text)
        before, view = view, await load_run_view(services, person, press.run_id, receipt, pressed)
        if view == before:
            break
    log.info(
        "telegram.button_pressed", run_id=press.run_id, action=press.answer.action, key=press.answer.key, uid=person.uid
    )


async def load_run_view(
    services: Services, person: Person, run_id: int, receipt: Receipt | None, pressed: MessageId | None
) -> RunView:
    """Load the state of a run, for a person whose answer got this receipt.

    Its messages are loaded before its state, so that none of them is newer than the text. A run that waits for an
    answer again has a newer message, which is not changed; only the pressed one is.
    """
    try:
        message_ids = sent_message_ids(await service.list_reminders(services.pool, person.schedule_owner_id, run_id))
        run = await service.get_run(services.pool, person.schedule_owner_id, run_id)
        receipts = await service.list_receipts(services.pool, person.schedule_owner_id, run_id)
    except NotFound:  # its month was dropped
        return RunView(translate(person.language, "run_not_found"))
    all_ids = tuple(dict.fromkeys([pressed, *message_ids] if pressed else message_ids))
    match run.status:
        case RunStatus.PENDING | RunStatus.SENT:
            assert receipt, "only an accepted answer leaves it open"
            text = receipt_text(run, receipt, person.zone, person.language)
            return RunView(translate(person.language, "newer_reminder"), text, (pressed,) if pressed else ())
        case RunStatus.SNOOZED:
            return answered_view(person, run, receipts[-1], receipt, all_ids)
        case RunStatus.CONFIRMED | RunStatus.SKIPPED | RunStatus.CANCELLED if first := find_closing_receipt(receipts):
            return answered_view(person, run, first, receipt, all_ids)
        case _:
            notice = translate(person.language, "run_closed", reason=describe_reason(run.reason, person.language))
            return RunView(notice, closed_text(run, person.zone, person.language), all_ids)


def answered_view(
    person: Person, run: Run, effective: Receipt, own_receipt: Receipt | None, message_ids: tuple[MessageId, ...]
) -> RunView:
    """Describe an answered run, for a person whose own answer got the receipt `own_receipt`."""
    line = receipt_line(effective, person.zone, person.language)
    is_own_effect = own_receipt is not None and (effective == own_receipt or effective.action is Action.SNOOZE)
    notice = line if is_own_effect else translate(person.language, "already_answered", receipt=line)
    return RunView(notice, receipt_text(run, effective, person.zone, person.language), message_ids, is_own_effect)


def sent_message_ids(reminders: Sequence[Reminder]) -> list[MessageId]:
    """Return the ids of the messages that were sent by Telegram, the latest first."""
    receipts = [str(each.payload.get("receipt")) for each in reminders if each.payload.get("channel") == "telegram"]
    return [found for receipt in reversed(receipts) if (found := parse_message_id(receipt))]


def router() -> Router:
    """Build the router of button presses."""
    router = Router(name="answers")
    router.callback_query.register(handle_button_press)
    return router
