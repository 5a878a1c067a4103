"""The routes of days, which belong to the person of the API key and are stored under their Telegram id."""

from datetime import date
from typing import Annotated, TypeAlias

from fastapi import APIRouter, Path
from pydantic import BeforeValidator

from duly.apps.ingest.http.access import IngestDep, Pages, Reader
from duly.apps.ingest.http.models import DayEventPage, DayResponse, DayVersionPage, DayVersionResponse, NotificationPage
from duly.apps.ingest.spelling import parse_date
from duly.errors import InvalidArgument
from duly.http.problems import PERSON_PROBLEMS
from duly.http.request_limits import GuardedRoute

days = APIRouter(prefix="/v1/ingest/days", tags=["ingest"], route_class=GuardedRoute, responses=PERSON_PROBLEMS)


def check_written_date(value: object) -> object:
    """Parse a date that is written out; a number is not one."""
    try:
        return value if isinstance(value, date) else parse_date("date", str(value))
    except InvalidArgument as error:
        raise ValueError(str(error).removeprefix("date: ")) from None


Day: TypeAlias = Annotated[
    date, BeforeValidator(check_written_date), Path(alias="date", description="The date, such as 2026-02-10.")
]


@days.get("/{date}", operation_id="get_day", summary="Show a day")
async def get_day(day: Day, user_id: Reader, ingest: IngestDep) -> DayResponse:
    """Its current version; needs the scope `ingest:read`."""
    return DayResponse.model_validate(await ingest.days.get_day(user_id, day))


@days.get("/{date}/versions", operation_id="list_day_versions", summary="List the versions of a day")
async def list_day_versions(day: Day, query: Pages, user_id: Reader, ingest: IngestDep) -> DayVersionPage:
    """In order, without payloads; needs the scope `ingest:read`."""
    page = await ingest.days.list_versions(user_id, day, cursor=query.next, limit=query.limit)
    return DayVersionPage.model_validate(page)


@days.get("/{date}/versions/{version}", operation_id="get_day_version", summary="Show a version of a day")
async def get_day_version(
    day: Day,
    version: Annotated[int, Path(ge=1, le=2**31 - 1, description="The number of the version.")],
    user_id: Reader,
    ingest: IngestDep,
) -> DayVersionResponse:
    """With its payload; needs the scope `ingest:read`."""
    return DayVersionResponse.model_validate(await ingest.days.get_version(user_id, day, version))


@days.get("/{date}/events", operation_id="list_day_events", summary="List the changes of a day")
async def list_day_events(day: Day, query: Pages, user_id: Reader, ingest: IngestDep) -> DayEventPage:
    """Shift by shift, in order; needs the scope `ingest:read`."""
    page = await ingest.days.list_events(user_id, day, cursor=query.next, limit=query.limit)
    return DayEventPage.model_validate(page)


@days.get("/{date}/notifications", operation_id="list_day_notifications", summary="List the messages about a day")
async def list_day_notifications(day: Day, query: Pages, user_id: Reader, ingest: IngestDep) -> NotificationPage:
    """Sent or pending, in the order of delivery; needs the scope `ingest:read`."""
    page = await ingest.days.list_notifications(user_id, day, cursor=query.next, limit=query.limit)
    return NotificationPage.model_validate(page)
