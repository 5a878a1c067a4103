"""The shifts of a person as events of their calendar feed."""

import re
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta

from psycopg import errors

from duly.accounts.model import Person
from duly.apps.ingest.day_history import DayHistory
from duly.apps.ingest.model import DaySnapshot
from duly.apps.ingest.shift import shift_from_json
from duly.calendar_events import CalendarEvent, CalendarWindow
from duly.db.pool import Pool
from duly.settings import Settings

DAYS_PER_QUERY = 14
DISTANCE_ERROR_DAYS = 5  # the date of a day gives the distance of its shifts only roughly: zones, times of day
CLOCK_PATTERN = re.compile(r"([01]\d|2[0-3]):[0-5]\d|24:00")


async def list_events(
    pool: Pool, settings: Settings, person: Person, window: CalendarWindow
) -> Iterator[CalendarEvent]:
    """List the shifts of a person; they are converted while the caller iterates."""
    days = await list_nearest_days(DayHistory(pool, settings.db_schema), person, window)
    return (event for day in days for event in day_events(day))


async def list_nearest_days(history: DayHistory, person: Person, window: CalendarWindow) -> list[DaySnapshot]:
    """List the days of a person's Telegram id, the nearest first, until they have as many shifts as a feed can have.

    Returns nothing when the API may not read the ingest tables.
    """
    if person.telegram_id is None:
        return []
    today, days = window.at.date(), list[DaySnapshot]()
    try:
        for reach in range(0, window.future.days + 1, DAYS_PER_QUERY):  # all days nearer than this are loaded
            near = (day for day in days if abs((day.schedule_date - today).days) <= reach - DISTANCE_ERROR_DAYS)
            if sum(len(day.snapshot_payload) for day in near) >= window.max_events:
                break
            for first, last in date_ranges(today, reach, window):
                days += await history.list_days(person.telegram_id, first, last, limit=DAYS_PER_QUERY)
    except (errors.InsufficientPrivilege, errors.UndefinedTable, errors.UndefinedColumn):
        return []  # the tables belong to a backend
    return days


def date_ranges(today: date, reach: int, window: CalendarWindow) -> Iterator[tuple[date, date]]:
    """Yield the ranges of dates that begin `reach` days ahead and end `reach` days back, within the window."""
    ahead, back = today + timedelta(days=reach), today - timedelta(days=reach + 1)
    more = timedelta(days=DAYS_PER_QUERY - 1)
    for first, last in (
        (ahead, min(ahead + more, (window.at + window.future).date())),
        (max(back - more, (window.at - window.past).date()), back),
    ):
        if first <= last:
            yield first, last


def day_events(day: DaySnapshot) -> Iterator[CalendarEvent]:
    """Yield the shifts of a day; an event keeps its uid while customer and location stay the same."""
    counts = Counter[str]()
    for shift in day.snapshot_payload:
        if not CLOCK_PATTERN.fullmatch(shift["start"]) or not CLOCK_PATTERN.fullmatch(shift["end"]):
            continue
        identity = f"{shift['customer_fingerprint'][:16]}-{shift['location_fingerprint'][:16]}"
        counts[identity] += 1
        street = " ".join(part for part in (shift["street"], shift["street_number"]) if part)
        yield CalendarEvent(
            uid=f"day-{day.schedule_date}-{identity}-{counts[identity]}@duly",
            starts=to_local_time(day.schedule_date, shift["start"]),
            ends=to_local_time(day.schedule_date, shift["end"]),
            name=shift["customer_name"] or shift["raw_type_label"] or shift["shift_type"],
            location=", ".join(part for part in (street, shift["city"] or shift["postal_area"]) if part),
            changed_at=day.updated_at,
            is_cancelled=shift_from_json(shift).is_cancelled,
        )


def to_local_time(day: date, clock: str) -> datetime:
    """Return the local time of a wall clock time on a date."""
    if clock == "24:00":
        return datetime.combine(day + timedelta(days=1), time())
    return datetime.combine(day, time.fromisoformat(clock))
