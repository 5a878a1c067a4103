"""Runs and coming firings as an iCalendar feed: the same state gives the same bytes.

An event is called after its schedule and its period, so that it stays the same event when its firing becomes a run, and
when that is answered. What was skipped or cancelled stays in the feed as a cancelled event.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from heapq import merge
from itertools import islice, takewhile
from typing import Any, TypeVar

from icalendar import Alarm, Calendar, Component, Event, vDuration

from duly.apps.scheduler.model import Run, RunStatus, Schedule, Status
from duly.apps.scheduler.plan import Firing, grain_of, read_rule
from duly.apps.scheduler.wallclock import parse_zone
from duly.errors import InvalidArgument

__all__ = ["COMING", "MAX_EVENTS", "PAST", "Appointment", "calendar_of", "coming_firings", "firings_of", "recent_runs"]

MAX_EVENTS = 1000
MAX_PAST_EVENTS = MAX_EVENTS // 2
PAST, COMING = timedelta(days=30), timedelta(days=90)
REFRESH = timedelta(hours=1)
CALLED_OFF = {RunStatus.SKIPPED, RunStatus.CANCELLED}
Part = TypeVar("Part", bound=Component)
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True)
class Appointment:
    """Something else that a person's calendar shows, with a beginning and an end."""

    uid: str
    begins_at: datetime
    ends_at: datetime
    name: str
    place: str
    changed_at: datetime
    is_cancelled: bool = False


# What is shown --------------------------------------------------------------------------------------------------------


def firings_of(schedule: Schedule, after: datetime) -> Iterator[Firing]:
    """The firings of a schedule after an instant, each in its period; InvalidArgument when its rule is none."""
    rule, zone = read_rule(schedule.rule), parse_zone("user.zone", schedule.zone)
    here = rule.zone_for(zone)
    grain = grain_of(schedule.rule, zone.key, schedule.first_run_at.astimezone(here).date())
    advance = timedelta(minutes=schedule.advance_minutes)
    for at in rule.occurrences(schedule.first_run_at, zone, after=after):
        yield Firing(schedule.id, rule.period(at, grain, zone), at, at - advance)


def recent_runs(runs: Sequence[Run], now: datetime) -> Sequence[Run]:
    """Of runs, the latest first, those that the feed shows."""
    return [run for run in runs if run.scheduled_at >= now - PAST][:MAX_PAST_EVENTS]


def coming_firings(schedules: Sequence[Schedule], runs: Sequence[Run], now: datetime, limit: int) -> Sequence[Firing]:
    """The soonest firings of active schedules in periods that have no run yet."""
    taken = {(run.job_id, run.period_key) for run in runs}
    active = [coming_of(each, now) for each in schedules if each.status is Status.ACTIVE]
    soonest = merge(*active, key=lambda firing: (firing.scheduled_at, firing.job_id))
    return list(islice((each for each in soonest if (each.job_id, each.period_key) not in taken), limit))


def coming_of(schedule: Schedule, now: datetime) -> Iterator[Firing]:
    """The firings of a schedule within the time that the feed shows; what is late and has no run is coming still."""
    late = schedule.next_at - timedelta(microseconds=1) if schedule.next_at else now
    try:
        yield from takewhile(
            lambda firing: firing.scheduled_at <= now + COMING, firings_of(schedule, max(min(late, now), now - PAST))
        )
    except InvalidArgument:
        return  # its owner reads in plan_error what is wrong with it


# How it is written ----------------------------------------------------------------------------------------------------


def calendar_of(
    schedules: Sequence[Schedule],
    runs: Sequence[Run],
    firings: Sequence[Firing],
    appointments: Sequence[Appointment] = (),
) -> bytes:
    """The feed: an event for every run, every firing without one, and what else there is; the earliest first."""
    known = {each.id: each for each in schedules}
    events = [(run.scheduled_at, uid_of(run), event_of_run(run, known)) for run in runs]
    events += [
        (firing.scheduled_at, uid_of(firing), event_of_firing(firing, known[firing.job_id])) for firing in firings
    ]
    events += [(each.begins_at, each.uid, event_of_appointment(each)) for each in appointments]
    calendar = with_lines(
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


def event_of_run(run: Run, known: Mapping[int, Schedule]) -> Event:
    """A run; an end, which is final, makes it another revision of the event."""
    schedule = known.get(run.job_id)
    event = with_lines(
        Event(),
        {
            **lines_of(run, run.name, run.updated_at, schedule),
            "status": "CANCELLED" if run.status in CALLED_OFF else "CONFIRMED",
            "sequence": 0 if run.status.is_open else 1,
        },
    )
    if run.status.is_open:
        event.add_component(alarm_of(run.name, schedule.advance_minutes if schedule else 0))
    return event


def event_of_firing(firing: Firing, schedule: Schedule) -> Event:
    """A firing without a run."""
    lines = lines_of(firing, schedule.name, schedule.updated_at, schedule)
    event = with_lines(Event(), {**lines, "status": "CONFIRMED", "sequence": 0})
    event.add_component(alarm_of(schedule.name, schedule.advance_minutes))
    return event


def event_of_appointment(appointment: Appointment) -> Event:
    """Something else; it takes its time, unless it is cancelled."""
    lines: dict[str, object] = {
        "uid": appointment.uid,
        "dtstamp": appointment.changed_at.astimezone(UTC),
        "dtstart": appointment.begins_at.astimezone(UTC),
        "dtend": appointment.ends_at.astimezone(UTC),
        "summary": plain(appointment.name),
        "status": "CANCELLED" if appointment.is_cancelled else "CONFIRMED",
        "sequence": 0,
    }
    if appointment.place:
        lines["location"] = plain(appointment.place)
    if appointment.is_cancelled:
        lines["transp"] = "TRANSPARENT"
    return with_lines(Event(), lines)


def lines_of(what: Run | Firing, name: str, changed_at: datetime, schedule: Schedule | None) -> Mapping[str, object]:
    """What every event says; it takes up no time of anybody's."""
    described = {"description": plain(schedule.description)} if schedule and schedule.description else {}
    return {
        "uid": uid_of(what),
        "dtstamp": changed_at.astimezone(UTC),
        "dtstart": what.scheduled_at.astimezone(UTC),
        "summary": plain(name),
        **described,
        "transp": "TRANSPARENT",
    }


def alarm_of(name: str, advance_minutes: int) -> Alarm:
    """The reminder, as long before as the schedule says."""
    trigger = timedelta(minutes=-advance_minutes)
    return with_lines(Alarm(), {"action": "DISPLAY", "description": plain(name), "trigger": trigger})


def with_lines(component: Part, lines: Mapping[str, object]) -> Part:
    """A part of the calendar with what it says."""
    adding: Any = component  # the library's own method leaves the type of its values open
    for name, value in lines.items():
        adding.add(name, value)
    return component


def uid_of(what: Run | Firing) -> str:
    """What an event is called for good."""
    return f"schedule-{what.job_id}-{what.period_key}@duly"


def plain(text: str) -> str:
    """A text without characters that a reader of lines could take for the end of one."""
    return CONTROLS.sub(" ", text)
