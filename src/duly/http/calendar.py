"""A person's calendar as an iCalendar feed to subscribe to; its URL contains a secret token instead of an API key.

The token grants reading the feed and nothing else. A new token replaces the old one.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from hashlib import sha256
from heapq import nsmallest
from itertools import chain
from typing import Annotated
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Header, Path, Request, Response, status
from psycopg import errors
from pydantic import Field

from duly.accounts.model import User
from duly.accounts.service import create_calendar, find_calendar, revoke_calendar
from duly.apps.ingest.day_history import DayHistory
from duly.apps.ingest.model import DaySnapshot
from duly.apps.ingest.shift import shift_from_json
from duly.apps.scheduler import service
from duly.apps.scheduler.calendar import (
    FEED_FUTURE,
    FEED_PAST,
    MAX_EVENTS,
    Appointment,
    event_uid,
    recent_runs,
    render_calendar,
    upcoming_firings,
)
from duly.apps.scheduler.model import Run, Schedule
from duly.apps.scheduler.planning import Firing
from duly.apps.scheduler.wallclock import parse_zone, to_instant
from duly.db.clock import get_current_time
from duly.errors import InvalidArgument, NotFound, NotMigrated, RateLimited, Unavailable, Unexpected
from duly.http.dependencies import PoolDep, SchemaDep
from duly.http.problems import problem_responses
from duly.http.request_limits import GuardedRoute
from duly.http.scheduler import COMMON_PROBLEMS, Writer
from duly.http.types import ResponseModel

CALENDAR_TYPE = "text/calendar"
DAYS_PER_QUERY = 14
DISTANCE_ERROR_DAYS = 5  # the date of a day gives the distance of its shifts only roughly: zones, times of day
CLOCK_PATTERN = re.compile(r"([01]\d|2[0-3]):[0-5]\d|24:00")
CACHE_CONTROL = "private, max-age=300"
MAX_PERIOD_LENGTH = timedelta(days=367)  # how old the run of a period with an upcoming firing can be

addresses = APIRouter(prefix="/v1/calendar", tags=["scheduler"], route_class=GuardedRoute, responses=COMMON_PROBLEMS)
feeds = APIRouter(prefix="/ics", tags=["scheduler"])
routers = (addresses, feeds)


class CalendarAddressResponse(ResponseModel):
    """The address of a calendar; shown only once."""

    url: str = Field(description="The path of the feed on this server.", examples=["/ics/..."])
    token: str = Field(description="The secret part of the URL: it grants reading the calendar.")


class CalendarRevokedResponse(ResponseModel):
    """Whether there was an address to revoke."""

    revoked: bool


@addresses.post(
    "",
    operation_id="create_calendar",
    summary="Create a new address of the calendar",
    status_code=status.HTTP_201_CREATED,
    responses=problem_responses(RateLimited),
)
async def create_address(user_id: Writer, pool: PoolDep, response: Response) -> CalendarAddressResponse:
    """It replaces the old one; needs the scope `scheduler:write`."""
    token = await create_calendar(pool, user_id)
    response.headers["Cache-Control"] = "no-store"
    return CalendarAddressResponse(url=f"/ics/{token}", token=token)


@addresses.delete(
    "",
    operation_id="revoke_calendar",
    summary="Revoke the address of the calendar",
    responses=problem_responses(RateLimited),
)
async def revoke_address(user_id: Writer, pool: PoolDep) -> CalendarRevokedResponse:
    """Repeating it has no effect; needs the scope `scheduler:write`."""
    return CalendarRevokedResponse(revoked=await revoke_calendar(pool, user_id))


@feeds.get(
    "/{token}",
    operation_id="get_calendar",
    summary="Get a calendar",
    response_class=Response,
    responses={
        status.HTTP_200_OK: {"content": {CALENDAR_TYPE: {"schema": {"type": "string"}}}},
        status.HTTP_304_NOT_MODIFIED: {"description": "Unchanged."},
        **problem_responses(NotFound, InvalidArgument, RateLimited, Unexpected, NotMigrated, Unavailable),
    },
)
async def get_calendar(
    request: Request,
    token: Annotated[str, Path(description="`token` of `POST /v1/calendar`.")],
    pool: PoolDep,
    schema: SchemaDep,
    if_none_match: Annotated[str | None, Header(alias="If-None-Match", description="ETag of the cached copy.")] = None,
) -> Response:
    """Runs and days of the last 30 days, firings and days of the next 90, as iCalendar; needs no API key."""
    person = await find_calendar(pool, token)
    if person is None:
        raise NotFound("no calendar has this address; it may have been revoked")
    request.state.rate_limiter.acquire(f"calendar:{person.uid}")
    at = await get_current_time(pool)
    schedules = (await service.list_schedules(pool, person.id, limit=MAX_EVENTS)).items
    runs = await service.list_runs(
        pool, person.id, between=(at - MAX_PERIOD_LENGTH, at + FEED_FUTURE), limit=MAX_EVENTS
    )
    days = await list_nearest_days(DayHistory(pool, schema), person, at)
    shifts = shift_appointments(days, person.zone)  # a generator, consumed in the thread
    feed = await asyncio.to_thread(render_feed, list(schedules), list(runs.items), shifts, at)
    tag = f'"{sha256(feed).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": CACHE_CONTROL}
    if matches_etag(tag, if_none_match):
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers=headers)
    return Response(feed, headers=headers, media_type=CALENDAR_TYPE)


async def list_nearest_days(history: DayHistory, person: User, at: datetime) -> list[DaySnapshot]:
    """List the days of a person's Telegram id, the nearest first, until they have as many shifts as a feed can have.

    Returns nothing when the API may not read the ingest tables.
    """
    if person.telegram_id is None:
        return []
    today, days = at.date(), list[DaySnapshot]()
    try:
        for reach in range(0, FEED_FUTURE.days + 1, DAYS_PER_QUERY):  # all days nearer than this are loaded
            near = (day for day in days if abs((day.schedule_date - today).days) <= reach - DISTANCE_ERROR_DAYS)
            if sum(len(day.snapshot_payload) for day in near) >= MAX_EVENTS:
                break
            for first, last in date_ranges(today, reach, at):
                days += await history.list_days(person.telegram_id, first, last, limit=DAYS_PER_QUERY)
    except (errors.InsufficientPrivilege, errors.UndefinedTable, errors.UndefinedColumn):
        return []  # the tables belong to a backend
    return days


def date_ranges(today: date, reach: int, at: datetime) -> Iterator[tuple[date, date]]:
    """Yield the ranges of dates that begin `reach` days ahead and end `reach` days back, within the feed's period."""
    ahead, back = today + timedelta(days=reach), today - timedelta(days=reach + 1)
    more = timedelta(days=DAYS_PER_QUERY - 1)
    for first, last in (
        (ahead, min(ahead + more, (at + FEED_FUTURE).date())),
        (max(back - more, (at - FEED_PAST).date()), back),
    ):
        if first <= last:
            yield first, last


