"""Captures as values: sessions, images, days, versions, events and notifications as the database stores them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

MAX_IMAGES = 50  # per session


class CaptureOutcome(StrEnum):
    """Whether a session changed its day."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class CaptureSession:
    """A capture session; `result` is null until it is done."""

    id: UUID
    user_id: int
    state: str
    created_at: datetime
    closed_at: datetime | None
    error: str | None
    result: Mapping[str, Any] | None
    starts: int
    locked_by: str | None
    locked_at: datetime | None
    lease_seconds: float | None


@dataclass(frozen=True, slots=True)
class CaptureImage:
    """An image of a session."""

    id: UUID
    session_id: UUID
    sequence: int
    r2_key: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class DaySnapshot:
    """A person's day as it is known now: a row of day_snapshot."""

    user_id: int
    schedule_date: date
    current_version: int | None
    snapshot_payload: Sequence[Mapping[str, Any]]
    source_session_id: UUID
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class DayVersion:
    """A version of a day."""

    user_id: int
    schedule_date: date
    version: int
    session_id: UUID
    payload_hash: str
    created_at: datetime
    payload: Mapping[str, Any] | None = None  # None in lists


@dataclass(frozen=True, slots=True)
class ShiftEvent:
    """A change of one shift: a row of schedule_event."""

    event_id: UUID
    event_type: str
    location_fingerprint: str
    customer_fingerprint: str
    old_value: Mapping[str, Any] | None
    new_value: Mapping[str, Any] | None
    detected_at: datetime
    source_session_id: UUID
    seq: int | None


@dataclass(frozen=True, slots=True)
class StoredNotification:
    """A notification about a day: a row of schedule_notification."""

    notification_id: str
    source_session_id: UUID
    status: str
    notification_type: str
    message: str
    event_ids: Sequence[str]
    created_at: datetime
    sent_at: datetime | None
