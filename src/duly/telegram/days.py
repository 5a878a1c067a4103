"""The commands /today and /upcoming."""

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from aiogram import Router
from aiogram.filters import Command
from aiogram.types import Message

from duly.accounts import Person
from duly.apps.ingest.shift import is_cancellation_word, shift_from_json
from duly.apps.scheduler import service as scheduler
from duly.apps.scheduler.model import Run, RunStatus, Upcoming
from duly.db.clock import get_current_time
from duly.errors import NotFound
from duly.telegram.messages import translate
from duly.telegram.services import Services

MAX_LINES = 50
MAX_UPCOMING = 10


async def today(message: Message, services: Services, person: Person) -> None:
    """Send the shifts and the reminders of today in the zone of the person."""
    zone = ZoneInfo(person.zone)
    day = (await get_current_time(services.pool)).astimezone(zone).date()
    begins = datetime.combine(day, time(), zone)
    ends = datetime.combine(day + timedelta(days=1), time(), zone)
    owner = person.schedule_owner_id
    runs = (await scheduler.list_runs(services.pool, owner, between=(begins, ends), limit=MAX_LINES)).items
    coming = await scheduler.list_upcoming(services.pool, owner, limit=MAX_LINES)
    planned = [each for each in coming if each.job_run_id is None and begins <= each.scheduled_at < ends]
    lines = [translate(person.language, "today_title", day=day.isoformat()), *await shift_lines(services, person, day)]
    if reminders := sorted(reminder_line(person, each, "%H:%M") for each in (*runs, *planned)):
        lines += ["", translate(person.language, "reminders_title"), *reminders]
    await services.send_message(message.chat.id, "\n".join(lines))


async def upcoming(message: Message, services: Services, person: Person) -> None:
    """Send the next reminders, the soonest first."""
    found = await scheduler.list_upcoming(services.pool, person.schedule_owner_id, limit=MAX_UPCOMING)
    lines = [reminder_line(person, each, "%Y-%m-%d %H:%M") for each in found]
    title = translate(person.language, "upcoming_title" if lines else "upcoming_empty")
    await services.send_message(message.chat.id, "\n".join([title, *lines]))


async def shift_lines(services: Services, person: Person, day: date) -> list[str]:
    """Format the shifts of a day, one line each."""
    assert person.telegram_id is not None, "the person was found by it"
    try:
        known = await services.ingest.days.get_day(person.telegram_id, day)
    except NotFound:
        return [translate(person.language, "day_unknown")]
    return [shift_line(each, person.language) for each in known.snapshot_payload] or [
        translate(person.language, "day_empty")
    ]


def shift_line(document: Mapping[str, Any], language: str) -> str:
    """Format a shift: times, whether it is cancelled, customer or type, and location."""
    shift = shift_from_json(document)
    who = shift.customer_name or shift.raw_type_label or shift.shift_type
    street = f"{shift.street} {shift.street_number}".strip()
    where = ", ".join(part for part in (street, shift.city) if part)
    cancelled = ""
    if shift.is_cancelled:
        cancelled = translate(language, "shift_cancelled")
        who = " ".join(word for word in who.split() if not is_cancellation_word(word))
    return "  ".join(part for part in (f"{shift.start}-{shift.end}", cancelled, who, where) if part)


def reminder_line(person: Person, run: Run | Upcoming, time_format: str) -> str:
    """Format a run: time, name and status."""
    status = f"status_{run.status or RunStatus.PENDING}"
    at = run.scheduled_at.astimezone(ZoneInfo(person.zone))
    return f"{at.strftime(time_format)}  {run.name}: {translate(person.language, status)}"


def router() -> Router:
    """Build the router of these commands."""
    router = Router(name="days")
    router.message.register(today, Command("today"))
    router.message.register(upcoming, Command("upcoming"))
    return router
