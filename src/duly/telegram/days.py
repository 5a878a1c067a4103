"""What a person asks of their days: today's schedule and reminders, and what is coming."""

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from aiogram import Router
from aiogram.filters import Command
from aiogram.types import Message

from duly.accounts import User
from duly.apps.ingest import service as ingest
from duly.apps.ingest.shift import is_mark, read_shift
from duly.apps.scheduler import service as scheduler
from duly.apps.scheduler.model import Run, Upcoming
from duly.db.clock import now
from duly.errors import NotFound
from duly.telegram.messages import say
from duly.telegram.services import Desk

__all__ = ["router"]

MAX_LINES = 50
MAX_UPCOMING = 10


async def today(message: Message, desk: Desk, person: User) -> None:
    """The person's day by their own clock: what the schedule says, and every reminder with where it is."""
    zone = ZoneInfo(person.zone)
    day = (await now(desk.pool)).astimezone(zone).date()
    begins = datetime.combine(day, time(), zone)
    ends = datetime.combine(day + timedelta(days=1), time(), zone)
    runs = (await scheduler.list_runs(desk.pool, person.id, between=(begins, ends), limit=MAX_LINES)).items
    coming = await scheduler.list_upcoming(desk.pool, person.id, limit=MAX_LINES)
    planned = [each for each in coming if each.job_run_id is None and begins <= each.scheduled_at < ends]
    lines = [say(person.language, "today", day=day.isoformat()), *await schedule_of(desk, person, day)]
    if told := sorted(reminder_line(person, each, "%H:%M") for each in (*runs, *planned)):
        lines += ["", say(person.language, "runs"), *told]
    await desk.tell(message.chat.id, "\n".join(lines))


async def upcoming(message: Message, desk: Desk, person: User) -> None:
    """The next reminders, the soonest first."""
    found = await scheduler.list_upcoming(desk.pool, person.id, limit=MAX_UPCOMING)
    lines = [reminder_line(person, each, "%Y-%m-%d %H:%M") for each in found]
    title = say(person.language, "upcoming" if lines else "nothing")
    await desk.tell(message.chat.id, "\n".join([title, *lines]))


async def schedule_of(desk: Desk, person: User, day: date) -> list[str]:
    """The shifts of a day, a line each."""
    assert person.telegram_id is not None, "they write from there"
    try:
        known = await ingest.get_day(desk.pool, desk.schema, person.telegram_id, day)
    except NotFound:
        return [say(person.language, "no day")]
    return [shift_line(each, person.language) for each in known.snapshot_payload] or [say(person.language, "free day")]


def shift_line(document: Mapping[str, Any], language: str) -> str:
    """When, whether it is cancelled, who or what, and where."""
    shift = read_shift(document)
    who = shift.customer_name or shift.raw_type_label or shift.shift_type
    street = f"{shift.street} {shift.street_number}".strip()
    where = ", ".join(part for part in (street, shift.city) if part)
    cancelled = ""
    if shift.is_cancelled:
        cancelled = say(language, "shift cancelled")
        who = " ".join(word for word in who.split() if not is_mark(word))
    return "  ".join(part for part in (f"{shift.start}-{shift.end}", cancelled, who, where) if part)


def reminder_line(person: User, each: Run | Upcoming, form: str) -> str:
    """When, what, and where it is."""
    at = each.scheduled_at.astimezone(ZoneInfo(person.zone))
    return f"{at.strftime(form)}  {each.name}: {say(person.language, each.status or 'pending')}"


def router() -> Router:
    """Who tells of days."""
    router = Router(name="days")
    router.message.register(today, Command("today"))
    router.message.register(upcoming, Command("upcoming"))
    return router
