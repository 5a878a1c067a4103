"""What a capture changes in a day: a new version or none, its events, and the notifications about them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any
from uuid import UUID

from duly.apps.ingest.canonical import CANONICALIZER, CanonicalDay, canonicalize
from duly.apps.ingest.diff import diff, keep_equivalent_shifts
from duly.apps.ingest.notifications import NewEvent, NewNotification, build_events, build_notifications
from duly.apps.ingest.shift import ComparisonKey, Shift, shift_from_json
from duly.apps.ingest.spelling import comparable_words
from duly.canonical_json import Json
from duly.errors import InvalidArgument

DayKey = tuple[int, date]  # user_id, schedule_date


@dataclass(frozen=True)
class Day:
    """A day as it is known: its version, the hash of the version's payload, and its shifts."""

    user_id: int
    schedule_date: date
    version: int = 0
    payload_hash: str | None = None
    shifts: tuple[Shift, ...] | None = None  # None: there is no snapshot of them yet
    events: int = 0  # how many were written so far
    canonicalizer: int | None = CANONICALIZER  # the oldest that wrote one of the stored shifts
    stored_forms: Mapping[Shift, Shift] = field(default_factory=dict[Shift, Shift])  # where an earlier form is stored
    version_keys: frozenset[ComparisonKey] = frozenset()  # shifts of a version that another canonicalizer wrote
    payload: Mapping[str, Json] | None = None  # of its version, where it was requested

    @property
    def stored_shifts(self) -> tuple[Shift, ...]:
        """The shifts in the form in which they are stored."""
        return tuple(self.stored_forms.get(shift, shift) for shift in self.shifts or ())


@dataclass(frozen=True)
class DayChange:
    """What a session changes in a day."""

    before: Day
    after: Day
    events: list[NewEvent]
    notifications: list[NewNotification]

    @property
    def has_new_version(self) -> bool:
        """Whether there is a new version."""
        return self.after.version > self.before.version


def apply_capture(
    day: Day,
    session_id: UUID,
    captured: CanonicalDay,
    *,
    summary_threshold: int,
    existing_events: Collection[UUID] = (),
    has_events: bool = True,
    has_notifications: bool = True,
) -> DayChange:
    """Return the change from what is known to what was captured; the same day again changes nothing.

    `existing_events` would be rejected by the contract's unique key: they are neither written nor notified.
    `has_events` and `has_notifications` say whether the installation has tables for them.
    """
    is_same = day.payload_hash == captured.payload_hash
    if is_same and (day.shifts is not None or not has_events):
        return DayChange(day, day, [], [])
    known = day.shifts or ()
    shifts = keep_equivalent_shifts(known, captured.shifts)
    changes = build_events(session_id, diff(known, shifts), day.stored_forms) if has_events else []
    events = [event for event in changes if event.id not in existing_events]
    notified = [event for event in events if has_notifications and not _is_in_version(day, event)]
    stored_forms = {shift: day.stored_forms[shift] for shift in shifts if shift in day.stored_forms}
    after = replace(
        day,
        version=day.version if is_same else day.version + 1,
        payload_hash=captured.payload_hash,
        shifts=shifts,
        events=day.events + len(events),
        canonicalizer=day.canonicalizer if stored_forms else CANONICALIZER,
        stored_forms=stored_forms,
        version_keys=frozenset(),
        payload=captured.payload,
    )
    notifications = build_notifications(
        day.user_id,
        day.schedule_date,
        session_id,
        notified,
        summary_threshold=summary_threshold,
        day_shifts={*known, *shifts},
    )
    return DayChange(day, after, events, notifications)


def _is_in_version(day: Day, event: NewEvent) -> bool:
    """Return whether the current version shows the new shift already, in the form of another canonicalizer."""
    return event.change.new is not None and event.change.new.comparison_key in day.version_keys


def day_from_row(row: Mapping[str, Any]) -> Day:
    """Build a day from its row.

    What another canonicalizer wrote is canonicalized again: a day that only gets another form has not changed, and each
    shift of its snapshot is compared in the form that our canonicalizer gives it.
    """
    payload_hash, shifts, payload = row["payload_hash"], None, None
    version_keys, stored_forms = frozenset[ComparisonKey](), dict[Shift, Shift]()
    if row["snapshot_payload"] is not None:
        shifts = tuple(dict.fromkeys(map(shift_from_json, row["snapshot_payload"])))
    if row["payload"] is not None:
        try:
            again = canonicalize(row["payload"])
        except InvalidArgument:
            payload_hash = None  # another program's payload, which cannot be compared: any captured day is new
        else:
            payload = again.payload
            if row["is_foreign"]:
                payload_hash, version_keys = (
                    again.payload_hash,
                    frozenset(shift.comparison_key for shift in again.shifts),
                )
                stored_forms = _match_forms(shifts or (), again.shifts)
    forms = {old: new for new, old in stored_forms.items()}
    return Day(
        user_id=row["user_id"],
        schedule_date=row["schedule_date"],
        version=row["current_version"] or 0,
        payload_hash=payload_hash,
        shifts=None if shifts is None else tuple(forms.get(shift, shift) for shift in shifts),
        events=row["events"] or 0,
        canonicalizer=row["canonicalizer"],
        stored_forms=stored_forms,
        version_keys=version_keys,
        payload=payload,
    )


def _match_forms(stored: Sequence[Shift], again: Sequence[Shift]) -> dict[Shift, Shift]:
    """Map shifts in our form to the stored shifts that they correspond to, where the forms differ.

    Of shifts at the same time the most similar ones correspond: first by location, then by words in common.
    """
    olds = [shift for shift in stored if shift not in again]
    news = [shift for shift in again if shift not in stored]
    pairs = [(old, new) for old in olds for new in news if (old.start, old.end) == (new.start, new.end)]
    found: dict[Shift, Shift] = {}
    for old, new in sorted(pairs, key=lambda pair: (*_dissimilarity(*pair), pair[0].sort_key, pair[1].sort_key)):
        if new not in found and old not in found.values():
            found[new] = old
    return found


def _dissimilarity(old: Shift, new: Shift) -> tuple[bool, int]:
    """Rank how different two forms at the same time are."""
    common = {*comparable_words(old.display_title)} & {*comparable_words(new.display_title)}
    return old.location_fingerprint != new.location_fingerprint, -len(common)
