"""What a person is told: one sentence per change, or one for all when there are many.

A sentence names everything that changed in a shift, and nothing else: times, cancellation, customer, title, address. A
customer is spoken of only where both titles say who that is; else the title is told. Where several shifts begin at one
time it says which one it is about. Ids and texts depend on nothing but what happened, never on the clock: writing them
twice is writing them once.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from uuid import UUID, uuid5

from duly.apps.ingest.diff import Change
from duly.apps.ingest.shift import Shift, is_mark, title_words
from duly.apps.ingest.words import LANGUAGES, say

__all__ = ["NO_VALUE_HASH", "Event", "Notice", "NoticeType", "events_of", "notices_of", "sentence_of"]

NAMESPACE = UUID("2c1d6f0e-9a0b-5b6e-8a51-7f3f1f3f6a10")  # of events
NO_VALUE_HASH = hashlib.sha256(b"null").hexdigest()
ENGLISH = LANGUAGES[0]

Clause = tuple[str, Mapping[str, str]]  # a key of the catalogue, and its values


class NoticeType(StrEnum):
    """Is a message about one change, or about all of a session?"""

    EVENT = "event"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class Event:
    """A change with its name: the same session seeing the same change again is the same event.

    `old` is the shift before as the events of its day have it, which another canonicaliser may have written.
    """

    id: UUID
    change: Change
    old: Shift | None
    old_value_hash: str
    new_value_hash: str


@dataclass(frozen=True, slots=True)
class Notice:
    """A message to be delivered, in every language."""

    id: str
    type: NoticeType
    texts: Mapping[str, str]
    event_ids: tuple[UUID, ...]

    def message(self, language: str | None = None) -> str:
        """The text in a language; in English where there is none in it."""
        return self.texts.get(language or ENGLISH, self.texts[ENGLISH])


def events_of(session_id: UUID, changes: Sequence[Change], stored: Mapping[Shift, Shift] | None = None) -> list[Event]:
    """The changes of a session as events; `stored` has the shifts that are written down in another form."""
    return [_event_of(session_id, change, stored or {}) for change in changes]


def _event_of(session_id: UUID, change: Change, stored: Mapping[Shift, Shift]) -> Event:
    before = stored.get(change.old, change.old) if change.old else None
    old = before.value_hash if before else NO_VALUE_HASH
    new = change.new.value_hash if change.new else NO_VALUE_HASH
    return Event(uuid5(NAMESPACE, f"{session_id}|{change.type}|{old}|{new}"), change, before, old, new)


def notices_of(
    user_id: int,
    schedule_date: date,
    session_id: UUID,
    events: Sequence[Event],
    *,
    threshold: int,
    among: Collection[Shift] | None = None,
) -> list[Notice]:
    """Messages in the order in which they are to arrive; from `threshold` changes on a single one.

    `among` are the shifts of the day before and after.
    """
    ordered = sorted(
        events, key=lambda event: (event.change.shift.start, event.change.shift.address, event.change.type, event.id)
    )
    name = f"{user_id}|{schedule_date.isoformat()}|{session_id}"
    if len(ordered) >= threshold and ordered:
        ids = tuple(event.id for event in ordered)
        return [
            Notice(_sha256(name, "summary", *map(str, ids)), NoticeType.SUMMARY, _summary(schedule_date, len(ids)), ids)
        ]
    return [
        Notice(
            _sha256(name, str(event.id)),
            NoticeType.EVENT,
            {each: sentence_of(schedule_date, event.change, each, among=among) for each in LANGUAGES},
            (event.id,),
        )
        for event in ordered
    ]


def _summary(schedule_date: date, count: int) -> dict[str, str]:
    """So many changes, in every language."""
    key = "one change" if count == 1 else "changes"
    return {each: say(each, key, day=schedule_date.isoformat(), count=count) for each in LANGUAGES}


def sentence_of(
    schedule_date: date, change: Change, language: str = ENGLISH, *, among: Collection[Shift] | None = None
) -> str:
    """One change in words; `among` are the shifts of its day, and where they are not known it says which one it is."""
    day, old, new = schedule_date.isoformat(), change.old, change.new
    if old is None:
        return say(language, "added", day=day, shift=f"{_times(change.shift)}, {_name(change.shift)}")
    if new is None:
        return say(language, "removed", day=day, shift=f"{_times(old)}, {_name(old)}")
    clauses = _clauses(old, new)
    changes = say(language, "and").join(say(language, key, **values) for key, values in clauses)
    if among is None or _is_one_of_several(old, new, among):
        return say(language, "changed, of several", day=day, when=_times(old), shift=_name(old), changes=changes)
    return say(language, "changed", day=day, when=old.start, changes=changes)


def _is_one_of_several(old: Shift, new: Shift, among: Collection[Shift]) -> bool:
    """Does another shift, before or after, begin when this one began or begins now?"""
    return any(shift.start in (old.start, new.start) and shift not in (old, new) for shift in among)


def _times(shift: Shift) -> str:
    return f"{shift.start}\N{EN DASH}{shift.end}"


def _name(shift: Shift) -> str:
    """Who or what for, and where."""
    return ", ".join(filter(None, (shift.shown_title, shift.address)))


# What changed ---------------------------------------------------------------------------------------------------------


def _clauses(old: Shift, new: Shift) -> list[Clause]:
    """Everything in which two states of a shift differ for a reader."""
    clauses = [*_time_clauses(old, new), *_title_clauses(old, new), *_address_clauses(old, new)]
    return clauses or [("title", {"title": new.shown_title})]


def _time_clauses(old: Shift, new: Shift) -> list[Clause]:
    """The times that are others."""
    if (old.start, old.end) == (new.start, new.end):
        return []
    if old.end == new.end:
        return [("start", {"start": new.start})]
    return [("end", {"end": new.end}) if old.start == new.start else ("times", {"times": _times(new)})]


def _address_clauses(old: Shift, new: Shift) -> list[Clause]:
    """The address that is another, or gone."""
    if old.reading.address == new.reading.address:
        return []
    return [("address", {"address": new.address}) if new.address else ("no address", {"address": old.address})]


def _title_clauses(old: Shift, new: Shift) -> list[Clause]:
    """What is new in a title: a cancellation, the customer, the label, or the whole of it."""
    if title_words(old.shown_title) == title_words(new.shown_title):
        return []
    marked: list[Clause] = []
    if old.is_cancelled != new.is_cancelled:
        marked = [("cancelled" if new.is_cancelled else "not cancelled", {})]
    if _unmarked(old.shown_title) == _unmarked(new.shown_title) and marked:
        return marked
    return marked + _name_clauses(old, new)


def _name_clauses(old: Shift, new: Shift) -> list[Clause]:
    """Customer and label, where both titles have them and nothing else in the title is new; else the whole title."""
    whole: list[Clause] = [("title", {"title": new.shown_title})]
    if not old.raw_type_label or not new.raw_type_label or _rest(old) != _rest(new):
        return whole
    clauses: list[Clause] = []
    if title_words(old.customer_name) != title_words(new.customer_name):
        gone, come = {"customer": old.customer_name}, {"customer": new.customer_name}
        clauses.append(("customer", come) if new.customer_name else ("no customer", gone))
    if _unmarked(old.raw_type_label) != _unmarked(new.raw_type_label):
        if not _unmarked(new.raw_type_label):  # Städning has become Avbokad
            return clauses if new.is_cancelled and not old.is_cancelled else whole
        label = " ".join(word for word in new.raw_type_label.split() if not is_mark(word))
        clauses.append(("title", {"title": label}))
    return clauses or whole


def _unmarked(text: str) -> tuple[str, ...]:
    """The words of a text without what says that a shift is cancelled."""
    return tuple(word for word in title_words(text) if text and not is_mark(word))


def _rest(shift: Shift) -> Counter[str]:
    """The words of a title that are neither of the customer nor of the label."""
    known = Counter(_unmarked(shift.customer_name) + _unmarked(shift.raw_type_label))
    return Counter(_unmarked(shift.shown_title)) - known


def _sha256(*parts: str) -> str:
    return hashlib.sha256("|".join(parts).encode()).hexdigest()
