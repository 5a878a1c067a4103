"""A shift as it is compared: who, where, when and what for, taken from the words of one entry.

    Anna Svensson • Städning 4h       Storgatan 12 B, 412 58 Göteborg
    -------------   --------          ---------- ----  --- -- --------
    customer_name   raw_type_label    street   number  postal  postal_area, city

Two fingerprints say what is the same although it reads differently: of the place (street, number, area) and of the
customer (every word of the name, in any order). A shift without a customer is known by its label, or else by its type;
one without an address by its city alone, so such shifts share a place. Fingerprints only pair shifts for the diff:
nothing is ever dropped because two of them are equal.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, cast

import orjson

from duly.ingest.labels import ShiftType, find_label
from duly.ingest.spelling import MINUTES_OF_DAY, as_name, as_text, folded, folded_number, minutes, repaired
from duly.kernel.canonical import Json, digest_of_checked

__all__ = ["FIELDS", "Shift", "distance", "read_shift", "shift_of", "shifts_of"]

BULLET = re.compile(r"\s*[•·]\s*")
DURATION = re.compile(r"\s*\b(?:\d{1,2}\s?h(?:\s?\d{1,2}\s?m(?:in)?)?|\d{1,3}\s?m(?:in)?)$", re.IGNORECASE)
POSTAL_CODE = re.compile(r"(?:^|[\s,])(\d{3})\s?(\d{2})(?=$|[\s,])")
COMPANY_WORDS = {folded(word) for word in ("AB", "HB", "Städservice", "Städtjänst", "Städtjänster", "Städning")}
MISREAD_NUMBER = re.compile(r"[OoIiLl|]{2,4}")
SHORT_NUMBER = re.compile(r"\d{1,2}")
ACTIVITIES = frozenset(ShiftType) - {ShiftType.WORK, ShiftType.UNKNOWN}


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

    @cached_property
    def document(self) -> dict[str, str]:
        """The shift as JSON."""
        return {name: getattr(self, name) for name in FIELDS}

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

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return self.city or as_text(f"{self.street} {self.street_number}")


FIELDS = tuple(Shift.__dataclass_fields__)


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
    customer, label, kind = _title_of(title)
    if kind is ShiftType.UNKNOWN and where.street and where.street_number:
        kind = ShiftType.WORK
    if kind in ACTIVITIES and not where.street:
        customer = ""
    return Shift(
        start=start,
        end=end,
        customer_name=customer,
        customer_fingerprint=_customer_fingerprint(customer, label, kind),
        street=where.street,
        street_number=where.street_number,
        postal_code=where.postal_code,
        postal_area=where.postal_area,
        city=where.city,
        location_fingerprint=_location_fingerprint(where),
        shift_type=kind,
        raw_type_label=label,
    )


# Who and what for -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8192)
def _title_of(title: str) -> tuple[str, str, ShiftType]:
    """Customer, label and type: split at a bullet, or else at the first word that is a label."""
    text = repaired(_without_durations(title))
    before, bullet, after = _split_at_bullet(text)
    words = tuple(before.split())
    if bullet:
        found = find_label(tuple(after.split()))
        label, kind = (found[0], found[1]) if found else (as_name(after), ShiftType.UNKNOWN)
        return _customer_of(words), label, kind
    for at in range(len(words)):
        if found := find_label(words[at:]):
            return _customer_of(words[:at]), found[0], found[1]
    return _customer_of(words), "", ShiftType.UNKNOWN


def _without_durations(title: str) -> str:
    """The title without how long it takes: 4h, 2h 30m, 25m at its end."""
    shorter = DURATION.sub("", title)
    while shorter != title and shorter:
        title, shorter = shorter, DURATION.sub("", shorter)
    return shorter or title


def _split_at_bullet(text: str) -> tuple[str, bool, str]:
    parts = BULLET.split(text, maxsplit=1)
    return (parts[0], True, _without_durations(parts[1])) if len(parts) == 2 else (text, False, "")


def _customer_of(words: Sequence[str]) -> str:
    """The name without words that every company has, and without numbers that stand between words."""
    bare = [word for word in words if folded(word) not in COMPANY_WORDS] or list(words)
    inner = [word for at, word in enumerate(bare) if not (0 < at < len(bare) - 1 and SHORT_NUMBER.fullmatch(word))]
    return as_name(" ".join(inner))


def _customer_fingerprint(customer: str, label: str, kind: ShiftType) -> str:
    """The customer's, whatever the order of the name's words; without one the label's, or else the type's."""
    if words := sorted(fold for word in customer.split() if (fold := folded(word))):
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


@lru_cache(maxsize=8192)
def _address_of(address: str, location: str) -> _Address:
    """The parts of an address; what it does not say of the city, the location does."""
    hint = "" if _has_digit(location) else location
    if not address:
        return _Address(city=as_name(hint))
    address = repaired(address)
    if found := POSTAL_CODE.search(address):
        code, before, area = f"{found[1]} {found[2]}", address[: found.start()], address[found.end() :]
        area = as_name(area.strip(" ,"))
    else:
        code, before, area = "", address, ""
    street, number, rest = _street_of(before)
    return _Address(street, number, code, area, area or as_name(rest or hint))


def _street_of(text: str) -> tuple[str, str, str]:
    """Street, number, and what is left of the text: the part with a number in it is the street."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    at = next((nth for nth, part in enumerate(parts) if _has_number(part)), 0)
    if not parts:
        return "", "", ""
    words = parts[at].split()
    others = " ".join(parts[:at] + parts[at + 1 :])
    numbered = [nth for nth, word in enumerate(words) if _has_digit(word) or (nth and MISREAD_NUMBER.fullmatch(word))]
    if not numbered:
        return as_name(" ".join(words)), "", others
    last = numbered[-1]
    number, tail = words[last], words[last + 1 :]
    if tail and len(tail[0]) == 1 and tail[0].isalpha():  # 12 B
        number, tail = number + tail[0], tail[1:]
    return as_name(" ".join(words[:last])), number.upper(), others or " ".join(tail[-2:])


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
