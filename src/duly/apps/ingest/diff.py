"""What changed between two states of a day, told as events that rebuild it.

What a reader sees alike in both states has not changed, and stays as it is known: `carried`. The rest is paired in
stages; what is left over was removed, or is new:

    1. same place and same customer       the nearest in time are one shift: `shift_time_changed`, or, at the same time,
                                          another name or title `shift_retitled`, another type or label
                                          `shift_reclassified`, another address of the same place `shift_relocated`
    2. same customer, same time           `shift_relocated`
    3. same place, same time              `shift_retitled`
    4. the rest                           `shift_removed`, `shift_added`; so a shift that changed both its time and its
                                          place is told as one that went and one that came

An event carries the whole shift before and after, so only the first difference names it and none is lost. Every change
of a shift is an event: replaying them all over an empty day rebuilds the last state exactly.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from duly.apps.ingest.shift import Shift, distance, read_shift, title_words
from duly.apps.ingest.spelling import read_words

__all__ = ["Change", "EventType", "carried", "diff", "replay"]


class EventType(StrEnum):
    """What happened to a shift."""

    ADDED = "shift_added"
    REMOVED = "shift_removed"
    TIME_CHANGED = "shift_time_changed"
    RELOCATED = "shift_relocated"
    RETITLED = "shift_retitled"
    RECLASSIFIED = "shift_reclassified"


@dataclass(frozen=True, slots=True)
class Change:
    """One shift before and after."""

    type: EventType
    old: Shift | None
    new: Shift | None

    @property
    def shift(self) -> Shift:
        """The shift it is about: as it is now, or as it was last."""
        shift = self.new or self.old
        assert shift, "a change has at least one side"
        return shift


def diff(old: Sequence[Shift], new: Sequence[Shift]) -> list[Change]:
    """The changes that lead from one state of a day to the next: changed, then removed, then added, each in order."""
    before, after = _without_common(old, new)
    changes: list[Change] = []
    for kind, key in STAGES if before and after else ():
        for one, other in _pairs(before, after, key):
            before.remove(one)
            after.remove(other)
            changes.append(Change(kind or _difference(one, other), one, other))
    changes.sort(key=lambda change: (*change.shift.order, change.old.order if change.old else ()))
    removed = [Change(EventType.REMOVED, shift, None) for shift in sorted(before, key=_order)]
    added = [Change(EventType.ADDED, None, shift) for shift in sorted(after, key=_order)]
    return changes + removed + added


def _order(shift: Shift) -> tuple[str, ...]:
    return shift.order


def carried(old: Sequence[Shift], new: Sequence[Shift]) -> tuple[Shift, ...]:
    """The new state, in which whatever is only spelled otherwise stays as it was known."""
    alike = dict(_alike(*_without_equal(old, new)))
    kept = {other: one for one, other in alike.items()}
    return tuple(sorted((kept.get(shift, shift) for shift in new), key=_order))


def _without_common(old: Sequence[Shift], new: Sequence[Shift]) -> tuple[list[Shift], list[Shift]]:
    """Both sides without the shifts that stayed as they were, for a reader."""
    before, after = _without_equal(old, new)
    for one, other in _alike(before, after):
        before.remove(one)
        after.remove(other)
    return before, after


def _without_equal(old: Sequence[Shift], new: Sequence[Shift]) -> tuple[list[Shift], list[Shift]]:
    """Both sides without the shifts that are equal to the letter."""
    if not old or not new:
        return list(old), list(new)
    gone, come = Counter(old), Counter(new)
    return list((gone - come).elements()), list((come - gone).elements())


def _alike(old: Iterable[Shift], new: Iterable[Shift]) -> list[tuple[Shift, Shift]]:
    """Shifts of both sides in which a reader sees the same."""
    return _pairs(old, new, lambda shift: shift.reading)


STAGES: tuple[tuple[EventType | None, Callable[[Shift], Hashable]], ...] = (
    (None, lambda shift: (shift.location_fingerprint, shift.customer_fingerprint)),
    (EventType.RELOCATED, lambda shift: (shift.customer_fingerprint, shift.start, shift.end)),
    (EventType.RETITLED, lambda shift: (shift.location_fingerprint, shift.start, shift.end)),
)


def _pairs(old: Iterable[Shift], new: Iterable[Shift], key: Callable[[Shift], Hashable]) -> list[tuple[Shift, Shift]]:
    """Shifts of both sides that agree in a key, each at most once, the nearest in time first."""
    groups: defaultdict[Hashable, tuple[list[Shift], list[Shift]]] = defaultdict(lambda: ([], []))
    for side, shifts in enumerate((old, new)):
        for shift in shifts:
            groups[key(shift)][side].append(shift)
    return [pair for olds, news in groups.values() if olds and news for pair in _nearest(olds, news)]


def _nearest(olds: Sequence[Shift], news: Sequence[Shift]) -> list[tuple[Shift, Shift]]:
    """Pair two lists greedily: the smallest distance first, ties by order."""
    if len(olds) == len(news) == 1:
        return [(olds[0], news[0])]
    every = sorted(
        ((distance(one, other), one.order, other.order, one, other) for one in olds for other in news),
        key=lambda each: each[:3],
    )
    taken_olds, taken_news = set[Shift](), set[Shift]()
    pairs: list[tuple[Shift, Shift]] = []
    for *_, one, other in every:
        if one not in taken_olds and other not in taken_news:
            taken_olds.add(one)
            taken_news.add(other)
            pairs.append((one, other))
    return pairs


def _difference(old: Shift, new: Shift) -> EventType:
    """The first thing in which two states of one shift differ."""
    if (old.start, old.end) != (new.start, new.end):
        return EventType.TIME_CHANGED
    if read_words(old.customer_name) != read_words(new.customer_name):
        return EventType.RETITLED
    if title_words(old.raw_type_label) != title_words(new.raw_type_label):
        return EventType.RECLASSIFIED
    return EventType.RETITLED if old.reading.title != new.reading.title else EventType.RELOCATED


def replay(events: Iterable[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]]) -> list[Shift]:
    """The state that old and new values, in the order of their events, lead to from an empty day.

    ValueError when one of them removes a shift that was not there.
    """
    shifts: list[Shift] = []
    for old, new in events:
        if old is not None:
            shifts.remove(read_shift(old))
        if new is not None:
            shifts.append(read_shift(new))
    return sorted(shifts, key=_order)
