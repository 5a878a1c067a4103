"""The routes of ingest: translate, call the service, translate back.

Sessions and days belong to the person whose key came with the request, and are kept under that person's Telegram id.
Another person's session is not there.
"""

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, TypeAlias
from uuid import UUID

from fastapi import APIRouter, Body, Depends, Path, Query, Request, Response, status
from pydantic import BeforeValidator, Field

from duly.accounts.service import find_person
from duly.apps.ingest import service
from duly.apps.ingest.model import Session
from duly.apps.ingest.spelling import read_date
from duly.db.pool import Pool
from duly.errors import (
    Forbidden,
    IllegalMove,
    InvalidArgument,
    NotFound,
    NotMigrated,
    RateLimited,
    TooLarge,
    Unauthorized,
    Unavailable,
    Unexpected,
)
from duly.executors.images import clean
from duly.http.auth import bringer_of_days, reader_of_days
from duly.http.dependencies import Decoders, Kept, Opened, Schema
from duly.http.job_models import Payload
from duly.http.multipart import OVERHEAD_BYTES, file_in
from duly.http.problems import refusals
from duly.http.request_limits import GuardedRoute, ImageRoute
from duly.http.types import Asked, Instant, PageQuery, Shown
from duly.storage.photo import MAX_PHOTO_BYTES, clean_screenshot

__all__ = ["routers"]

ALWAYS = refusals(Unauthorized, Forbidden, NotFound, TooLarge, InvalidArgument, Unexpected, NotMigrated, Unavailable)
FIELD = "file"


class FormRoute(ImageRoute):
    """A route that takes a photograph in a form."""

    max_bytes = MAX_PHOTO_BYTES + OVERHEAD_BYTES


sessions = APIRouter(prefix="/v1/ingest/sessions", tags=["ingest"], route_class=GuardedRoute, responses=ALWAYS)
images = APIRouter(prefix="/v1/ingest/sessions", tags=["ingest"], route_class=FormRoute, responses=ALWAYS)
days = APIRouter(prefix="/v1/ingest/days", tags=["ingest"], route_class=GuardedRoute, responses=ALWAYS)
routers = (sessions, images, days)


async def telegram_id_of(pool: Pool, uid: str) -> int:
    """The number under which a person's days are kept."""
    person = await find_person(pool, uid)
    if person is None:
        raise NotFound(f"there is nobody called {uid}; make them with: duly users create {uid} --telegram-id N")
    if person.telegram_id is None:
        raise Forbidden(
            f"days are kept under a Telegram id, and {uid} has none; give them one with: duly users set {uid} "
            "--telegram-id N"
        )
    return person.telegram_id


async def read_as(uid: Annotated[str, Depends(reader_of_days)], pool: Opened) -> int:
    """Whose sessions and days are looked at."""
    return await telegram_id_of(pool, uid)


async def write_as(request: Request, uid: Annotated[str, Depends(bringer_of_days)], pool: Opened) -> int:
    """Who brings something, if not too much at once."""
    request.state.rate.take(uid)
    return await telegram_id_of(pool, uid)


def written_day(value: object) -> object:
    """A day is written out; a bare number is none."""
    try:
        return value if isinstance(value, date) else read_date("date", str(value))
    except InvalidArgument as error:
        raise ValueError(str(error).removeprefix("date: ")) from None


Reader: TypeAlias = Annotated[int, Depends(read_as)]
Writer: TypeAlias = Annotated[int, Depends(write_as)]
SessionId: TypeAlias = Annotated[UUID, Path(description="The session's id.")]
Day: TypeAlias = Annotated[
    date, BeforeValidator(written_day), Path(alias="date", description="The day, such as 2026-02-10.")
]
Pages: TypeAlias = Annotated[PageQuery, Query()]
Next = Annotated[str | None, Field(description="Ask with `?next=` for what follows; null when that was all.")]


# Shapes ---------------------------------------------------------------------------------------------------------------


class SessionRequest(Asked):
    """A session that is begun."""

    payload: Payload | None = Field(
        default=None,
        description="The day as data: `schedule_date` and `entries`, each with `start`, `end`, `title`, and perhaps "
        "`location` and `address`. Without it the session waits for images.",
        examples=[
            {
                "schedule_date": "2026-02-10",
                "entries": [{"start": "10:00", "end": "14:00", "title": "Cleaning", "location": "Billdal"}],
            }
        ],
    )


