"""A person's calendar as a feed that any calendar program subscribes to: the address is the key.

Whoever knows the address may read the feed, and nothing else. A new address takes the place of the old one.
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
from duly.apps.ingest.model import KnownDay
from duly.apps.ingest.service import list_days
from duly.apps.ingest.shift import read_shift
from duly.apps.scheduler import service
from duly.apps.scheduler.calendar import (
    COMING,
    MAX_EVENTS,
    PAST,
    Appointment,
    calendar_of,
    coming_firings,
    recent_runs,
    uid_of,
)
from duly.apps.scheduler.model import Run, Schedule
from duly.apps.scheduler.plan import Firing
from duly.apps.scheduler.wallclock import instant_of, parse_zone
from duly.db.clock import now
from duly.db.pool import Pool
from duly.errors import InvalidArgument, NotFound, NotMigrated, RateLimited, Unavailable, Unexpected
from duly.http.dependencies import Opened, Schema
from duly.http.problems import refusals
from duly.http.request_limits import GuardedRoute
from duly.http.scheduler import ALWAYS, Writer
from duly.http.types import Shown

__all__ = ["routers"]

CALENDAR = "text/calendar"
DAYS_AT_ONCE = 14
BLURRED_DAYS = 5  # how far a day's shifts are is not told by its date alone: there are zones, and times of day
CLOCK = re.compile(r"([01]\d|2[0-3]):[0-5]\d|24:00")
CACHE = "private, max-age=300"
MAX_PERIOD_LENGTH = timedelta(days=367)  # so far back a run may lie whose period a coming firing is in

addresses = APIRouter(prefix="/v1/calendar", tags=["scheduler"], route_class=GuardedRoute, responses=ALWAYS)
feeds = APIRouter(prefix="/ics", tags=["scheduler"])
routers = (addresses, feeds)


class CalendarAddress(Shown):
    """Where a calendar is read; this is shown once."""

    url: str = Field(description="The path of the feed on this server.", examples=["/ics/..."])
    token: str = Field(description="What opens it: whoever has it reads the calendar.")


class RevokedCalendar(Shown):
    """Whether there was an address."""

    revoked: bool


@addresses.post(
    "",
    operation_id="create_calendar",
    summary="Give the calendar a new address",
    status_code=status.HTTP_201_CREATED,
    responses=refusals(RateLimited),
)
async def new_address(user_id: Writer, pool: Opened, response: Response) -> CalendarAddress:
    """The old one opens nothing from now on; needs the scope `scheduler:write`."""
    token = await create_calendar(pool, user_id)
    response.headers["Cache-Control"] = "no-store"
    return CalendarAddress(url=f"/ics/{token}", token=token)


@addresses.delete(
    "",
    operation_id="revoke_calendar",
    summary="Take the calendar's address back",
    responses=refusals(RateLimited),
)
async def no_address(user_id: Writer, pool: Opened) -> RevokedCalendar:
    """Doing it twice is doing it once; needs the scope `scheduler:write`."""
    return RevokedCalendar(revoked=await revoke_calendar(pool, user_id))


@feeds.get(
    "/{token}",
    operation_id="get_calendar",
    summary="Read a calendar",
    response_class=Response,
    responses={
        status.HTTP_200_OK: {"content": {CALENDAR: {"schema": {"type": "string"}}}},
        status.HTTP_304_NOT_MODIFIED: {"description": "It is as it was."},
        **refusals(NotFound, InvalidArgument, RateLimited, Unexpected, NotMigrated, Unavailable),
    },
)
async def get_calendar(
    request: Request,
    token: Annotated[str, Path(description="What `POST /v1/calendar` answered.")],
    pool: Opened,
    schema: Schema,
    known: Annotated[str | None, Header(alias="If-None-Match", description="The ETag of what one has.")] = None,
) -> Response:
    """Runs and days of the last 30 days, firings and days of the next 90, as iCalendar; the address is the key."""
    person = await find_calendar(pool, token)
    if person is None:
        raise NotFound("this address opens no calendar; it may have been revoked")
    request.state.rate.take(f"calendar:{person.uid}")
    at = await now(pool)
    schedules = (await service.list_schedules(pool, person.id, limit=MAX_EVENTS)).items
    runs = await service.list_runs(pool, person.id, between=(at - MAX_PERIOD_LENGTH, at + COMING), limit=MAX_EVENTS)
    days = await days_of(pool, schema, person, at)
    shifts = shifts_of_days(days, person.zone)  # worked out in the thread, not here
    feed = await asyncio.to_thread(feed_of, list(schedules), list(runs.items), shifts, at)
    tag = f'"{sha256(feed).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": CACHE}
    if is_known(tag, known):
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers=headers)
    return Response(feed, headers=headers, media_type=CALENDAR)


async def days_of(pool: Pool, schema: str, person: User, at: datetime) -> list[KnownDay]:
    """A person's days, as far as they are known under their Telegram id and we may read them.

    The nearest are read first, and no others once these alone have as many shifts as a feed has room for.
    """
    if person.telegram_id is None:
        return []
    today, days = at.date(), list[KnownDay]()
    try:
        for reach in range(0, COMING.days + 1, DAYS_AT_ONCE):  # whatever is nearer than this was read
            near = (day for day in days if abs((day.schedule_date - today).days) <= reach - BLURRED_DAYS)
            if sum(len(day.snapshot_payload) for day in near) >= MAX_EVENTS:
                break
            for first, last in around(today, reach, at):
                days += await list_days(pool, schema, person.telegram_id, first, last, limit=DAYS_AT_ONCE)
    except (errors.InsufficientPrivilege, errors.UndefinedTable, errors.UndefinedColumn):
        return []  # a backend's own tables
    return days


def around(today: date, reach: int, at: datetime) -> Iterator[tuple[date, date]]:
    """The next days from so far ahead on, and as many from so far back, as far as the feed shows them."""
    ahead, back = today + timedelta(days=reach), today - timedelta(days=reach + 1)
    more = timedelta(days=DAYS_AT_ONCE - 1)
    for first, last in ((ahead, min(ahead + more, (at + COMING).date())), (max(back - more, (at - PAST).date()), back)):
        if first <= last:
            yield first, last


def shifts_of_days(days: Sequence[KnownDay], zone: str) -> Iterator[Appointment]:
    """The shifts of a person's days."""
    here = parse_zone("user.zone", zone)
    for day in days:
        yield from shifts_of(day, here)


