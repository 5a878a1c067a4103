"""Several photographs of one day become one payload.

Photographs overlap: the same shift is seen twice, whole and cut off. Two entries of *different* photographs are one
shift when they agree in place and customer, their titles could be one that was read twice (cut off, or with a few wrong
letters), and their times differ by five minutes at most, or one lies within the other; or when they agree in times,
customer, type and label, and only the place was read differently. Entries of one photograph are never one, nor are two
customers at one address and time. What is merged keeps the earlier start, the later end, the longer title, and the
fuller address as a whole.

The pages are of one day; one without a date is of the day that the others show (`pages`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, cast

from duly.apps.ingest.canonical import canonical_entries
from duly.apps.ingest.shift import Shift, distance, shift_of
from duly.apps.ingest.spelling import MINUTES_OF_DAY, minutes
from duly.canonical_json import Json

__all__ = ["SAME_SHIFT_MINUTES", "aggregate"]

SAME_SHIFT_MINUTES = 5
ALIKE = 0.7  # from here on two words may be one that was read twice
NOT_AN_ADDRESS = frozenset({"schedule", "account", "profile", "collaborators", "schema", "konto", "profil"})


@dataclass(eq=False, slots=True)
class _Seen:
    """One shift, as the photographs so far show it."""

    entry: dict[str, Json]
    shift: Shift
    pages: set[int] = field(default_factory=set[int])


def aggregate(pages: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    """The payload of a day from the payloads of its pages, in their order; a single one is itself."""
    if len(pages) == 1:
        return dict(pages[0])
    payload: dict[str, Json] = {}
    for page in pages:
        payload |= {key: value for key, value in page.items() if key not in payload}
    payload["entries"] = _entries_of(pages)
    return payload


def _entries_of(pages: Sequence[Mapping[str, Json]]) -> list[Json]:
    """Every shift once."""
    seen: list[_Seen] = []
    for nth, page in enumerate(pages):
        for entry in canonical_entries(page.get("entries")):
            found = _Seen(cast("dict[str, Json]", entry), shift_of(cast("dict[str, Any]", entry)), {nth})
            likes = [each for each in seen if nth not in each.pages and _is_same(each.shift, found.shift)]
            if likes:
                _merge(min(likes, key=lambda each: (distance(each.shift, found.shift), each.shift.order)), found)
            else:
                seen.append(found)
    return [each.entry for each in sorted(seen, key=lambda each: each.shift.order)]


def _is_same(one: Shift, other: Shift) -> bool:
    """Do two photographs show one shift here?"""
    if one.customer_fingerprint != other.customer_fingerprint:
        return False
    if one.location_fingerprint == other.location_fingerprint:
        if not all(map(_is_one_word, one.reading.title, other.reading.title)):  # as far as the shorter one goes
            return False
        return distance(one, other) <= SAME_SHIFT_MINUTES or _lies_within(one, other) or _lies_within(other, one)
    return (one.start, one.end, one.shift_type, one.raw_type_label) == (
        other.start,
        other.end,
        other.shift_type,
        other.raw_type_label,
    )


def _is_one_word(one: str, other: str) -> bool:
    """Could two words be one that was read twice?"""
    if one == other or (one + other).isdigit():
        return one == other
    return one.startswith(other) or other.startswith(one) or SequenceMatcher(None, one, other).ratio() >= ALIKE


def _lies_within(inner: Shift, outer: Shift) -> bool:
    """Does one shift's time lie within the other's, midnight or not?"""
    begins = (minutes(inner.start) - minutes(outer.start)) % MINUTES_OF_DAY
    return begins + _length(inner) <= _length(outer)


def _length(shift: Shift) -> int:
    """Minutes from start to end; an end that is not later is on the next day."""
    return (minutes(shift.end) - minutes(shift.start) - 1) % MINUTES_OF_DAY + 1


def _merge(into: _Seen, other: _Seen) -> None:
    """Keep the better of both."""
    start, end = _hull(into.shift, other.shift)
    entry = {**other.entry, **into.entry, "start": start, "end": end}
    entry["title"] = max(into.entry["title"], other.entry["title"], key=lambda title: (len(str(title)), str(title)))
    better = max((into, other), key=_fullness)
    for name in ("location", "address"):
        if name in better.entry:
            entry[name] = better.entry[name]
        else:
            entry.pop(name, None)
    into.entry, into.shift = entry, shift_of(entry)
    into.pages |= other.pages


def _hull(one: Shift, other: Shift) -> tuple[str, str]:
    """The time that covers both: the outer one's, or from the earlier start to the later end."""
    for inner, outer in ((one, other), (other, one)):
        if _lies_within(inner, outer):
            return outer.start, outer.end
    start = one.start if _apart_from(one.start, other.start) >= 0 else other.start
    return start, one.end if _apart_from(one.end, other.end) <= 0 else other.end


def _apart_from(origin: str, time: str) -> int:
    """Minutes from one time to another, the shorter way, negative when it is earlier."""
    return (minutes(time) - minutes(origin) + MINUTES_OF_DAY // 2) % MINUTES_OF_DAY - MINUTES_OF_DAY // 2


def _fullness(seen: _Seen) -> tuple[int, int, str]:
    """How much an address says; words of the screen around it say nothing."""
    shift, address = seen.shift, f"{seen.entry.get('address', '')} {seen.entry.get('location', '')}"
    noise = sum(word.casefold() in NOT_AN_ADDRESS for word in address.split())
    parts = sum(map(bool, (shift.street, shift.street_number, shift.postal_code, shift.postal_area, shift.city)))
    return parts - 10 * noise, len(address), address