def shift_appointments(days: Sequence[DaySnapshot], zone: str) -> Iterator[Appointment]:
    """Yield the shifts of several days as appointments."""
    user_zone = parse_zone("user.zone", zone)
    for day in days:
        yield from day_appointments(day, user_zone)


def day_appointments(day: DaySnapshot, zone: ZoneInfo) -> Iterator[Appointment]:
    """Yield the shifts of a day; an appointment keeps its uid while customer and location stay the same."""
    counts = Counter[str]()
    for shift in day.snapshot_payload:
        if not CLOCK_PATTERN.fullmatch(shift["start"]) or not CLOCK_PATTERN.fullmatch(shift["end"]):
            continue
        identity = f"{shift['customer_fingerprint'][:16]}-{shift['location_fingerprint'][:16]}"
        counts[identity] += 1
        starts_at = clock_to_instant(day.schedule_date, shift["start"], zone)
        ends_at = clock_to_instant(day.schedule_date, shift["end"], zone)
        street = " ".join(part for part in (shift["street"], shift["street_number"]) if part)
        yield Appointment(
            uid=f"day-{day.schedule_date}-{identity}-{counts[identity]}@duly",
            starts_at=starts_at,
            ends_at=ends_at if ends_at > starts_at else ends_at + timedelta(days=1),
            name=shift["customer_name"] or shift["raw_type_label"] or shift["shift_type"],
            location=", ".join(part for part in (street, shift["city"] or shift["postal_area"]) if part),
            changed_at=day.updated_at,
            is_cancelled=shift_from_json(shift).is_cancelled,
        )


def clock_to_instant(day: date, clock: str, zone: ZoneInfo) -> datetime:
    """Return the instant of a wall clock time on a date."""
    if clock == "24:00":
        return to_instant(datetime.combine(day + timedelta(days=1), time()), zone)
    return to_instant(datetime.combine(day, time.fromisoformat(clock)), zone)


def render_feed(schedules: list[Schedule], runs: list[Run], shifts: Iterable[Appointment], at: datetime) -> bytes:
    """Render the feed as of a time, with at most MAX_EVENTS events: those nearest to that time.

    Runs, firings and shifts compete for them alike, past or future.
    """
    recent = recent_runs(runs, at)
    coming = upcoming_firings(schedules, runs, at, MAX_EVENTS - len(recent))
    events = chain[tuple[datetime, str, Run | Firing | Appointment]](
        ((each.scheduled_at, event_uid(each), each) for each in (*recent, *coming)),
        ((each.starts_at, each.uid, each) for each in shifts),
    )
    kept = [each for _, _, each in nsmallest(MAX_EVENTS, events, key=lambda event: (abs(event[0] - at), event[1]))]
    return render_calendar(
        schedules,
        [each for each in kept if isinstance(each, Run)],
        [each for each in kept if isinstance(each, Firing)],
        [each for each in kept if isinstance(each, Appointment)],
    )


def matches_etag(tag: str, if_none_match: str | None) -> bool:
    """Return whether an If-None-Match header names this ETag."""
    cached = [each.strip().removeprefix("W/") for each in (if_none_match or "").split(",")]
    return tag in cached or "*" in cached
