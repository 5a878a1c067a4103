"""What a person is told: one sentence per change, or one for all when there are many.

Ids and texts depend on nothing but what happened, never on the clock: writing them twice is writing them once.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from uuid import UUID, uuid5

from duly.ingest.diff import Change, EventType
from duly.ingest.labels import ENGLISH, ShiftType
from duly.ingest.shift import Shift

__all__ = ["NO_VALUE_HASH", "Event", "Notice", "NoticeType", "events_of", "notices_of", "sentence_of"]

NAMESPACE = UUID("2c1d6f0e-9a0b-5b6e-8a51-7f3f1f3f6a10")  # of events
NO_VALUE_HASH = hashlib.sha256(b"null").hexdigest()


class NoticeType(StrEnum):
    """Is a message about one change, or about all of a session?"""

    EVENT = "event"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class Event:
    """A change with its name: the same session seeing the same change again is the same event."""

    id: UUID
    change: Change
    old_value_hash: str
    new_value_hash: str


@dataclass(frozen=True, slots=True)
class Notice:
    """A message to be delivered."""

    id: str
    type: NoticeType
    message: str
    event_ids: tuple[UUID, ...]


def events_of(session_id: UUID, changes: Sequence[Change]) -> list[Event]:
    """The changes of a session as events."""
    return [_event_of(session_id, change) for change in changes]


def _event_of(session_id: UUID, change: Change) -> Event:
    old = change.old.value_hash if change.old else NO_VALUE_HASH
    new = change.new.value_hash if change.new else NO_VALUE_HASH
    return Event(uuid5(NAMESPACE, f"{session_id}|{change.type}|{old}|{new}"), change, old, new)


def notices_of(
    user_id: int, schedule_date: date, session_id: UUID, events: Sequence[Event], *, threshold: int
) -> list[Notice]:
    """Messages in the order in which they are to arrive; from `threshold` changes on a single one."""
    ordered = sorted(events, key=lambda event: (event.change.shift.start, event.change.shift.place, event.change.type))
    name = f"{user_id}|{schedule_date.isoformat()}|{session_id}"
    if len(ordered) >= threshold and ordered:
        ids = tuple(event.id for event in ordered)
        message = f"{len(ids)} changes on {schedule_date.isoformat()}."
        return [Notice(_sha256(name, "summary", *map(str, ids)), NoticeType.SUMMARY, message, ids)]
    return [
        Notice(_sha256(name, str(event.id)), NoticeType.EVENT, sentence_of(schedule_date, event.change), (event.id,))
        for event in ordered
    ]


def sentence_of(schedule_date: date, change: Change) -> str:
    """One change in words."""
    day, shift, old = f"on {schedule_date.isoformat()}", change.shift, change.old
    match change.type:
        case EventType.ADDED:
            return f"New shift {day}: {_times(shift)}{_at(shift)}."
        case EventType.REMOVED:
            return f"Shift removed {day}: {_times(shift)}{_at(shift)}."
        case EventType.TIME_CHANGED:
            assert old, "a time changes from another"
            return f"Shift {day}{_at(shift)}: {_time_change(old, shift)}."
        case EventType.RELOCATED:
            return f"The {shift.start} shift {day} is now in {shift.place or 'another place'}."
        case EventType.RETITLED:
            return f"The {shift.start} shift {day} is now for {shift.customer_name or 'no customer'}."
        case EventType.RECLASSIFIED:
            return (
                f"The {shift.start} shift {day} is now {shift.raw_type_label or ENGLISH[ShiftType(shift.shift_type)]}."
            )


def _times(shift: Shift) -> str:
    return f"{shift.start}\N{EN DASH}{shift.end}"


def _at(shift: Shift) -> str:
    return f", {shift.place}" if shift.place else ""


def _time_change(old: Shift, new: Shift) -> str:
    if old.end == new.end:
        return f"{old.start} → {new.start}"
    if old.start == new.start:
        return f"ends {old.end} → {new.end}"
    return f"{_times(old)} → {_times(new)}"


def _sha256(*parts: str) -> str:
    return hashlib.sha256("|".join(parts).encode()).hexdigest()
