"""A shift as it is compared: who, where, when and what for, taken from the words of one entry.

    Anna Svensson • Städning kök       Storgatan 12 B, 412 58 Göteborg, Port 3
    -------------   ------------       ---------- ----  --- -- --------  ------
    customer_name   raw_type_label     street   number  postal  area, city  address_detail

The title stands beside its parts and the address has no word that is in none of its parts, so whatever a person sees
change is a change of the shift. Two shifts are alike when a reader sees the same in both: `Shift.reading`. What is only
spelled otherwise (case, accents, punctuation, look-alikes of a camera) or says a thing twice (how long it takes, the
city of the address) does not count.

Two fingerprints pair shifts for the diff although they read differently: of the place (street, number, area) and of the
customer (every word of the name, in any order). A shift without a customer is known by its label, or else by its type;
one without an address by its city alone, so such shifts share a place. Nothing is ever dropped because two
fingerprints are equal.
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
    meant_label,
)
from duly.apps.ingest.spelling import MINUTES_OF_DAY, as_name, folded, folded_number, minutes, read_words, repaired
from duly.canonical_json import Json, digest_of_checked

__all__ = ["FIELDS", "Reading", "Shift", "distance", "is_mark", "read_shift", "shift_of", "shifts_of", "title_words"]

BULLET = re.compile(r"\s*[•·]\s*")
DURATION = re.compile(r"\s*\b(?:(\d{1,2})\s?h(?:\s?(\d{1,2})\s?m(?:in)?)?|(\d{1,3})\s?m(?:in)?)$", re.IGNORECASE)
POSTAL_CODE = re.compile(r"(?:^|[\s,])(\d{3})\s?(\d{2})(?=$|[\s,])")
COMPANY_WORDS = {folded(word) for word in ("AB", "HB", "Städservice", "Städtjänst", "Städtjänster", "Städning")}
MISREAD_NUMBER = re.compile(r"[OoIiLl|]{2,4}")


class Reading(NamedTuple):
    """What a reader sees of a shift: equal where two are only spelled differently."""

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
    title: str = ""  # of a shift that the first canonicaliser wrote it is empty
    address_detail: str = ""

    @cached_property
    def document(self) -> dict[str, str]:
        """The shift as JSON; what the first canonicaliser did not write is there where it says something."""
        values = {name: getattr(self, name) for name in FIELDS}
        return {name: value for name, value in values.items() if value or name not in ADDED_FIELDS}

    @cached_property
    def text(self) -> str:
        """The document, written down."""
        return orjson.dumps(self.document).decode()

    @cached_property
    def value_hash(self) -> str:
        """Equal exactly when every field is."""
        return digest_of_checked(cast("Json", self.document))

    @property
    def order(self) -> tuple[str, ...]:
        """Where it stands in a day."""
        return (self.start, self.end, self.location_fingerprint, self.customer_fingerprint, self.value_hash)

    @cached_property
    def reading(self) -> Reading:
        """What a reader sees of it."""
        return Reading(self.start, self.end, title_words(self.title), self._address_words)

    @property
    def _address_words(self) -> tuple[tuple[str, ...], ...]:
        """The words of each part of the address."""
        parts = (self.street, self.postal_code, self.postal_area, self.city, self.address_detail)
        return ((folded_number(self.street_number),), *(read_words(part) if part else () for part in parts))

    @property
    def shown_title(self) -> str:
        """Its title, for people."""
        return self.title or " • ".join(filter(None, (self.customer_name, self.raw_type_label)))

    @property
    def is_cancelled(self) -> bool:
        """Does its title say that it is cancelled?"""
        return any(map(is_mark, read_words(self.shown_title)))

    @cached_property
    def address(self) -> str:
        """Where it is, for people: everything that is known of it."""
        street = f"{self.street} {self.street_number}".strip()
        city = f"{self.postal_code} {self.city}".strip()
        return ", ".join(filter(None, (street, city, self.address_detail)))


FIELDS = tuple(Shift.__dataclass_fields__)
ADDED_FIELDS = frozenset(("title", "address_detail"))


def title_words(title: str) -> tuple[str, ...]:
    """The words that a reader sees in a title; a label that was misread is that label."""
    return tuple(read_words(label)[0] if (label := meant_label(word)) else word for word in read_words(title))


def is_mark(word: str) -> bool:
    """Does a word say that a shift is cancelled?"""
    return folded(word) in CANCELLED


def read_shift(document: Mapping[str, Any]) -> Shift:
    """A shift from its JSON; what another worker did not write is empty."""
    return Shift(**{name: str(document.get(name) or "") for name in FIELDS})


def distance(one: Shift, other: Shift) -> int:
    """How many minutes lie between two shifts' times, around the clock: 23:50 and 00:10 are 20 apart."""
    return _apart(one.start, other.start) + _apart(one.end, other.end)