class ListedSession(Shown):
    """A session as a list shows it."""

    id: UUID
    user_id: int = Field(description="Its person's Telegram id.")
    state: str = Field(description="`pending`, `processing`, `done` or `failed`, or what the installation calls them.")
    created_at: Instant
    closed_at: Instant | None = Field(description="Since when it is complete, and takes no more images.")
    error: str | None = Field(description="Why it failed, in a sentence for its person.")
    result: dict[str, Any] | None = Field(
        description="What came of it: `outcome` (`changed` or `unchanged`), `input`, `schedule_date`, `version`, how "
        "many `events` and `notifications`; of photographs how many `images`, how many known shifts they left "
        "`unseen`, in `further_days` the session that each other day became, in `empty_days` the days without a "
        "shift, and in `notes` what is odd."
    )
    starts: int = Field(description="How often a worker began with it.")
    locked_by: str | None = Field(description="Who holds it.")
    locked_at: Instant | None


class ShownImage(Shown):
    """One photograph of a session."""

    id: UUID
    session_id: UUID
    sequence: int = Field(description="1, 2, 3, without a gap.")
    r2_key: str = Field(description="The name under which it is kept.")
    created_at: Instant


class ShownSession(ListedSession):
    """A session and its images."""

    images: list[ShownImage]


class SessionPage(Shown):
    """Some sessions, the newest first."""

    items: list[ListedSession]
    next: Next


class ShownTransition(Shown):
    """One line of a session's log."""

    seq: int = Field(description="1, 2, 3, without a gap.")
    ts: Instant
    prev_status: str | None
    next_status: str
    actor: str | None
    detail_json: dict[str, Any] | None


class TransitionPage(Shown):
    """Some lines of a session's log, in order."""

    items: list[ShownTransition]
    next: Next


class ShownDay(Shown):
    """A day as it is known now."""

    user_id: int
    schedule_date: date
    current_version: int | None
    snapshot_payload: list[dict[str, Any]] = Field(description="Its shifts, in canonical form and order.")
    source_session_id: UUID = Field(description="The session that looked last.")
    updated_at: Instant


class ListedVersion(Shown):
    """A version of a day, without what it shows, which may be a mebibyte."""

    version: int = Field(description="1, 2, 3, without a gap.")
    session_id: UUID
    payload_hash: str
    created_at: Instant


class ShownVersion(ListedVersion):
    """A version of a day."""

    payload: dict[str, Any] = Field(description="The day in canonical form.")


class VersionPage(Shown):
    """Some versions of a day, in order."""

    items: list[ListedVersion]
    next: Next


class ShownEvent(Shown):
    """A change of one shift."""

    event_id: UUID
    seq: int | None = Field(description="Its place among the events of its day; null for those of another program.")
    event_type: str
    location_fingerprint: str
    customer_fingerprint: str
    old_value: dict[str, Any] | None = Field(description="The shift before; null when it is new.")
    new_value: dict[str, Any] | None = Field(description="The shift afterwards; null when it is gone.")
    detected_at: Instant
    source_session_id: UUID


class DayEventPage(Shown):
    """Some changes of a day, in the order in which they happened."""

    items: list[ShownEvent]
    next: Next


class ShownNotification(Shown):
    """What a person is told."""

    notification_id: str
    source_session_id: UUID
    status: str = Field(description="`pending`, `sent` or `failed`.")
    notification_type: str = Field(description="`event` for one change, `summary` for all of a session.")
    message: str
    event_ids: list[str]
    created_at: Instant
    sent_at: Instant | None


class NotificationPage(Shown):
    """Some messages about a day, in the order of delivery."""

    items: list[ShownNotification]
    next: Next


NOTHING = SessionRequest()


# Sessions -------------------------------------------------------------------------------------------------------------


@sessions.post(
    "",
    operation_id="create_session",
    summary="Begin a session",
    status_code=status.HTTP_201_CREATED,
    responses=refusals(RateLimited),
)
async def create_session(
    user_id: Writer,
    pool: Opened,
    schema: Schema,
    response: Response,
    body: Annotated[SessionRequest, Body()] = NOTHING,
) -> ShownSession:
    """Given as data it is complete at once, else it waits for images; needs the scope `ingest:write`."""
    session = await service.create_session(pool, schema, user_id, body.payload)
    response.headers["Location"] = f"/v1/ingest/sessions/{session.id}"
    return shown(session, {"images": []})


@sessions.get("", operation_id="list_sessions", summary="List sessions, the newest first")
async def list_sessions(query: Pages, user_id: Reader, pool: Opened, schema: Schema) -> SessionPage:
    """One's own; needs the scope `ingest:read`."""
    page = await service.list_sessions(pool, schema, user_id, place=query.next, limit=query.limit)
    return SessionPage.model_validate(page)


@sessions.get("/{session_id}", operation_id="get_session", summary="Show a session")
async def get_session(session_id: SessionId, user_id: Reader, pool: Opened, schema: Schema) -> ShownSession:
    """Where it is, what came of it, and its images; needs the scope `ingest:read`."""
    return await whole(pool, schema, await service.get_session(pool, schema, user_id, session_id))