def shifts_of(day: KnownDay, zone: ZoneInfo) -> Iterator[Appointment]:
    """The shifts of a day as appointments; one keeps its name while its customer and place stay the same."""
    seen = Counter[str]()
    for shift in day.snapshot_payload:
        if not CLOCK.fullmatch(shift["start"]) or not CLOCK.fullmatch(shift["end"]):
            continue
        whom = f"{shift['customer_fingerprint'][:16]}-{shift['location_fingerprint'][:16]}"
        seen[whom] += 1
        begins_at = at_clock(day.schedule_date, shift["start"], zone)
        ends_at = at_clock(day.schedule_date, shift["end"], zone)
        street = " ".join(part for part in (shift["street"], shift["street_number"]) if part)
        yield Appointment(
            uid=f"day-{day.schedule_date}-{whom}-{seen[whom]}@duly",
            begins_at=begins_at,
            ends_at=ends_at if ends_at > begins_at else ends_at + timedelta(days=1),
            name=shift["customer_name"] or shift["raw_type_label"] or shift["shift_type"],
            place=", ".join(part for part in (street, shift["city"] or shift["postal_area"]) if part),
            changed_at=day.updated_at,
            is_cancelled=read_shift(shift).is_cancelled,
        )


def at_clock(day: date, clock: str, zone: ZoneInfo) -> datetime:
    """The instant at which a person's clock shows this on a day."""
    if clock == "24:00":
        return instant_of(datetime.combine(day + timedelta(days=1), time()), zone)
    return instant_of(datetime.combine(day, time.fromisoformat(clock)), zone)


def feed_of(schedules: list[Schedule], runs: list[Run], shifts: Iterable[Appointment], at: datetime) -> bytes:
    """The feed of somebody who has these, as it is at a time: at most MOST_EVENTS events, whatever they are.

    Of more than that the farthest from the time leave first, be they runs, firings or shifts, past or to come.
    """
    recent = recent_runs(runs, at)
    coming = coming_firings(schedules, runs, at, MAX_EVENTS - len(recent))
    events = chain[tuple[datetime, str, Run | Firing | Appointment]](
        ((each.scheduled_at, uid_of(each), each) for each in (*recent, *coming)),
        ((each.begins_at, each.uid, each) for each in shifts),
    )
    kept = [each for _, _, each in nsmallest(MAX_EVENTS, events, key=lambda event: (abs(event[0] - at), event[1]))]
    return calendar_of(
        schedules,
        [each for each in kept if isinstance(each, Run)],
        [each for each in kept if isinstance(each, Firing)],
        [each for each in kept if isinstance(each, Appointment)],
    )


def is_known(tag: str, known: str | None) -> bool:
    """Does somebody who says what they have, have this?"""
    said = [each.strip().removeprefix("W/") for each in (known or "").split(",")]
    return tag in said or "*" in said
