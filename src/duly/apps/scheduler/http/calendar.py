"""A person's calendar as an iCalendar feed to subscribe to; its URL contains a secret token instead of an API key.

The token grants reading the feed and nothing else. A new token replaces the old one.
"""

import asyncio
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from hashlib import sha256
from heapq import nsmallest
from itertools import chain
from typing import Annotated
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Header, Path, Request, Response, status
from pydantic import Field

from duly.accounts.service import create_calendar, find_calendar, revoke_calendar
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
from duly.apps.scheduler.http.access import CalendarWriter
from duly.apps.scheduler.model import Run, Schedule
from duly.apps.scheduler.planning import Firing
from duly.apps.scheduler.wallclock import parse_zone, to_instant
from duly.calendar_events import CalendarEvent, CalendarWindow
from duly.db.clock import get_current_time
from duly.errors import InvalidArgument, NotFound, NotMigrated, RateLimited, Unavailable, Unexpected
from duly.http.dependencies import PoolDep
from duly.http.problems import PERSON_PROBLEMS, problem_responses
from duly.http.request_limits import GuardedRoute
from duly.http.types import ResponseModel

CALENDAR_TYPE = "text/calendar"
CACHE_CONTROL = "private, max-age=300"
MAX_PERIOD_LENGTH = timedelta(days=367)  # how old the run of a period with an upcoming firing can be

addresses = APIRouter(prefix="/v1/calendar", tags=["scheduler"], route_class=GuardedRoute, responses=PERSON_PROBLEMS)
feeds = APIRouter(prefix="/ics", tags=["scheduler"])


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
async def create_address(person_id: CalendarWriter, pool: PoolDep, response: Response) -> CalendarAddressResponse:
    """It replaces the old one; needs the scope `scheduler:write`."""
    token = await create_calendar(pool, person_id)
    response.headers["Cache-Control"] = "no-store"
    return CalendarAddressResponse(url=f"/ics/{token}", token=token)


@addresses.delete(
    "",
    operation_id="revoke_calendar",
    summary="Revoke the address of the calendar",
    responses=problem_responses(RateLimited),
)
async def revoke_address(person_id: CalendarWriter, pool: PoolDep) -> CalendarRevokedResponse:
    """Repeating it has no effect; needs the scope `scheduler:write`."""
    return CalendarRevokedResponse(revoked=await revoke_calendar(pool, person_id))


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
    if_none_match: Annotated[str | None, Header(alias="If-None-Match", description="ETag of the cached copy.")] = None,
) -> Response:
    """Runs of the last 30 days, firings of the next 90, and other events of both, as iCalendar; needs no API key."""
    person = await find_calendar(pool, token)
    if person is None:
        raise NotFound("no calendar has this address; it may have been revoked")
    request.state.rate_limiter.acquire(f"calendar:{person.uid}")
    at = await get_current_time(pool)
    schedules = (await service.list_schedules(pool, person.schedule_owner_id, limit=MAX_EVENTS)).items
    runs = await service.list_runs(
        pool, person.schedule_owner_id, between=(at - MAX_PERIOD_LENGTH, at + FEED_FUTURE), limit=MAX_EVENTS
    )
    window = CalendarWindow(at, FEED_PAST, FEED_FUTURE, MAX_EVENTS)
    settings, sources = request.state.settings, request.state.calendar_sources
    events = chain.from_iterable([await list_events(pool, settings, person, window) for list_events in sources])
    appointments = to_appointments(events, parse_zone("user.zone", person.zone))  # a generator, consumed in the thread
    feed = await asyncio.to_thread(render_feed, list(schedules), list(runs.items), appointments, at)
    tag = f'"{sha256(feed).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": CACHE_CONTROL}
    if matches_etag(tag, if_none_match):
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers=headers)
    return Response(feed, headers=headers, media_type=CALENDAR_TYPE)


def to_appointments(events: Iterable[CalendarEvent], zone: ZoneInfo) -> Iterator[Appointment]:
    """Yield events as appointments; one that would not end after its start ends on the next day."""
    for event in events:
        starts_at, ends_at = to_instant(event.starts, zone), to_instant(event.ends, zone)
        yield Appointment(
            uid=event.uid,
            starts_at=starts_at,
            ends_at=ends_at if ends_at > starts_at else ends_at + timedelta(days=1),
            name=event.name,
            location=event.location,
            changed_at=event.changed_at,
            is_cancelled=event.is_cancelled,
        )


def render_feed(schedules: list[Schedule], runs: list[Run], appointments: Iterable[Appointment], at: datetime) -> bytes:
    """Render the feed as of a time, with at most MAX_EVENTS events: those nearest to that time.

    Runs, firings and appointments compete for them alike, past or future.
    """
    recent = recent_runs(runs, at)
    coming = upcoming_firings(schedules, runs, at, MAX_EVENTS - len(recent))
    events = chain[tuple[datetime, str, Run | Firing | Appointment]](
        ((each.scheduled_at, event_uid(each), each) for each in (*recent, *coming)),
        ((each.starts_at, each.uid, each) for each in appointments),
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
