"""The access rules of the scheduler, and the parameters that its routes share."""

from typing import Annotated, Any, TypeAlias

from fastapi import Depends, Header, Path, Request, Response, status

from duly.accounts import Person
from duly.accounts.service import require_person
from duly.apps.scheduler.model import MAX_ID, MAX_KEY_LENGTH
from duly.apps.scheduler.service import require_user_id
from duly.http.auth import PersonAccessRule, require_uid
from duly.outcomes import Creation, Existing

READ, WRITE = "scheduler:read", "scheduler:write"


@PersonAccessRule
async def scheduler_reader(request: Request) -> int:
    """Return the id of the user whose schedules are read."""
    return require_user_id(await require_person(request.state.pool, require_uid(request, READ, "schedules")))


@PersonAccessRule
async def scheduler_writer(request: Request) -> int:
    """Return the id of the user whose schedules are changed or answered; raises RateLimited."""
    return require_user_id(await get_writing_person(request))


@PersonAccessRule
async def calendar_writer(request: Request) -> int:
    """Return the id of the person whose calendar gets or loses its address; raises RateLimited."""
    return (await get_writing_person(request)).id


async def get_writing_person(request: Request) -> Person:
    """Return the person whose data is changed; raises RateLimited."""
    uid = require_uid(request, WRITE, "schedules")
    request.state.rate_limiter.acquire(uid)
    return await require_person(request.state.pool, uid)


async def get_reversal_seconds(request: Request) -> float:
    """Return for how long an expense can be reversed."""
    return request.state.settings.scheduler_reversal_seconds


Reader: TypeAlias = Annotated[int, Depends(scheduler_reader)]
Writer: TypeAlias = Annotated[int, Depends(scheduler_writer)]
CalendarWriter: TypeAlias = Annotated[int, Depends(calendar_writer)]
ReversalSeconds: TypeAlias = Annotated[float, Depends(get_reversal_seconds)]
ScheduleId: TypeAlias = Annotated[int, Path(ge=1, le=MAX_ID, description="The schedule's id.")]
RunId: TypeAlias = Annotated[int, Path(ge=1, le=MAX_ID, description="The run's id.")]
IdempotencyKey: TypeAlias = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=MAX_KEY_LENGTH,
        description="The same request under the same key has one effect; another request under it is an error.",
    ),
]


def set_creation_headers(response: Response, creation: Creation[Any], location: str | None = None) -> None:
    """Set status 200 for an existing resource, and its Location."""
    if isinstance(creation, Existing):
        response.status_code = status.HTTP_200_OK
    if location:
        response.headers["Location"] = location
