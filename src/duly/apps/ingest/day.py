"""What a capture makes of a day: perhaps a version, the events that lead to it, and what its person is told."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any
from uuid import UUID

from duly.apps.ingest.canonical import CANONICALIZER, Observation, observe
from duly.apps.ingest.diff import carried, diff
from duly.apps.ingest.notices import Event, Notice, events_of, notices_of
from duly.apps.ingest.shift import Reading, Shift, read_shift
from duly.apps.ingest.spelling import read_words
from duly.canonical_json import Json
from duly.errors import InvalidArgument

__all__ = ["Day", "Step", "day_of", "take"]


@dataclass(frozen=True)
class Day:
    """A day as it is known: its version, the hash of that, and its shifts."""

    user_id: int
    schedule_date: date
    version: int = 0
    payload_hash: str | None = None
    shifts: tuple[Shift, ...] | None = None  # None: nobody has looked at them yet
    events: int = 0  # how many there were
    canonicalizer: int | None = CANONICALIZER  # that gave the oldest of its stored shifts their form
    stored: Mapping[Shift, Shift] = field(default_factory=dict[Shift, Shift])  # shifts written down in another form
    known: frozenset[Reading] = frozenset()  # where another canonicaliser wrote it: what its version shows
    payload: Mapping[str, Json] | None = None  # of its version, where somebody asked for it

    @property
    def snapshot(self) -> tuple[Shift, ...]:
        """The shifts in the form in which they are written down."""
        return tuple(self.stored.get(shift, shift) for shift in self.shifts or ())


@dataclass(frozen=True)
class Step:
    """A session's part in a day."""

    before: Day
    after: Day
    events: list[Event]
    notices: list[Notice]

    @property
    def is_change(self) -> bool:
        """Is there a new version?"""
        return self.after.version > self.before.version


def take(
    day: Day,
    session_id: UUID,
    seen: Observation,
    *,
    threshold: int,
    refused: Collection[UUID] = (),
    only_versions: bool = False,
    is_told: bool = True,
) -> Step:
    """The step from what was known to what was seen; seeing the same again changes nothing.

    `refused` are events that the owner's key would not take: they are neither written nor told. `only_versions` is for
    a backend without tables for events; where it has no table for messages, nobody is told.
    """
    is_same = day.payload_hash == seen.payload_hash
    if is_same and (day.shifts is not None or only_versions):
        return Step(day, day, [], [])
    known = day.shifts or ()
    shifts = carried(known, seen.shifts)
    changes = [] if only_versions else events_of(session_id, diff(known, shifts), day.stored)
    events = [event for event in changes if event.id not in refused]
    told = [event for event in events if is_told and not _is_known(day, event)]
    stored = {shift: day.stored[shift] for shift in shifts if shift in day.stored}
    after = replace(
        day,
        version=day.version if is_same else day.version + 1,
        payload_hash=seen.payload_hash,
        shifts=shifts,
        events=day.events + len(events),
        canonicalizer=day.canonicalizer if stored else CANONICALIZER,
        stored=stored,
        known=frozenset(),
        payload=seen.payload,
    )
    notices = notices_of(day.user_id, day.schedule_date, session_id, told, threshold=threshold, among={*known, *shifts})
    return Step(day, after, events, notices)


def _is_known(day: Day, event: Event) -> bool:
    """Did its person see it before, though another canonicaliser did not?"""
    return event.change.new is not None and event.change.new.reading in day.known


def day_of(row: Mapping[str, Any]) -> Day:
    """A day from what the database has of it.

    What another canonicaliser wrote is read again with ours: a day that only gets another form has not changed, and
    each shift of its snapshot is compared as what ours makes of the words that it came from.
    """
    payload_hash, shifts, payload = row["payload_hash"], None, None
    known, stored = frozenset[Reading](), dict[Shift, Shift]()
    if row["snapshot_payload"] is not None:
        shifts = tuple(dict.fromkeys(map(read_shift, row["snapshot_payload"])))
    if row["payload"] is not None:
        try:
            again = observe(row["payload"])
        except InvalidArgument:
            payload_hash = None  # somebody else's words: whatever we see is new
        else:
            payload = again.payload
            if row["is_foreign"]:
                payload_hash, known = again.payload_hash, frozenset(shift.reading for shift in again.shifts)
                stored = _read_again(shifts or (), again.shifts)
    forms = {old: new for new, old in stored.items()}
    return Day(
        user_id=row["user_id"],
        schedule_date=row["schedule_date"],
        version=row["current_version"] or 0,
        payload_hash=payload_hash,
        shifts=None if shifts is None else tuple(forms.get(shift, shift) for shift in shifts),
        events=row["events"] or 0,
        canonicalizer=row["canonicalizer"],
        stored=stored,
        known=known,
        payload=payload,
    )


def _read_again(snapshot: Sequence[Shift], again: Sequence[Shift]) -> dict[Shift, Shift]:
    """The shifts of a snapshot by what ours makes of their words, where that is another form.

    Of one time the likest are one: first those of one place, then those with the most words in common.
    """
    olds = [shift for shift in snapshot if shift not in again]
    news = [shift for shift in again if shift not in snapshot]
    pairs = [(old, new) for old in olds for new in news if (old.start, old.end) == (new.start, new.end)]
    found: dict[Shift, Shift] = {}
    for old, new in sorted(pairs, key=lambda pair: (*_unlikeness(*pair), pair[0].order, pair[1].order)):
        if new not in found and old not in found.values():
            found[new] = old
    return found


def _unlikeness(old: Shift, new: Shift) -> tuple[bool, int]:
    """How little two forms of one time look like one shift."""
    common = {*read_words(old.shown_title)} & {*read_words(new.shown_title)}
    return old.location_fingerprint != new.location_fingerprint, -len(common)
