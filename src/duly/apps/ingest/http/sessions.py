"""The routes of capture sessions, which belong to the person of the API key and are stored under their Telegram id."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request, Response, status

from duly.apps.ingest.http.access import IngestDep, Pages, Reader, SessionId, Writer
from duly.apps.ingest.http.models import (
    SessionImageResponse,
    SessionPage,
    SessionRequest,
    SessionResponse,
    SessionSummary,
    SessionTransitionPage,
)
from duly.apps.ingest.model import CaptureSession
from duly.apps.ingest.service import Ingest
from duly.errors import IllegalTransition, RateLimited
from duly.executors.images import decode_image
from duly.http.images import ImageDecoderDep, ObjectStoreDep
from duly.http.multipart import OVERHEAD_BYTES, extract_file
from duly.http.problems import PERSON_PROBLEMS, problem_responses
from duly.http.request_limits import GuardedRoute, ImageRoute
from duly.storage.photo import MAX_PHOTO_BYTES, clean_screenshot

FILE_FIELD = "file"
EMPTY_SESSION = SessionRequest()


class FormRoute(ImageRoute):
    """A route that accepts an image in a form."""

    max_bytes = MAX_PHOTO_BYTES + OVERHEAD_BYTES


sessions = APIRouter(prefix="/v1/ingest/sessions", tags=["ingest"], route_class=GuardedRoute, responses=PERSON_PROBLEMS)
images = APIRouter(prefix="/v1/ingest/sessions", tags=["ingest"], route_class=FormRoute, responses=PERSON_PROBLEMS)


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
    responses=problem_responses(IllegalTransition, RateLimited),
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


# Conversions ----------------------------------------------------------------------------------------------------------


async def load_session_response(ingest: Ingest, session: CaptureSession) -> SessionResponse:
    """Load the images of a session and convert both."""
    images = await ingest.sessions.list_images(session.user_id, session.id)
    return to_session_response(session, images)


def to_session_response(session: CaptureSession, images: Sequence[Any]) -> SessionResponse:
    """Convert a session and its images."""
    fields = {name: getattr(session, name) for name in SessionSummary.model_fields}
    return SessionResponse.model_validate({**fields, "images": images}, from_attributes=True)
