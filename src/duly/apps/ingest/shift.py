"""A shift as it is compared: customer, location, times and type, parsed from one entry.

    Anna Svensson • Städning kök       Storgatan 12 B, 412 58 Göteborg, Port 3
    -------------   ------------       ---------- ----  --- -- --------  ------
    customer_name   raw_type_label     street   number  postal  area, city  address_detail

The full title is kept beside its parts, and the parts of the address contain all of its words, so every visible change
is a change of the shift. Two shifts look the same when their `Shift.comparison_key` is equal. Spelling (case, accents,
punctuation, letters that OCR confuses) and redundant text (the duration, the city of the address) do not count.

Two fingerprints pair shifts for the diff although they look different: of the location (street, number, area) and of
the customer (every word of the name, in any order). A shift without a customer is identified by its label, or else by
its type; one without an address by its city alone, so such shifts share a location. Equal fingerprints never cause a
shift to be dropped.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, cast

import orjson

from duly.apps.ingest.labels import (
    CANCELLED,
    CUSTOMER_FOLLOWS,
    PREPOSITIONS,
    WEAK_LABELS,
    ShiftType,
    find_label,
    match_label,
)
from duly.apps.ingest.spelling import (
    MINUTES_OF_DAY,
    as_name,
    comparable_words,
    folded,
    folded_number,
    minutes_since_midnight,
    repair_misread_letters,
)
from duly.canonical_json import Json, checked_json_digest

BULLET = re.compile(r"\s*[•·]\s*")
DURATION = re.compile(r"\s*\b(?:(\d{1,2})\s?h(?:\s?(\d{1,2})\s?m(?:in)?)?|(\d{1,3})\s?m(?:in)?)$", re.IGNORECASE)
POSTAL_CODE = re.compile(r"(?:^|[\s,])(\d{3})\s?(\d{2})(?=$|[\s,])")
COMPANY_WORDS = {folded(word) for word in ("AB", "HB", "Städservice", "Städtjänst", "Städtjänster", "Städning")}
MISREAD_NUMBER = re.compile(r"[OoIiLl|]{2,4}")


class ComparisonKey(NamedTuple):
    """The visible text of a shift; equal where two shifts differ only in spelling."""

    start: str
    end: str
    title: tuple[str, ...]
    address: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Shift:
    """One shift of a day; every field is text, empty where nothing is known."""

    start: str
    end: str
    customer_name: str
    customer_fingerprint: str
    street: str
    street_number: str
    postal_code: str
    postal_area: str
    city: str
    location_fingerprint: str
    shift_type: str
    raw_type_label: str
    title: str = ""  # empty in shifts that the first canonicalizer wrote
    address_detail: str = ""

    @cached_property
    def document(self) -> dict[str, str]:
        """The shift as a JSON object; fields that the first canonicalizer did not have are left out where empty."""
        values = {name: getattr(self, name) for name in FIELDS}
        return {name: value for name, value in values.items() if value or name not in ADDED_FIELDS}

    @cached_property
    def json_text(self) -> str:
        """The document as JSON text."""
        return orjson.dumps(self.document).decode()

    @cached_property
    def value_hash(self) -> str:
        """A hash of the document; equal exactly when every field is."""
        return checked_json_digest(cast("Json", self.document))

    @property
    def sort_key(self) -> tuple[str, ...]:
        """The order of shifts in a day."""
        return (self.start, self.end, self.location_fingerprint, self.customer_fingerprint, self.value_hash)

    @cached_property
    def comparison_key(self) -> ComparisonKey:
        """The visible text, for comparing."""
        return ComparisonKey(self.start, self.end, title_words(self.title), self._address_words)

    @property
    def _address_words(self) -> tuple[tuple[str, ...], ...]:
        """The comparable words of each part of the address."""
        parts = (self.street, self.postal_code, self.postal_area, self.city, self.address_detail)
        return ((folded_number(self.street_number),), *(comparable_words(part) if part else () for part in parts))

    @property
    def display_title(self) -> str:
        """The title to show to people."""
        return self.title or " • ".join(filter(None, (self.customer_name, self.raw_type_label)))

    @property
    def is_cancelled(self) -> bool:
        """Whether the title has a word for cancelled."""
        return any(map(is_cancellation_word, comparable_words(self.display_title)))

    @cached_property
    def address(self) -> str:
        """The full address to show to people."""
        street = f"{self.street} {self.street_number}".strip()
        city = f"{self.postal_code} {self.city}".strip()
        return ", ".join(filter(None, (street, city, self.address_detail)))


FIELDS = tuple(Shift.__dataclass_fields__)
ADDED_FIELDS = frozenset(("title", "address_detail"))


def title_words(title: str) -> tuple[str, ...]:
    """Return the comparable words of a title; a misread label is replaced by the label."""
    return tuple(
        comparable_words(label)[0] if (label := match_label(word)) else word for word in comparable_words(title)
    )


def is_cancellation_word(word: str) -> bool:
    """Return whether a word means cancelled."""
    return folded(word) in CANCELLED


def shift_from_json(document: Mapping[str, Any]) -> Shift:
    """Build a shift from its JSON object; missing fields are empty."""
    return Shift(**{name: str(document.get(name) or "") for name in FIELDS})


def distance(one: Shift, other: Shift) -> int:
    """Return the minutes between starts plus those between ends, around the clock: 23:50 and 00:10 are 20 apart."""
    return _apart(one.start, other.start) + _apart(one.end, other.end)


def _apart(one: str, other: str) -> int:
    away = abs(minutes_since_midnight(one) - minutes_since_midnight(other))
    return min(away, MINUTES_OF_DAY - away)


def shifts_from_entries(entries: Sequence[Mapping[str, Any]]) -> tuple[Shift, ...]:
    """Build the shifts of canonical entries, in order; entries with equal shifts are one."""
    found = {shift.value_hash: shift for shift in map(shift_from_entry, entries)}
    return tuple(sorted(found.values(), key=lambda shift: shift.sort_key))


def shift_from_entry(entry: Mapping[str, Any]) -> Shift:
    """Build the shift that a canonical entry describes."""
    location, address = entry.get("location") or "", entry.get("address") or ""
    return _build_shift(entry["start"], entry["end"], entry["title"], location, address)


@lru_cache(maxsize=8192)
def _build_shift(start: str, end: str, title: str, location: str, address: str) -> Shift:
    where = _parse_address(address or (location if _has_digit(location) else ""), location)
    what = _parse_title(_without_durations(title))
    shift_type = what.shift_type
    if shift_type is ShiftType.UNKNOWN and where.street and where.street_number:
        shift_type = ShiftType.WORK
    return Shift(
        start=start,
        end=end,
        customer_name=what.customer,
        customer_fingerprint=_customer_fingerprint(what.customer, what.label, shift_type),
        street=where.street,
        street_number=where.street_number,
        postal_code=where.postal_code,
        postal_area=where.postal_area,
        city=where.city,
        location_fingerprint=_location_fingerprint(where),
        shift_type=shift_type,
        raw_type_label=what.label,
        title=_without_durations(
            title, (minutes_since_midnight(end) - minutes_since_midnight(start) - 1) % MINUTES_OF_DAY + 1
        ),
        address_detail=where.detail,
    )


# Customer and type ----------------------------------------------------------------------------------------------------


class _Title(NamedTuple):
    """Customer, label and type of a title."""

    customer: str
    label: str
    shift_type: ShiftType


def _without_durations(title: str, length: int | None = None) -> str:
    """Return the title without a duration at its end (4h, 2h 30m); with `length` only a duration equal to it."""
    while found := DURATION.search(title):
        hours, more, alone = (int(part or 0) for part in found.groups())
        shorter = title[: found.start()].rstrip(" •·")
        if not shorter or length not in (None, 60 * hours + more + alone):
            break
        title = shorter
    return title


@lru_cache(maxsize=8192)
def _parse_title(title: str) -> _Title:
    """Parse a title: split at a bullet, or else at the first word that is a label."""
    first, *rest = BULLET.split(title, maxsplit=1)
    if not rest:
        return _title_without_bullet(title.split())
    before, after = first.split(), rest[0].split()
    label, shift_type = _parse_label(after)
    if shift_type is ShiftType.UNKNOWN and _is_label(before):  # Städning • Anna
        before, (label, shift_type) = after, _parse_label(before)
    return _Title(_parse_customer(before), label, shift_type)


def _title_without_bullet(words: Sequence[str]) -> _Title:
    """Parse a title without a bullet; a weak label counts only alone or before a preposition."""
    marks, bare = (
        [word for word in words if is_cancellation_word(word)],
        [word for word in words if not is_cancellation_word(word)],
    )
    for at in range(len(bare)):
        found = find_label(tuple(bare[at:]))
        if not found:
            continue
        label, shift_type, length = found
        rest = bare[at + length :]
        next_word = folded(rest[0]) if rest else ""
        if next_word in COMPANY_WORDS or (label in WEAK_LABELS and (at or (rest and next_word not in PREPOSITIONS))):
            continue
        if not at and len(rest) > 1 and shift_type is ShiftType.WORK and next_word in CUSTOMER_FOLLOWS:
            return _Title(as_name(" ".join(rest[1:])), as_name(" ".join([label, *marks])), shift_type)
        return _Title(as_name(" ".join(bare[:at])), as_name(" ".join([label, *rest, *marks])), shift_type)
    shift_type = ShiftType.UNAVAILABLE if marks else ShiftType.UNKNOWN
    return _Title(as_name(" ".join(bare)), as_name(" ".join(marks)), shift_type)


def _parse_label(words: Sequence[str]) -> tuple[str, ShiftType]:
    """Return the label in the words after a bullet, and its type."""
    bare = [at for at, word in enumerate(words) if not is_cancellation_word(word)]
    if not bare:
        return as_name(" ".join(words)), ShiftType.UNAVAILABLE if words else ShiftType.UNKNOWN
    at = bare[0]
    if found := find_label(tuple(words[at:])):
        label, shift_type, length = found
        return as_name(" ".join([*words[:at], label, *words[at + length :]])), shift_type
    return as_name(" ".join(words)), ShiftType.UNKNOWN


def _is_label(words: Sequence[str]) -> bool:
    """Return whether these words are exactly a label."""
    found = find_label(tuple(words))
    return found is not None and found[2] == len(words)


def _parse_customer(words: Sequence[str]) -> str:
    """Return the name of the customer, without words that mean cancelled."""
    return as_name(" ".join(word for word in words if not is_cancellation_word(word)))


def _customer_fingerprint(customer: str, label: str, shift_type: ShiftType) -> str:
    """Hash the words of the customer's name in any order; without a customer the label, or else the type.

    Words that are part of many company names do not count.
    """
    every = sorted(fold for word in customer.split() if (fold := folded(word)))
    if words := [word for word in every if word not in COMPANY_WORDS] or every:
        return _sha256("customer", *words)
    return _sha256("label", folded(label)) if label else _sha256("type", shift_type)


# Location -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Address:
    street: str = ""
    street_number: str = ""
    postal_code: str = ""
    postal_area: str = ""
    city: str = ""
    detail: str = ""


@lru_cache(maxsize=8192)
def _parse_address(address: str, location: str) -> _Address:
    """Parse an address; the location gives the city if the address has none, and the detail is the rest."""
    hint = "" if _has_digit(location) else location
    if not address:
        return _Address(city=as_name(hint))
    address = repair_misread_letters(address)
    if found := POSTAL_CODE.search(address):
        code, before, area = f"{found[1]} {found[2]}", address[: found.start()], address[found.end() :]
        area = as_name(area.strip(" ,"))
    else:
        code, before, area = "", address, ""
    street, number, others, tail = _parse_street(before)
    city, rest = _find_city(area, others, tail, hint)
    if location not in ("", city) and not {*comparable_words(location)} <= {*comparable_words(f"{address} {city}")}:
        rest = [*rest, location]
    return _Address(street, number, code, area, as_name(city), as_name(" ".join(rest)))


def _find_city(area: str, others: str, tail: Sequence[str], hint: str) -> tuple[str, Sequence[str]]:
    """Return the city (postal area, another part of the address, or the words after the number) and the rest."""
    if area:
        return area, [others, *tail]
    if others:
        return others, tail
    return (" ".join(tail[-2:]), tail[:-2]) if tail else (hint, ())


def _parse_street(text: str) -> tuple[str, str, str, Sequence[str]]:
    """Return street, number, other parts, and words after the number; the street is the part with a number in it."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    at = next((nth for nth, part in enumerate(parts) if _has_number(part)), 0)
    if not parts:
        return "", "", "", ()
    words = parts[at].split()
    others = " ".join(parts[:at] + parts[at + 1 :])
    numbered = [nth for nth, word in enumerate(words) if _has_digit(word) or (nth and MISREAD_NUMBER.fullmatch(word))]
    if not numbered:
        return as_name(" ".join(words)), "", others, ()
    last = numbered[-1]
    number, tail = words[last], words[last + 1 :]
    if tail and len(tail[0]) == 1 and tail[0].isalpha():  # 12 B
        number, tail = number + tail[0], tail[1:]
    return as_name(" ".join(words[:last])), number.upper(), others, tail


def _location_fingerprint(where: _Address) -> str:
    """Hash street, number, and the postal area or else the city."""
    return _sha256(
        "place", folded(where.street), folded_number(where.street_number), folded(where.postal_area or where.city)
    )


def _has_number(text: str) -> bool:
    return _has_digit(text) or any(map(MISREAD_NUMBER.fullmatch, text.split()[1:]))


def _has_digit(text: str) -> bool:
    return any(letter.isdigit() for letter in text)


@lru_cache(maxsize=8192)
def _sha256(*parts: str) -> str:
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()
