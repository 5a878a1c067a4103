"""The routes of ingest.

Sessions and days belong to the person of the API key and are stored under their Telegram id. Those of others are not
found.
"""

from collections.abc import Sequence
from datetime import date
from typing import Annotated, Any, TypeAlias
from uuid import UUID

from fastapi import APIRouter, Body, Depends, Path, Query, Request, Response, status
from pydantic import BeforeValidator, Field

from duly.accounts.service import find_user
from duly.apps.ingest.model import CaptureSession
from duly.apps.ingest.service import Ingest
from duly.apps.ingest.spelling import parse_date
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
from duly.executors.images import decode_image
from duly.http.auth import PersonAccessRule, require_uid
from duly.http.dependencies import ImageDecoderDep, ObjectStoreDep, PoolDep, SchemaDep
from duly.http.job_models import Payload
from duly.http.multipart import OVERHEAD_BYTES, extract_file
from duly.http.problems import problem_responses
from duly.http.request_limits import GuardedRoute, ImageRoute
from duly.http.types import Instant, PageQuery, RequestModel, ResponseModel
from duly.storage.photo import MAX_PHOTO_BYTES, clean_screenshot

COMMON_PROBLEMS = problem_responses(
    Unauthorized, Forbidden, NotFound, TooLarge, InvalidArgument, Unexpected, NotMigrated, Unavailable
)
FILE_FIELD = "file"
READ, WRITE = "ingest:read", "ingest:write"


class FormRoute(ImageRoute):
    """A route that accepts an image in a form."""

    max_bytes = MAX_PHOTO_BYTES + OVERHEAD_BYTES


sessions = APIRouter(prefix="/v1/ingest/sessions", tags=["ingest"], route_class=GuardedRoute, responses=COMMON_PROBLEMS)
images = APIRouter(prefix="/v1/ingest/sessions", tags=["ingest"], route_class=FormRoute, responses=COMMON_PROBLEMS)
days = APIRouter(prefix="/v1/ingest/days", tags=["ingest"], route_class=GuardedRoute, responses=COMMON_PROBLEMS)
routers = (sessions, images, days)


async def find_telegram_id(pool: Pool, uid: str) -> int:
    """Return the Telegram id under which the days of a person are stored; raises NotFound and Forbidden."""
    person = await find_user(pool, uid)
    if person is None:
        raise NotFound(f"no person has the uid {uid}; create them with: duly users create {uid} --telegram-id N")
    if person.telegram_id is None:
        raise Forbidden(
            f"days are stored under a Telegram id, and {uid} has none; set it with: duly users set {uid} "
            "--telegram-id N"
        )
    return person.telegram_id


@PersonAccessRule
async def ingest_reader(request: Request) -> int:
    """Return the Telegram id whose sessions and days are read."""
    return await find_telegram_id(request.state.pool, require_uid(request, READ, "sessions and days"))


@PersonAccessRule
async def ingest_writer(request: Request) -> int:
    """Return the Telegram id for which sessions and images are added; raises RateLimited."""
    uid = require_uid(request, WRITE, "sessions and days")
    request.state.rate_limiter.acquire(uid)
    return await find_telegram_id(request.state.pool, uid)


def check_written_date(value: object) -> object:
    """Parse a date that is written out; a number is not one."""
    try:
        return value if isinstance(value, date) else parse_date("date", str(value))
    except InvalidArgument as error:
        raise ValueError(str(error).removeprefix("date: ")) from None


def bind_ingest(pool: PoolDep, schema: SchemaDep) -> Ingest:
    """Return the operations of ingest on this installation's tables."""
    return Ingest(pool, schema)


IngestDep: TypeAlias = Annotated[Ingest, Depends(bind_ingest)]
Reader: TypeAlias = Annotated[int, Depends(ingest_reader)]
Writer: TypeAlias = Annotated[int, Depends(ingest_writer)]
SessionId: TypeAlias = Annotated[UUID, Path(description="The session's id.")]
Day: TypeAlias = Annotated[
    date, BeforeValidator(check_written_date), Path(alias="date", description="The date, such as 2026-02-10.")
]
Pages: TypeAlias = Annotated[PageQuery, Query()]
Next = Annotated[str | None, Field(description="Cursor of the next page, passed as `?next=`; null on the last page.")]


