"""A person's calendar as a feed that any calendar program subscribes to: the address is the key.

Whoever knows the address may read the feed, and nothing else. A new address takes the place of the old one.
"""

import asyncio
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Annotated

from fastapi import APIRouter, Header, Path, Request, Response, status
from pydantic import Field

from duly.api.guard import GuardedRoute
from duly.api.kinds import Shown
from duly.api.opened import Opened
from duly.api.problems import refusals
from duly.api.scheduler import ALWAYS, Writer
from duly.errors import InvalidArgument, NotFound, NotMigrated, RateLimited, Unavailable, Unexpected
from duly.ledger.service import now
from duly.people.service import create_calendar, find_calendar, revoke_calendar
from duly.scheduler import service
from duly.scheduler.calendar import COMING, MOST_EVENTS, calendar_of, coming_firings, recent_runs
from duly.scheduler.model import Run, Schedule

__all__ = ["routers"]

CALENDAR = "text/calendar"
CACHE = "private, max-age=300"
LONGEST_PERIOD = timedelta(days=367)  # so far back a run may lie whose period a coming firing is in

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
    known: Annotated[str | None, Header(alias="If-None-Match", description="The ETag of what one has.")] = None,
) -> Response:
    """The runs of the last 30 days and the firings of the next 90, as iCalendar; the address is the key."""
    person = await find_calendar(pool, token)
    if person is None:
        raise NotFound("this address opens no calendar; it may have been revoked")
    request.state.rate.take(f"calendar:{person.uid}")
    at = await now(pool)
    schedules = (await service.list_schedules(pool, person.id, most=MOST_EVENTS)).items
    runs = await service.list_runs(pool, person.id, between=(at - LONGEST_PERIOD, at + COMING), most=MOST_EVENTS)
    feed = await asyncio.to_thread(feed_of, list(schedules), list(runs.items), at)
    tag = f'"{sha256(feed).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": CACHE}
    if is_known(tag, known):
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers=headers)
    return Response(feed, headers=headers, media_type=CALENDAR)


def feed_of(schedules: list[Schedule], runs: list[Run], at: datetime) -> bytes:
    """The feed of somebody who has these, as it is at a time."""
    shown = recent_runs(runs, at)
    return calendar_of(schedules, shown, coming_firings(schedules, runs, at, MOST_EVENTS - len(shown)))


def is_known(tag: str, known: str | None) -> bool:
    """Does somebody who says what they have, have this?"""
    said = [each.strip().removeprefix("W/") for each in (known or "").split(",")]
    return tag in said or "*" in said