def _apart(one: str, other: str) -> int:
    away = abs(minutes(one) - minutes(other))
    return min(away, MINUTES_OF_DAY - away)


def shifts_of(entries: Sequence[Mapping[str, Any]]) -> tuple[Shift, ...]:
    """The shifts of canonical entries, in order; entries that mean the same are one shift."""
    found = {shift.value_hash: shift for shift in map(shift_of, entries)}
    return tuple(sorted(found.values(), key=lambda shift: shift.order))


def shift_of(entry: Mapping[str, Any]) -> Shift:
    """The shift that a canonical entry describes."""
    location, address = entry.get("location") or "", entry.get("address") or ""
    return _shift_of(entry["start"], entry["end"], entry["title"], location, address)


@lru_cache(maxsize=8192)
def _shift_of(start: str, end: str, title: str, location: str, address: str) -> Shift:
    where = _address_of(address or (location if _has_digit(location) else ""), location)
    what = _title_of(_without_durations(title))
    kind = what.kind
    if kind is ShiftType.UNKNOWN and where.street and where.street_number:
        kind = ShiftType.WORK
    return Shift(
        start=start,
        end=end,
        customer_name=what.customer,
        customer_fingerprint=_customer_fingerprint(what.customer, what.label, kind),
        street=where.street,
        street_number=where.street_number,
        postal_code=where.postal_code,
        postal_area=where.postal_area,
        city=where.city,
        location_fingerprint=_location_fingerprint(where),
        shift_type=kind,
        raw_type_label=what.label,
        title=_without_durations(title, (minutes(end) - minutes(start) - 1) % MINUTES_OF_DAY + 1),
        address_detail=where.detail,
    )


# Who and what for -----------------------------------------------------------------------------------------------------


class _Title(NamedTuple):
    """The parts of a title."""

    customer: str
    label: str
    kind: ShiftType


def _without_durations(title: str, length: int | None = None) -> str:
    """The title without how long it takes at its end (4h, 2h 30m, 25m); with a length only where it says just that."""
    while found := DURATION.search(title):
        hours, more, alone = (int(part or 0) for part in found.groups())
        shorter = title[: found.start()].rstrip(" •·")
        if not shorter or length not in (None, 60 * hours + more + alone):
            break
        title = shorter
    return title


@lru_cache(maxsize=8192)
def _title_of(title: str) -> _Title:
    """Customer, label and type: split at a bullet, or else at the first word that is a label."""
    first, *rest = BULLET.split(title, maxsplit=1)
    if not rest:
        return _title_without_bullet(title.split())
    before, after = first.split(), rest[0].split()
    label, kind = _label_of(after)
    if kind is ShiftType.UNKNOWN and _is_label(before):  # Städning • Anna
        before, (label, kind) = after, _label_of(before)
    return _Title(_customer_of(before), label, kind)