# Models ---------------------------------------------------------------------------------------------------------------


class SessionRequest(RequestModel):
    """A session to create."""

    payload: Payload | None = Field(
        default=None,
        description="The day as data: `schedule_date` and `entries`, each with `start`, `end`, `title`, and optionally "
        "`location` and `address`. Without it the session waits for images.",
        examples=[
            {
                "schedule_date": "2026-02-10",
                "entries": [{"start": "10:00", "end": "14:00", "title": "Cleaning", "location": "Billdal"}],
            }
        ],
    )


class SessionSummary(ResponseModel):
    """A session in a list."""

    id: UUID
    user_id: int = Field(description="The Telegram id of its person.")
    state: str = Field(description="`pending`, `processing`, `done` or `failed`, or the names configured for them.")
    created_at: Instant
    closed_at: Instant | None = Field(description="When it was closed; a closed session accepts no more images.")
    error: str | None = Field(description="Why it failed, in a sentence for its person.")
    result: dict[str, Any] | None = Field(
        description="`outcome` (`changed` or `unchanged`), `input`, `schedule_date`, `version`, the numbers of "
        "`events` and `notifications`; for images also the number of `images` and of known shifts they do not "
        "show (`unseen`), in `further_days` the session created for each other day, in `empty_days` the days without "
        "a shift, and in `notes` the warnings."
    )
    starts: int = Field(description="How often a worker started it.")
    locked_by: str | None = Field(description="The worker that has leased it.")
    locked_at: Instant | None


class SessionImageResponse(ResponseModel):
    """One image of a session."""

    id: UUID
    session_id: UUID
    sequence: int = Field(description="1, 2, 3, without gaps.")
    r2_key: str = Field(description="Its key in the object store.")
    created_at: Instant


class SessionResponse(SessionSummary):
    """A session with its images."""

    images: list[SessionImageResponse]


class SessionPage(ResponseModel):
    """A page of sessions, the newest first."""

    items: list[SessionSummary]
    next: Next


class SessionTransitionResponse(ResponseModel):
    """One event of a session."""

    seq: int = Field(description="1, 2, 3, without gaps.")
    ts: Instant
    prev_status: str | None
    next_status: str
    actor: str | None
    detail_json: dict[str, Any] | None


class SessionTransitionPage(ResponseModel):
    """A page of events of a session, in order."""

    items: list[SessionTransitionResponse]
    next: Next


class DayResponse(ResponseModel):
    """The current version of a day."""

    user_id: int
    schedule_date: date
    current_version: int | None
    snapshot_payload: list[dict[str, Any]] = Field(description="Its shifts, in canonical form and order.")
    source_session_id: UUID = Field(description="The latest session about this day.")
    updated_at: Instant


class DayVersionSummary(ResponseModel):
    """A version of a day without its payload, which may be 1 MiB."""

    version: int = Field(description="1, 2, 3, without gaps.")
    session_id: UUID
    payload_hash: str
    created_at: Instant


class DayVersionResponse(DayVersionSummary):
    """A version of a day."""

    payload: dict[str, Any] = Field(description="The day in canonical form.")


class DayVersionPage(ResponseModel):
    """A page of versions of a day, in order."""

    items: list[DayVersionSummary]
    next: Next


class DayEventResponse(ResponseModel):
    """A change of one shift."""

    event_id: UUID
    seq: int | None = Field(description="Its position among the events of its day; null if another program wrote it.")
    event_type: str
    location_fingerprint: str
    customer_fingerprint: str
    old_value: dict[str, Any] | None = Field(description="The shift before; null when it was added.")
    new_value: dict[str, Any] | None = Field(description="The shift afterwards; null when it was removed.")
    detected_at: Instant
    source_session_id: UUID


class DayEventPage(ResponseModel):
    """A page of changes of a day, in the order in which they happened."""

    items: list[DayEventResponse]
    next: Next


class NotificationResponse(ResponseModel):
    """A message to a person about a day."""

    notification_id: str
    source_session_id: UUID
    status: str = Field(description="`pending`, `sent` or `failed`.")
    notification_type: str = Field(description="`event` for one change, `summary` for all of a session.")
    message: str
    event_ids: list[str]
    created_at: Instant
    sent_at: Instant | None


