"""Request and response models of ingest."""

from datetime import date
from typing import Any
from uuid import UUID

from pydantic import Field

from duly.http.job_models import Payload
from duly.http.types import Instant, NextCursor, RequestModel, ResponseModel


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
        "cover (`uncovered`), in `further_days` the session created for each other day, in `empty_days` the days "
        "without a shift, and in `notes` the warnings."
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
    next: NextCursor


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
    next: NextCursor


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
    next: NextCursor


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
    next: NextCursor


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
    next: NextCursor