def _title_without_bullet(words: Sequence[str]) -> _Title:
    """The same where only words tell: a label that names also have counts alone, or before a preposition."""
    marks, bare = [word for word in words if is_mark(word)], [word for word in words if not is_mark(word)]
    for at in range(len(bare)):
        found = find_label(tuple(bare[at:]))
        if not found:
            continue
        label, kind, length = found
        rest = bare[at + length :]
        next_word = folded(rest[0]) if rest else ""
        if next_word in COMPANY_WORDS or (label in WEAK_LABELS and (at or (rest and next_word not in PREPOSITIONS))):
            continue
        if not at and len(rest) > 1 and kind is ShiftType.WORK and next_word in CUSTOMER_FOLLOWS:
            return _Title(as_name(" ".join(rest[1:])), as_name(" ".join([label, *marks])), kind)
        return _Title(as_name(" ".join(bare[:at])), as_name(" ".join([label, *rest, *marks])), kind)
    kind = ShiftType.UNAVAILABLE if marks else ShiftType.UNKNOWN
    return _Title(as_name(" ".join(bare)), as_name(" ".join(marks)), kind)


def _label_of(words: Sequence[str]) -> tuple[str, ShiftType]:
    """What words after a bullet say that a shift is for, and the type of that."""
    bare = [at for at, word in enumerate(words) if not is_mark(word)]
    if not bare:
        return as_name(" ".join(words)), ShiftType.UNAVAILABLE if words else ShiftType.UNKNOWN
    at = bare[0]
    if found := find_label(tuple(words[at:])):
        label, kind, length = found
        return as_name(" ".join([*words[:at], label, *words[at + length :]])), kind
    return as_name(" ".join(words)), ShiftType.UNKNOWN


def _is_label(words: Sequence[str]) -> bool:
    """Are these words a label and nothing else?"""
    found = find_label(tuple(words))
    return found is not None and found[2] == len(words)


def _customer_of(words: Sequence[str]) -> str:
    """The name of a customer, without a mark that says that the shift is cancelled."""
    return as_name(" ".join(word for word in words if not is_mark(word)))


def _customer_fingerprint(customer: str, label: str, kind: ShiftType) -> str:
    """The customer's, whatever the order of the name's words; without one the label's, or else the type's.

    Words that every company has do not count.
    """
    every = sorted(fold for word in customer.split() if (fold := folded(word)))
    if words := [word for word in every if word not in COMPANY_WORDS] or every:
        return _sha256("customer", *words)
    return _sha256("label", folded(label)) if label else _sha256("type", kind)


# Where ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Address:
    street: str = ""
    street_number: str = ""
    postal_code: str = ""
    postal_area: str = ""
    city: str = ""
    detail: str = ""


@lru_cache(maxsize=8192)
def _address_of(address: str, location: str) -> _Address:
    """The parts of an address; what it does not say of the city, the location does; the detail is all that is left."""
    hint = "" if _has_digit(location) else location
    if not address:
        return _Address(city=as_name(hint))
    address = repaired(address)
    if found := POSTAL_CODE.search(address):
        code, before, area = f"{found[1]} {found[2]}", address[: found.start()], address[found.end() :]
        area = as_name(area.strip(" ,"))
    else:
        code, before, area = "", address, ""
    street, number, others, tail = _street_of(before)
    city, rest = _city_of(area, others, tail, hint)
    if location not in ("", city) and not {*read_words(location)} <= {*read_words(f"{address} {city}")}:
        rest = [*rest, location]
    return _Address(street, number, code, area, as_name(city), as_name(" ".join(rest)))


def _city_of(area: str, others: str, tail: Sequence[str], hint: str) -> tuple[str, Sequence[str]]:
    """The city, and what else an address says: the area, another part of the address, or what follows the number."""
    if area:
        return area, [others, *tail]
    if others:
        return others, tail
    return (" ".join(tail[-2:]), tail[:-2]) if tail else (hint, ())


def _street_of(text: str) -> tuple[str, str, str, Sequence[str]]:
    """Street, number, the other parts, and the words after the number: the part with a number in it is the street."""
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
    """The place's: street, number, and the area, or else the city."""
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