class NotificationPage(ResponseModel):
    """A page of messages about a day, in the order of delivery."""

    items: list[NotificationResponse]
    next: Next


EMPTY_SESSION = SessionRequest()


# Sessions -------------------------------------------------------------------------------------------------------------


@sessions.post(
    "",
    operation_id="create_session",
    summary="Create a session",
    status_code=status.HTTP_201_CREATED,
    responses=problem_responses(RateLimited),
)
async def create_session(
    user_id: Writer,
    ingest: IngestDep,
    response: Response,
    body: Annotated[SessionRequest, Body()] = EMPTY_SESSION,
) -> SessionResponse:
    """With a payload it is complete at once, else it waits for images; needs the scope `ingest:write`."""
    session = await ingest.sessions.create_session(user_id, body.payload)
    response.headers["Location"] = f"/v1/ingest/sessions/{session.id}"
    return to_session_response(session, [])


@sessions.get("", operation_id="list_sessions", summary="List sessions, the newest first")
async def list_sessions(query: Pages, user_id: Reader, ingest: IngestDep) -> SessionPage:
    """One's own; needs the scope `ingest:read`."""
    page = await ingest.sessions.list_sessions(user_id, cursor=query.next, limit=query.limit)
    return SessionPage.model_validate(page)


@sessions.get("/{session_id}", operation_id="get_session", summary="Show a session")
async def get_session(session_id: SessionId, user_id: Reader, ingest: IngestDep) -> SessionResponse:
    """Its state, its result and its images; needs the scope `ingest:read`."""
    return await load_session_response(ingest, await ingest.sessions.get_session(user_id, session_id))


@sessions.get("/{session_id}/timeline", operation_id="list_session_events", summary="List the events of a session")
async def list_session_events(
    session_id: SessionId, query: Pages, user_id: Reader, ingest: IngestDep
) -> SessionTransitionPage:
    """In order; needs the scope `ingest:read`."""
    page = await ingest.sessions.list_transitions(user_id, session_id, cursor=query.next, limit=query.limit)
    return SessionTransitionPage.model_validate(page)


@images.post(
    "/{session_id}/images",
    operation_id="add_session_image",
    summary="Add an image to a session",
    status_code=status.HTTP_201_CREATED,
    responses=problem_responses(IllegalMove, RateLimited),
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "A form with one file: JPEG, PNG or WebP, at most 20 MiB. Metadata on location and camera "
            "is removed; a PNG keeps every pixel.",
            "content": {
                "multipart/form-data": {
                    "schema": {
                        "type": "object",
                        "required": [FILE_FIELD],
                        "additionalProperties": False,
                        "properties": {FILE_FIELD: {"type": "string", "format": "binary"}},
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
    ingest: IngestDep,
    objects: ObjectStoreDep,
    image_decoder: ImageDecoderDep,
) -> SessionImageResponse:
    """While it is open; needs the scope `ingest:write`."""
    data = extract_file(request.headers.get("content-type"), await request.body(), FILE_FIELD)
    screenshot = await decode_image(image_decoder, clean_screenshot, data)
    image = await ingest.sessions.add_image(objects, user_id, session_id, screenshot.data, screenshot.suffix)
    return SessionImageResponse.model_validate(image)


@sessions.post(
    "/{session_id}/close",
    operation_id="close_session",
    summary="Close a session",
    responses=problem_responses(RateLimited),
)
async def close_session(session_id: SessionId, user_id: Writer, ingest: IngestDep) -> SessionResponse:
    """It accepts no more images then; closing it again has no effect; needs the scope `ingest:write`."""
    return await load_session_response(ingest, await ingest.sessions.close_session(user_id, session_id))


# Days -----------------------------------------------------------------------------------------------------------------


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


# Conversions ----------------------------------------------------------------------------------------------------------


async def load_session_response(ingest: Ingest, session: CaptureSession) -> SessionResponse:
    """Load the images of a session and convert both."""
    images = await ingest.sessions.list_images(session.user_id, session.id)
    return to_session_response(session, images)


def to_session_response(session: CaptureSession, images: Sequence[Any]) -> SessionResponse:
    """Convert a session and its images."""
    fields = {name: getattr(session, name) for name in SessionSummary.model_fields}
    return SessionResponse.model_validate({**fields, "images": images}, from_attributes=True)
