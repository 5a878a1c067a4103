"""Merge several photographs of one day into one payload.

Photographs overlap: the same shift appears twice, complete and cut off. Two entries of *different* photographs are the
same shift when location and customer agree, their titles could be two readings of one (cut off, or with a few wrong
letters), and their times differ by at most five minutes, or one range contains the other; or when times, customer, type
and label agree, and only the location was read differently. Entries of one photograph are never merged, nor are two
customers at one address and time. A merged entry keeps the earlier start, the later end, the longer title, and the more
complete of the two addresses.

The pages belong to one day; `pages.py` assigns those without a date.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, cast

from duly.apps.ingest.canonical import canonical_entries
from duly.apps.ingest.shift import Shift, distance, shift_from_entry
from duly.apps.ingest.spelling import MINUTES_OF_DAY, minutes_since_midnight
from duly.canonical_json import Json

SAME_SHIFT_MINUTES = 5
MIN_SIMILARITY = 0.7  # of two words that may be readings of the same one
INTERFACE_WORDS = frozenset({"schedule", "account", "profile", "collaborators", "schema", "konto", "profil"})


@dataclass(eq=False, slots=True)
class _MergedEntry:
    """A shift as the pages so far show it."""

    entry: dict[str, Json]
    shift: Shift
    pages: set[int] = field(default_factory=set[int])


def aggregate(pages: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    """Return the payload of a day from the payloads of its pages, in order; a single one is returned as it is."""
    if len(pages) == 1:
        return dict(pages[0])
    payload: dict[str, Json] = {}
    for page in pages:
        payload |= {key: value for key, value in page.items() if key not in payload}
    payload["entries"] = _merge_entries(pages)
    return payload


def _merge_entries(pages: Sequence[Mapping[str, Json]]) -> list[Json]:
    """Return the entries of all pages, each shift once."""
    seen: list[_MergedEntry] = []
    for nth, page in enumerate(pages):
        for entry in canonical_entries(page.get("entries")):
            found = _MergedEntry(cast("dict[str, Json]", entry), shift_from_entry(cast("dict[str, Any]", entry)), {nth})
            matches = [each for each in seen if nth not in each.pages and _is_same(each.shift, found.shift)]
            if matches:
                _merge(min(matches, key=lambda each: (distance(each.shift, found.shift), each.shift.sort_key)), found)
            else:
                seen.append(found)
    return [each.entry for each in sorted(seen, key=lambda each: each.shift.sort_key)]


def _is_same(one: Shift, other: Shift) -> bool:
    """Return whether two entries of different photographs are the same shift."""
    if one.customer_fingerprint != other.customer_fingerprint:
        return False
    if one.location_fingerprint == other.location_fingerprint:
        if not all(map(_is_same_word, one.comparison_key.title, other.comparison_key.title)):  # up to the shorter one
            return False
        return distance(one, other) <= SAME_SHIFT_MINUTES or _lies_within(one, other) or _lies_within(other, one)
    return (one.start, one.end, one.shift_type, one.raw_type_label) == (
        other.start,
        other.end,
        other.shift_type,
        other.raw_type_label,
    )


def _is_same_word(one: str, other: str) -> bool:
    """Return whether two words may be readings of the same one."""
    if one == other or (one + other).isdigit():
        return one == other
    return one.startswith(other) or other.startswith(one) or SequenceMatcher(None, one, other).ratio() >= MIN_SIMILARITY


def _lies_within(inner: Shift, outer: Shift) -> bool:
    """Return whether one time range contains the other, also across midnight."""
    offset = (minutes_since_midnight(inner.start) - minutes_since_midnight(outer.start)) % MINUTES_OF_DAY
    return offset + _length(inner) <= _length(outer)


def _length(shift: Shift) -> int:
    """Return the minutes from start to end; an end that is not later is on the next day."""
    return (minutes_since_midnight(shift.end) - minutes_since_midnight(shift.start) - 1) % MINUTES_OF_DAY + 1


def _merge(into: _MergedEntry, other: _MergedEntry) -> None:
    """Merge another reading into an entry, keeping the better value of each field."""
    start, end = _union(into.shift, other.shift)
    entry = {**other.entry, **into.entry, "start": start, "end": end}
    entry["title"] = max(into.entry["title"], other.entry["title"], key=lambda title: (len(str(title)), str(title)))
    better = max((into, other), key=_completeness)
    for name in ("location", "address"):
        if name in better.entry:
            entry[name] = better.entry[name]
        else:
            entry.pop(name, None)
    into.entry, into.shift = entry, shift_from_entry(entry)
    into.pages |= other.pages


def _union(one: Shift, other: Shift) -> tuple[str, str]:
    """Return the time range that contains both."""
    for inner, outer in ((one, other), (other, one)):
        if _lies_within(inner, outer):
            return outer.start, outer.end
    start = one.start if _minutes_between(one.start, other.start) >= 0 else other.start
    return start, one.end if _minutes_between(one.end, other.end) <= 0 else other.end


def _minutes_between(origin: str, time: str) -> int:
    """Return the minutes from one time to another, the shorter way around the clock; negative when it is earlier."""
    return (
        minutes_since_midnight(time) - minutes_since_midnight(origin) + MINUTES_OF_DAY // 2
    ) % MINUTES_OF_DAY - MINUTES_OF_DAY // 2


def _completeness(seen: _MergedEntry) -> tuple[int, int, str]:
    """Rank the address of an entry by its number of known parts; words of the app's user interface count against it."""
    shift, address = seen.shift, f"{seen.entry.get('address', '')} {seen.entry.get('location', '')}"
    noise = sum(word.casefold() in INTERFACE_WORDS for word in address.split())
    parts = sum(map(bool, (shift.street, shift.street_number, shift.postal_code, shift.postal_area, shift.city)))
    return parts - 10 * noise, len(address), address
