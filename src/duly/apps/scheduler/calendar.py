"""Runs and upcoming firings as an iCalendar feed; the same state gives the same bytes.

The uid of an event consists of its schedule and its period, so that it stays the same event when its firing becomes a
run, and when that is answered. Skipped and cancelled runs stay in the feed as cancelled events.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from heapq import merge
from itertools import islice, takewhile
from typing import Any, TypeVar

from icalendar import Alarm, Calendar, Component, Event, vDuration

from duly.apps.scheduler.model import Run, RunStatus, Schedule, ScheduleStatus
from duly.apps.scheduler.planning import Firing, schedule_firings
from duly.errors import InvalidArgument

MAX_EVENTS = 1000
MAX_PAST_EVENTS = MAX_EVENTS // 2
FEED_PAST, FEED_FUTURE = timedelta(days=30), timedelta(days=90)
REFRESH = timedelta(hours=1)
SHOWN_AS_CANCELLED = {RunStatus.SKIPPED, RunStatus.CANCELLED}
ComponentT = TypeVar("ComponentT", bound=Component)
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True)
class Appointment:
    """Another event of a user's calendar, with a start and an end."""

    uid: str
    starts_at: datetime
    ends_at: datetime
    name: str
    location: str
    changed_at: datetime
    is_cancelled: bool = False


# Selection ------------------------------------------------------------------------------------------------------------


def recent_runs(runs: Sequence[Run], now: datetime) -> Sequence[Run]:
    """Return the runs that the feed contains; `runs` has the latest first."""
    return [run for run in runs if run.scheduled_at >= now - FEED_PAST][:MAX_PAST_EVENTS]


def upcoming_firings(schedules: Sequence[Schedule], runs: Sequence[Run], now: datetime, limit: int) -> Sequence[Firing]:
    """Return the soonest firings of active schedules in periods that have no run yet."""
    taken = {(run.schedule_id, run.period_key) for run in runs}
    active = [firings_in_feed(each, now) for each in schedules if each.status is ScheduleStatus.ACTIVE]
    soonest = merge(*active, key=lambda firing: (firing.scheduled_at, firing.schedule_id))
    return list(islice((each for each in soonest if (each.schedule_id, each.period_key) not in taken), limit))


def firings_in_feed(schedule: Schedule, now: datetime) -> Iterator[Firing]:
    """Yield the firings of a schedule within the time of the feed, including past ones that have no run yet."""
    before_next = schedule.next_at - timedelta(microseconds=1) if schedule.next_at else now
    after = max(min(before_next, now), now - FEED_PAST)
    firings = schedule_firings(schedule, after)
    try:
        yield from takewhile(lambda firing: firing.scheduled_at <= now + FEED_FUTURE, firings)
    except InvalidArgument:
        return  # plan_error tells the user what is wrong


# Rendering ------------------------------------------------------------------------------------------------------------


def render_calendar(
    schedules: Sequence[Schedule],
    runs: Sequence[Run],
    firings: Sequence[Firing],
    appointments: Sequence[Appointment] = (),
) -> bytes:
    """Render the feed: an event for every run, firing and appointment, the earliest first."""
    known = {each.id: each for each in schedules}
    events = [(run.scheduled_at, event_uid(run), run_to_event(run, known)) for run in runs]
    events += [
        (firing.scheduled_at, event_uid(firing), firing_to_event(firing, known[firing.schedule_id]))
        for firing in firings
    ]
    events += [(each.starts_at, each.uid, appointment_to_event(each)) for each in appointments]
    calendar = with_properties(
        Calendar(),
        {
            "prodid": "-//duly//scheduler//EN",
            "version": "2.0",
            "method": "PUBLISH",
            "x-wr-calname": "duly",
            "refresh-interval": vDuration(REFRESH, {"VALUE": "DURATION"}),
            "x-published-ttl": vDuration(REFRESH),
        },
    )
    for _, _, event in sorted(events, key=lambda each: each[:2]):
        calendar.add_component(event)
    return calendar.to_ical()


def run_to_event(run: Run, known: Mapping[int, Schedule]) -> Event:
    """Return the event of a run; a closed run is a new revision of the event."""
    schedule = known.get(run.schedule_id)
    event = with_properties(
        Event(),
        {
            **event_properties(run, run.name, run.updated_at, schedule),
            "status": "CANCELLED" if run.status in SHOWN_AS_CANCELLED else "CONFIRMED",
            "sequence": 0 if run.status.is_open else 1,
        },
    )
    if run.status.is_open:
        event.add_component(build_alarm(run.name, schedule.advance_minutes if schedule else 0))
    return event


def firing_to_event(firing: Firing, schedule: Schedule) -> Event:
    """Return the event of a firing without a run."""
    properties = event_properties(firing, schedule.name, schedule.updated_at, schedule)
    event = with_properties(Event(), {**properties, "status": "CONFIRMED", "sequence": 0})
    event.add_component(build_alarm(schedule.name, schedule.advance_minutes))
    return event


def appointment_to_event(appointment: Appointment) -> Event:
    """Return the event of an appointment; it blocks its time, unless it is cancelled."""
    properties: dict[str, object] = {
        "uid": appointment.uid,
        "dtstamp": appointment.changed_at.astimezone(UTC),
        "dtstart": appointment.starts_at.astimezone(UTC),
        "dtend": appointment.ends_at.astimezone(UTC),
        "summary": strip_controls(appointment.name),
        "status": "CANCELLED" if appointment.is_cancelled else "CONFIRMED",
        "sequence": 0,
    }
    if appointment.location:
        properties["location"] = strip_controls(appointment.location)
    if appointment.is_cancelled:
        properties["transp"] = "TRANSPARENT"
    return with_properties(Event(), properties)


def event_properties(
    source: Run | Firing, name: str, changed_at: datetime, schedule: Schedule | None
) -> Mapping[str, object]:
    """Return the properties that the events of runs and firings share; such events block no time."""
    description = {"description": strip_controls(schedule.description)} if schedule and schedule.description else {}
    return {
        "uid": event_uid(source),
        "dtstamp": changed_at.astimezone(UTC),
        "dtstart": source.scheduled_at.astimezone(UTC),
        "summary": strip_controls(name),
        **description,
        "transp": "TRANSPARENT",
    }


def build_alarm(name: str, advance_minutes: int) -> Alarm:
    """Return the alarm, as long before the event as the schedule's reminder."""
    trigger = timedelta(minutes=-advance_minutes)
    return with_properties(Alarm(), {"action": "DISPLAY", "description": strip_controls(name), "trigger": trigger})


def with_properties(component: ComponentT, properties: Mapping[str, object]) -> ComponentT:
    """Return the component with these properties added."""
    untyped: Any = component  # the method of the library has untyped values
    for name, value in properties.items():
        untyped.add(name, value)
    return component


def event_uid(source: Run | Firing) -> str:
    """Return the permanent uid of an event."""
    return f"schedule-{source.schedule_id}-{source.period_key}@duly"


def strip_controls(text: str) -> str:
    """Replace characters that calendar programs could take for a line break."""
    return CONTROLS.sub(" ", text)
