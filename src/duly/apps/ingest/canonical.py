"""Canonicalize the payload of a day; hash, stored snapshot and diff all use this form.

Times are HH:MM, texts have one spelling, names one casing, entries one order, and equal entries are merged. Unknown
keys are kept, normalized and hashed: they can lead to a new version, never to an event. Canonicalizing is idempotent,
so a stored payload can be canonicalized again: when a later canonicalizer finds a stored day equal under its own rules,
the day has not changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, cast

from duly.apps.ingest.shift import Shift, shifts_from_entries
from duly.apps.ingest.spelling import as_name, format_value, normalize_texts, parse_date, parse_time
from duly.canonical_json import Json, checked_json, checked_json_bytes, checked_json_digest
from duly.errors import InvalidArgument

CANONICALIZER = 2  # incremented when the same payload would get another form
MAX_ENTRIES = 500
MAX_NAME_LENGTH = 500  # characters; a notification contains up to two names
NAMES = ("title", "location", "address")

Entry = Mapping[str, Json]


@dataclass(frozen=True)
class CanonicalDay:
    """What a capture shows of a day, in canonical form."""

    schedule_date: date
    payload: Mapping[str, Json]
    payload_hash: str
    shifts: tuple[Shift, ...]


def canonicalize(payload: object) -> CanonicalDay:
    """Return the canonical form of a payload; InvalidArgument names the path of an invalid value."""
    found = checked_json(payload)
    schedule_date = parse_date("schedule_date", found.get("schedule_date"))
    entries = canonical_entries(found.get("entries"))
    rest = {key: normalize_texts(value) for key, value in found.items() if key not in ("schedule_date", "entries")}
    canonical: dict[str, Json] = {**rest, "schedule_date": schedule_date.isoformat(), "entries": entries}
    return CanonicalDay(
        schedule_date, canonical, checked_json_digest(canonical), shifts_from_entries(cast("Sequence[Entry]", entries))
    )


def canonical_entries(value: Json) -> list[Json]:
    """Return the entries in canonical form and order, equal ones once."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidArgument(f"entries: must be a list, not {format_value(value)}")
    if len(value) > MAX_ENTRIES:
        raise InvalidArgument(f"entries: has {len(value)} entries; at most {MAX_ENTRIES} make a day")
    entries = [canonical_entry(f"entries[{nth}]", each) for nth, each in enumerate(value)]
    found = {checked_json_bytes(entry): entry for entry in entries}
    return [entry for _, entry in sorted(found.items(), key=lambda each: (*_entry_sort_key(each[1]), each[0]))]


def canonical_entry(path: str, value: Json) -> dict[str, Json]:
    """Return one entry in canonical form: times, title, location, address, and its other keys."""
    if not isinstance(value, dict):
        raise InvalidArgument(f"{path}: must be an object, not {format_value(value)}")
    entry = {key: normalize_texts(each) for key, each in value.items() if key not in NAMES}
    entry["start"] = parse_time(f"{path}.start", value.get("start"))
    entry["end"] = parse_time(f"{path}.end", value.get("end"))
    for name in NAMES:
        if found := canonical_name(f"{path}.{name}", value.get(name)):
            entry[name] = found
        elif name == "title":
            raise InvalidArgument(f"{path}.title: must be there, and not empty")
    return entry


def canonical_name(path: str, value: Json) -> str:
    """Return a title, location or address in canonical form; empty when it is missing."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidArgument(f"{path}: must be text, not {format_value(value)}")
    name = as_name(value)
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidArgument(f"{path}: has {len(name)} characters; at most {MAX_NAME_LENGTH} make a name")
    return name


def _entry_sort_key(entry: Mapping[str, Any]) -> tuple[str, str, str, str]:
    return entry["start"], entry["end"], entry["title"].casefold(), entry.get("location", "").casefold()
