"""Notifications about the changes of a day: one sentence per change, or one summary when there are many.

A sentence names everything that changed in a shift and nothing else: times, cancellation, customer, title, address. It
names the customer only where both titles have one; otherwise it names the title. Where several shifts start at the same
time, it says which one it means. Ids and texts depend only on the change, never on the clock, so writing them again
changes nothing.

Notifications about a capture itself say what none about a day says: why the screenshots could not be read, that they
show several days, or that nothing changed. They go to the outbox in the transaction that settles the session, at most
one per session, to the person who sent its screenshots. The reason of a failure is the session's error text, which is
in English.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from uuid import UUID, uuid5

from duly.apps.ingest.diff import ShiftChange
from duly.apps.ingest.messages import LANGUAGES, translate
from duly.apps.ingest.shift import Shift, is_cancellation_word, title_words

EVENT_NAMESPACE = UUID("2c1d6f0e-9a0b-5b6e-8a51-7f3f1f3f6a10")
NO_VALUE_HASH = hashlib.sha256(b"null").hexdigest()
ENGLISH = LANGUAGES[0]

MAX_REASON_LENGTH = 1000  # characters; the full text is in the session's error

Clause = tuple[str, Mapping[str, str]]  # a key of the catalogue and its values


class NotificationType(StrEnum):
    """Whether a notification is about one change or summarizes all changes of a session."""

    EVENT = "event"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class NewEvent:
    """A change with an id derived from its content: the same change in the same session is the same event.

    `old` is the shift before, in the form in which the day's events store it; an earlier canonicalizer may have
    written it.
    """

    id: UUID
    change: ShiftChange
    old: Shift | None
    old_value_hash: str
    new_value_hash: str


@dataclass(frozen=True, slots=True)
class NewNotification:
    """A notification to deliver, in every language."""

    id: str
    type: NotificationType
    texts: Mapping[str, str]
    event_ids: tuple[UUID, ...]

    def text(self, language: str | None = None) -> str:
        """Return the text in a language, or in English where there is no translation."""
        return self.texts.get(language or ENGLISH, self.texts[ENGLISH])


def build_events(
    session_id: UUID, changes: Sequence[ShiftChange], stored_forms: Mapping[Shift, Shift] | None = None
) -> list[NewEvent]:
    """Return the changes of a session as events; `stored_forms` maps shifts to the form in which they are stored."""
    return [_build_event(session_id, change, stored_forms or {}) for change in changes]


def _build_event(session_id: UUID, change: ShiftChange, stored_forms: Mapping[Shift, Shift]) -> NewEvent:
    before = stored_forms.get(change.old, change.old) if change.old else None
    old = before.value_hash if before else NO_VALUE_HASH
    new = change.new.value_hash if change.new else NO_VALUE_HASH
    return NewEvent(uuid5(EVENT_NAMESPACE, f"{session_id}|{change.type}|{old}|{new}"), change, before, old, new)


def build_notifications(
    user_id: int,
    schedule_date: date,
    session_id: UUID,
    events: Sequence[NewEvent],
    *,
    summary_threshold: int,
    day_shifts: Collection[Shift] | None = None,
) -> list[NewNotification]:
    """Return notifications in order of delivery; from `summary_threshold` events on a single summary.

    `day_shifts` are the shifts of the day before and after the change.
    """
    ordered = sorted(
        events, key=lambda event: (event.change.shift.start, event.change.shift.address, event.change.type, event.id)
    )
    name = f"{user_id}|{schedule_date.isoformat()}|{session_id}"
    if len(ordered) >= summary_threshold and ordered:
        ids = tuple(event.id for event in ordered)
        summary_id = _sha256(name, "summary", *map(str, ids))
        return [NewNotification(summary_id, NotificationType.SUMMARY, _summary_texts(schedule_date, len(ids)), ids)]
    return [
        NewNotification(
            _sha256(name, str(event.id)),
            NotificationType.EVENT,
            {
                language: format_change(schedule_date, event.change, language, day_shifts=day_shifts)
                for language in LANGUAGES
            },
            (event.id,),
        )
        for event in ordered
    ]


def _summary_texts(schedule_date: date, count: int) -> dict[str, str]:
    """Return the number of changes as a sentence in every language."""
    key = "summary_one" if count == 1 else "summary_many"
    return {language: translate(language, key, day=schedule_date.isoformat(), count=count) for language in LANGUAGES}


def format_change(
    schedule_date: date, change: ShiftChange, language: str = ENGLISH, *, day_shifts: Collection[Shift] | None = None
) -> str:
    """Format a change as a sentence; without `day_shifts`, the shifts of its day, it always identifies the shift."""
    day, old, new = schedule_date.isoformat(), change.old, change.new
    if old is None:
        shift = f"{_format_times(change.shift)}, {_describe_shift(change.shift)}"
        return translate(language, "shift_added", day=day, shift=shift)
    if new is None:
        return translate(language, "shift_removed", day=day, shift=f"{_format_times(old)}, {_describe_shift(old)}")
    clauses = _clauses(old, new)
    changes = translate(language, "clause_separator").join(
        translate(language, key, **values) for key, values in clauses
    )
    if day_shifts is None or _is_ambiguous(old, new, day_shifts):
        return translate(
            language,
            "shift_changed_ambiguous",
            day=day,
            when=_format_times(old),
            shift=_describe_shift(old),
            changes=changes,
        )
    return translate(language, "shift_changed", day=day, when=old.start, changes=changes)


def _is_ambiguous(old: Shift, new: Shift, day_shifts: Collection[Shift]) -> bool:
    """Return whether another shift, before or after, starts at the old or new start of this one."""
    return any(shift.start in (old.start, new.start) and shift not in (old, new) for shift in day_shifts)


def _format_times(shift: Shift) -> str:
    return f"{shift.start}\N{EN DASH}{shift.end}"


def _describe_shift(shift: Shift) -> str:
    """Return title and address."""
    return ", ".join(filter(None, (shift.display_title, shift.address)))


# What changed ---------------------------------------------------------------------------------------------------------


def _clauses(old: Shift, new: Shift) -> list[Clause]:
    """Return a clause for every visible difference between two states of a shift."""
    clauses = [*_time_clauses(old, new), *_title_clauses(old, new), *_address_clauses(old, new)]
    return clauses or [("new_title", {"title": new.display_title})]


def _time_clauses(old: Shift, new: Shift) -> list[Clause]:
    """Return a clause for changed times."""
    if (old.start, old.end) == (new.start, new.end):
        return []
    if old.end == new.end:
        return [("new_start", {"start": new.start})]
    return [("new_end", {"end": new.end}) if old.start == new.start else ("new_times", {"times": _format_times(new)})]


def _address_clauses(old: Shift, new: Shift) -> list[Clause]:
    """Return a clause for a changed or removed address."""
    if old.comparison_key.address == new.comparison_key.address:
        return []
    return [("new_address", {"address": new.address}) if new.address else ("no_address", {"address": old.address})]


def _title_clauses(old: Shift, new: Shift) -> list[Clause]:
    """Return clauses for what changed in the title: cancellation, customer, label, or the title as such."""
    if title_words(old.display_title) == title_words(new.display_title):
        return []
    cancellation: list[Clause] = []
    if old.is_cancelled != new.is_cancelled:
        cancellation = [("now_cancelled" if new.is_cancelled else "no_longer_cancelled", {})]
    if _without_cancellation(old.display_title) == _without_cancellation(new.display_title) and cancellation:
        return cancellation
    return cancellation + _name_clauses(old, new)


def _name_clauses(old: Shift, new: Shift) -> list[Clause]:
    """Return clauses for customer and label where both titles have them and differ in nothing else; else the title."""
    full_title: list[Clause] = [("new_title", {"title": new.display_title})]
    if not old.raw_type_label or not new.raw_type_label or _other_words(old) != _other_words(new):
        return full_title
    clauses: list[Clause] = []
    if title_words(old.customer_name) != title_words(new.customer_name):
        before, after = {"customer": old.customer_name}, {"customer": new.customer_name}
        clauses.append(("new_customer", after) if new.customer_name else ("no_customer", before))
    if _without_cancellation(old.raw_type_label) != _without_cancellation(new.raw_type_label):
        if not _without_cancellation(new.raw_type_label):  # Städning has become Avbokad
            return clauses if new.is_cancelled and not old.is_cancelled else full_title
        label = " ".join(word for word in new.raw_type_label.split() if not is_cancellation_word(word))
        clauses.append(("new_title", {"title": label}))
    return clauses or full_title


def _without_cancellation(text: str) -> tuple[str, ...]:
    """Return the words of a text that do not mark a cancellation."""
    return tuple(word for word in title_words(text) if text and not is_cancellation_word(word))


def _other_words(shift: Shift) -> Counter[str]:
    """Count the words of a title that belong neither to the customer nor to the label."""
    known = Counter(_without_cancellation(shift.customer_name) + _without_cancellation(shift.raw_type_label))
    return Counter(_without_cancellation(shift.display_title)) - known


def _sha256(*parts: str) -> str:
    return hashlib.sha256("|".join(parts).encode()).hexdigest()


# About a capture itself -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CaptureNotification:
    """An outbox message about a session, in every language."""

    session_id: UUID
    type: str
    texts: Mapping[str, str]
    is_for_bot_only: bool = False  # sent only when a bot uploaded the images


def capture_failed(session_id: UUID, reason: str) -> CaptureNotification:
    """Build the notification that a session could not be read."""
    short = reason if len(reason) <= MAX_REASON_LENGTH else f"{reason[:MAX_REASON_LENGTH]}…"
    texts = {language: translate(language, "capture_failed", reason=short) for language in LANGUAGES}
    return CaptureNotification(session_id, "capture.failed", texts)


def capture_unchanged(session_id: UUID, schedule_date: date) -> CaptureNotification:
    """Build the notification that a session was read and changed nothing."""
    day = schedule_date.isoformat()
    texts = {language: translate(language, "capture_unchanged", day=day) for language in LANGUAGES}
    return CaptureNotification(session_id, "capture.unchanged", texts, is_for_bot_only=True)


def several_days_captured(session_id: UUID, dates: Sequence[date]) -> CaptureNotification:
    """Build the notification that a session shows several days; days without a change get no other message."""
    texts = {
        language: translate(
            language,
            "capture_several_days",
            count=len(dates),
            days=translate(language, "list_separator").join(map(str, dates)),
        )
        for language in LANGUAGES
    }
    return CaptureNotification(session_id, "capture.several", texts, is_for_bot_only=True)