@sessions.get("/{session_id}/timeline", operation_id="list_session_events", summary="Show a session's log")
async def list_session_events(
    session_id: SessionId, query: Pages, user_id: Reader, pool: Opened, schema: Schema
) -> TransitionPage:
    """Everything that happened to it, in order; needs the scope `ingest:read`."""
    page = await service.list_transitions(pool, schema, user_id, session_id, place=query.next, limit=query.limit)
    return TransitionPage.model_validate(page)


@images.post(
    "/{session_id}/images",
    operation_id="add_session_image",
    summary="Add an image to a session",
    status_code=status.HTTP_201_CREATED,
    responses=refusals(IllegalMove, RateLimited),
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "A form with one file: JPEG, PNG or WebP, at most 20 MiB. What it says of place and camera "
            "is removed; a PNG keeps every point.",
            "content": {
                "multipart/form-data": {
                    "schema": {
                        "type": "object",
                        "required": [FIELD],
                        "additionalProperties": False,
                        "properties": {FIELD: {"type": "string", "format": "binary"}},
                    }
                }
            },
        }
    },
)
async def add_session_image(
    request: Request,
    session_id: SessionId,
    user_id: Writer,
    pool: Opened,
    objects: Kept,
    schema: Schema,
    children: Decoders,
) -> ShownImage:
    """While it is not closed; needs the scope `ingest:write`."""
    data = file_in(request.headers.get("content-type"), await request.body(), FIELD)
    screenshot = await clean(children, clean_screenshot, data)
    image = await service.add_image(pool, schema, objects, user_id, session_id, screenshot.data, screenshot.kind)
    return ShownImage.model_validate(image)


@sessions.post(
    "/{session_id}/close",
    operation_id="close_session",
    summary="Say that a session is complete",
    responses=refusals(RateLimited),
)
async def close_session(session_id: SessionId, user_id: Writer, pool: Opened, schema: Schema) -> ShownSession:
    """It takes no more images then; saying so twice is saying it once; needs the scope `ingest:write`."""
    return await whole(pool, schema, await service.close_session(pool, schema, user_id, session_id))


# Days -----------------------------------------------------------------------------------------------------------------


@days.get("/{date}", operation_id="get_day", summary="Show a day")
async def get_day(day: Day, user_id: Reader, pool: Opened, schema: Schema) -> ShownDay:
    """As it is known now; needs the scope `ingest:read`."""
    return ShownDay.model_validate(await service.get_day(pool, schema, user_id, day))


@days.get("/{date}/versions", operation_id="list_day_versions", summary="List the versions of a day")
async def list_day_versions(day: Day, query: Pages, user_id: Reader, pool: Opened, schema: Schema) -> VersionPage:
    """In order, without what they show; needs the scope `ingest:read`."""
    page = await service.list_versions(pool, schema, user_id, day, place=query.next, limit=query.limit)
    return VersionPage.model_validate(page)


@days.get("/{date}/versions/{version}", operation_id="get_day_version", summary="Show a version of a day")
async def get_day_version(
    day: Day,
    version: Annotated[int, Path(ge=1, le=2**31 - 1, description="Which.")],
    user_id: Reader,
    pool: Opened,
    schema: Schema,
) -> ShownVersion:
    """The day as it was; needs the scope `ingest:read`."""
    return ShownVersion.model_validate(await service.get_version(pool, schema, user_id, day, version))


@days.get("/{date}/events", operation_id="list_day_events", summary="Show what changed in a day")
async def list_day_events(day: Day, query: Pages, user_id: Reader, pool: Opened, schema: Schema) -> DayEventPage:
    """Shift by shift, in order; needs the scope `ingest:read`."""
    page = await service.list_events(pool, schema, user_id, day, place=query.next, limit=query.limit)
    return DayEventPage.model_validate(page)


@days.get("/{date}/notifications", operation_id="list_day_notifications", summary="Show what was told of a day")
async def list_day_notifications(
    day: Day, query: Pages, user_id: Reader, pool: Opened, schema: Schema
) -> NotificationPage:
    """Or is to be told, in the order of delivery; needs the scope `ingest:read`."""
    page = await service.list_notifications(pool, schema, user_id, day, place=query.next, limit=query.limit)
    return NotificationPage.model_validate(page)


# Within ---------------------------------------------------------------------------------------------------------------


async def whole(pool: Pool, schema: str, session: Session) -> ShownSession:
    """A session with its images."""
    found = await service.list_images(pool, schema, session.user_id, session.id)
    return shown(session, {"images": found})


def shown(session: Session, more: Mapping[str, Any]) -> ShownSession:
    """A session as it is shown, with what does not stand in its row."""
    fields = {name: getattr(session, name) for name in ListedSession.model_fields}
    return ShownSession.model_validate({**fields, **more}, from_attributes=True)
