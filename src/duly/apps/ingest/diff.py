"""Find what changed between two states of a day, as events from which the day can be rebuilt.

Shifts that look the same in both states are unchanged and keep their known form: `keep_equivalent_shifts`. The others
are paired in stages; those left over were removed or added:

    1. same location and customer         the nearest in time are one shift: `shift_time_changed`, or, at the same time,
                                          another name or title `shift_retitled`, another type or label
                                          `shift_reclassified`, another address of the same location `shift_relocated`
    2. same customer, same time           `shift_relocated`
    3. same location, same time           `shift_retitled`
    4. the rest                           `shift_removed`, `shift_added`; so a shift that changed both its time and its
                                          location is one removed and one added

An event has the full shift before and after, so it is named after the first difference and loses none. Every change of
a shift is an event: replaying them over an empty day rebuilds the last state exactly.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from duly.apps.ingest.shift import Shift, distance, shift_from_json, title_words
from duly.apps.ingest.spelling import comparable_words


class EventType(StrEnum):
    """What happened to a shift."""

    ADDED = "shift_added"
    REMOVED = "shift_removed"
    TIME_CHANGED = "shift_time_changed"
    RELOCATED = "shift_relocated"
    RETITLED = "shift_retitled"
    RECLASSIFIED = "shift_reclassified"


@dataclass(frozen=True, slots=True)
class ShiftChange:
    """One shift before and after."""

    type: EventType
    old: Shift | None
    new: Shift | None

    @property
    def shift(self) -> Shift:
        """The shift as it is now, or as it was before it was removed."""
        shift = self.new or self.old
        assert shift, "a change has at least one side"
        return shift


def diff(old: Sequence[Shift], new: Sequence[Shift]) -> list[ShiftChange]:
    """Return the changes from one state of a day to another: changed, then removed, then added, each in order."""
    before, after = _without_common(old, new)
    changes: list[ShiftChange] = []
    for event_type, key in STAGES if before and after else ():
        for one, other in _pairs(before, after, key):
            before.remove(one)
            after.remove(other)
            changes.append(ShiftChange(event_type or _first_difference(one, other), one, other))
    changes.sort(key=lambda change: (*change.shift.sort_key, change.old.sort_key if change.old else ()))
    removed = [ShiftChange(EventType.REMOVED, shift, None) for shift in sorted(before, key=_order)]
    added = [ShiftChange(EventType.ADDED, None, shift) for shift in sorted(after, key=_order)]
    return changes + removed + added


def _order(shift: Shift) -> tuple[str, ...]:
    return shift.sort_key


def keep_equivalent_shifts(old: Sequence[Shift], new: Sequence[Shift]) -> tuple[Shift, ...]:
    """Return the new state, in which shifts that differ only in spelling keep their old form."""
    kept = {after: before for before, after in _equivalent_pairs(*_without_equal(old, new))}
    return tuple(sorted((kept.get(shift, shift) for shift in new), key=_order))


def _without_common(old: Sequence[Shift], new: Sequence[Shift]) -> tuple[list[Shift], list[Shift]]:
    """Return both sides without the shifts that look the same."""
    before, after = _without_equal(old, new)
    for one, other in _equivalent_pairs(before, after):
        before.remove(one)
        after.remove(other)
    return before, after


def _without_equal(old: Sequence[Shift], new: Sequence[Shift]) -> tuple[list[Shift], list[Shift]]:
    """Return both sides without the shifts that are equal in every field."""
    if not old or not new:
        return list(old), list(new)
    before, after = Counter(old), Counter(new)
    return list((before - after).elements()), list((after - before).elements())


def _equivalent_pairs(old: Iterable[Shift], new: Iterable[Shift]) -> list[tuple[Shift, Shift]]:
    """Return the pairs of shifts that look the same."""
    return _pairs(old, new, lambda shift: shift.comparison_key)


STAGES: tuple[tuple[EventType | None, Callable[[Shift], Hashable]], ...] = (
    (None, lambda shift: (shift.location_fingerprint, shift.customer_fingerprint)),
    (EventType.RELOCATED, lambda shift: (shift.customer_fingerprint, shift.start, shift.end)),
    (EventType.RETITLED, lambda shift: (shift.location_fingerprint, shift.start, shift.end)),
)


def _pairs(old: Iterable[Shift], new: Iterable[Shift], key: Callable[[Shift], Hashable]) -> list[tuple[Shift, Shift]]:
    """Pair shifts of both sides that have the same key, each at most once, the nearest in time first."""
    groups: defaultdict[Hashable, tuple[list[Shift], list[Shift]]] = defaultdict(lambda: ([], []))
    for side, shifts in enumerate((old, new)):
        for shift in shifts:
            groups[key(shift)][side].append(shift)
    return [pair for olds, news in groups.values() if olds and news for pair in _nearest(olds, news)]


def _nearest(olds: Sequence[Shift], news: Sequence[Shift]) -> list[tuple[Shift, Shift]]:
    """Pair two lists greedily: the smallest distance first, ties by order."""
    if len(olds) == len(news) == 1:
        return [(olds[0], news[0])]
    candidates = sorted(
        ((distance(one, other), one.sort_key, other.sort_key, one, other) for one in olds for other in news),
        key=lambda each: each[:3],
    )
    used_olds, used_news = set[Shift](), set[Shift]()
    pairs: list[tuple[Shift, Shift]] = []
    for *_, one, other in candidates:
        if one not in used_olds and other not in used_news:
            used_olds.add(one)
            used_news.add(other)
            pairs.append((one, other))
    return pairs


def _first_difference(old: Shift, new: Shift) -> EventType:
    """Return the event type of the first difference between two states of a shift."""
    if (old.start, old.end) != (new.start, new.end):
        return EventType.TIME_CHANGED
    if comparable_words(old.customer_name) != comparable_words(new.customer_name):
        return EventType.RETITLED
    if title_words(old.raw_type_label) != title_words(new.raw_type_label):
        return EventType.RECLASSIFIED
    return EventType.RETITLED if old.comparison_key.title != new.comparison_key.title else EventType.RELOCATED


def replay(events: Iterable[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]]) -> list[Shift]:
    """Return the state that events, as pairs of old and new values in order, lead to from an empty day.

    ValueError when one of them removes a shift that is not there.
    """
    shifts: list[Shift] = []
    for old, new in events:
        if old is not None:
            shifts.remove(shift_from_json(old))
        if new is not None:
            shifts.append(shift_from_json(new))
    return sorted(shifts, key=_order)
