"""One canonical form of a day, which feeds the hash, the snapshot and the diff.

Times are HH:MM, texts have one spelling, names one casing, entries one order; entries that are equal are one. Keys that
we do not know are kept, tidied and hashed: they can make a new version, never an event. What is canonical already stays
as it is, so that a stored payload can be read again: when a later canonicaliser finds a stored day equal under its own
rules, the day has not changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, cast

from duly.apps.ingest.shift import Shift, shifts_of
from duly.apps.ingest.spelling import as_name, read_date, read_time, shown, tidied
from duly.canonical_json import Json, bytes_of_checked, checked_json, digest_of_checked
from duly.errors import InvalidArgument

__all__ = ["CANONICALIZER", "MAX_ENTRIES", "MAX_NAME_LENGTH", "Entry", "Observation", "canonical_entry", "observe"]

CANONICALIZER = 2  # goes up when the same words would get another form
MAX_ENTRIES = 500
MAX_NAME_LENGTH = 500  # characters; a message to a person holds two of them
NAMES = ("title", "location", "address")

Entry = Mapping[str, Json]


@dataclass(frozen=True)
class Observation:
    """What was seen of a day, in its canonical form."""

    schedule_date: date
    payload: Mapping[str, Json]
    payload_hash: str
    shifts: tuple[Shift, ...]


def observe(payload: object) -> Observation:
    """The canonical form of a payload; InvalidArgument, naming the place in it, when it has none."""
    found = checked_json(payload)
    schedule_date = read_date("schedule_date", found.get("schedule_date"))
    entries = canonical_entries(found.get("entries"))
    rest = {key: tidied(value) for key, value in found.items() if key not in ("schedule_date", "entries")}
    canonical: dict[str, Json] = {**rest, "schedule_date": schedule_date.isoformat(), "entries": entries}
    return Observation(
        schedule_date, canonical, digest_of_checked(canonical), shifts_of(cast("Sequence[Entry]", entries))
    )


def canonical_entries(value: Json) -> list[Json]:
    """Every entry in its form, in one order, equal ones once."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidArgument(f"entries: must be a list, not {shown(value)}")
    if len(value) > MAX_ENTRIES:
        raise InvalidArgument(f"entries: has {len(value)} entries; at most {MAX_ENTRIES} make a day")
    entries = [canonical_entry(f"entries[{nth}]", each) for nth, each in enumerate(value)]
    found = {bytes_of_checked(entry): entry for entry in entries}
    return [entry for _, entry in sorted(found.items(), key=lambda each: (*_order_of(each[1]), each[0]))]


def canonical_entry(place: str, value: Json) -> dict[str, Json]:
    """One entry in its form: its times, its title, where it is, and whatever else it holds."""
    if not isinstance(value, dict):
        raise InvalidArgument(f"{place}: must be an object, not {shown(value)}")
    entry = {key: tidied(each) for key, each in value.items() if key not in NAMES}
    entry["start"] = read_time(f"{place}.start", value.get("start"))
    entry["end"] = read_time(f"{place}.end", value.get("end"))
    for name in NAMES:
        if found := canonical_name(f"{place}.{name}", value.get(name)):
            entry[name] = found
        elif name == "title":
            raise InvalidArgument(f"{place}.title: must be there, and not empty")
    return entry


def canonical_name(place: str, value: Json) -> str:
    """A text that names somebody or some place; empty when it is missing."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidArgument(f"{place}: must be text, not {shown(value)}")
    name = as_name(value)
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidArgument(f"{place}: has {len(name)} characters; at most {MAX_NAME_LENGTH} make a name")
    return name


def _order_of(entry: Mapping[str, Any]) -> tuple[str, str, str, str]:
    return entry["start"], entry["end"], entry["title"].casefold(), entry.get("location", "").casefold()
