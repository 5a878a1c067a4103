"""Captures as values: what doors show of sessions, images, days, versions, events and messages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

__all__ = ["MAX_IMAGES", "DayVersion", "Image", "KnownDay", "Message", "Outcome", "PastEvent", "Session"]

MAX_IMAGES = 50  # of one session


class Outcome(StrEnum):
    """What a session made of its day."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Session:
    """A capture session; its result says what came of it."""

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
class Image:
    """One photograph of a session."""

    id: UUID
    session_id: UUID
    sequence: int
    r2_key: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class KnownDay:
    """A person's day as it is known now."""

    user_id: int
    schedule_date: date
    current_version: int | None
    snapshot_payload: Sequence[Mapping[str, Any]]
    source_session_id: UUID
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class DayVersion:
    """A day as it once was."""

    user_id: int
    schedule_date: date
    version: int
    session_id: UUID
    payload_hash: str
    created_at: datetime
    payload: Mapping[str, Any] | None = None  # which lists leave out


@dataclass(frozen=True, slots=True)
class PastEvent:
    """A change of one shift."""

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
class Message:
    """What a person is told."""

    notification_id: str
    source_session_id: UUID
    status: str
    notification_type: str
    message: str
    event_ids: Sequence[str]
    created_at: datetime
    sent_at: datetime | None
