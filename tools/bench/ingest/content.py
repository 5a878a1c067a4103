"""The content of a run's sessions, each a function of its number."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from enum import IntEnum
from functools import cache
from typing import Any
from uuid import UUID

from duly.apps.ingest.canonical import CanonicalDay, canonicalize

DAYS = 1000  # that are known of one person, at most
SHIFTS = 5  # of a day
CUSTOMERS = 5000
SEED = 0  # of who they are and where they live
FIRST_DAY = date(2020, 1, 1)
NEW_DAY = date(2026, 3, 1)
NEW_USERS = 1_000_000  # people of whom nothing is known have numbers from here on
KEYS = 1 << 124  # and sessions have these
NAMES = (
    *("Anna", "Bo", "Cilla", "Dan", "Eva", "Frans", "Greta", "Hans", "Ida", "Jonas"),
    *("Karin", "Lars", "Maja", "Nils", "Olga", "Per", "Rut", "Sven", "Tove", "Ulf"),
)
SURNAMES = (
    *("Ek", "Berg", "Lund", "Holm", "Dahl", "Åberg", "Öst", "Sjö", "Fors", "Nyman"),
    *("Lind", "Ahl", "Hed", "Falk", "Ros", "Kvist", "Alm", "Norén", "Blom", "Ström"),
)
STREETS = (
    *("Stor", "Lill", "Kyrko", "Skol", "Ängs", "Sjö", "Berg", "Park", "Strand", "Väst"),
    *("Norr", "Söder", "Linné", "Vasa", "Kungs", "Hamn", "Torg"),
)
PLACES = ("Göteborg", "Mölndal", "Billdal", "Kungälv", "Partille")
LABELS = ("Städning", "Fönsterputs", "Hemstädning", "Kontorsstädning")


class Kind(IntEnum):
    """What a session changes about its day."""

    NEW = 0
    CHANGED = 1
    SAME = 2
    SAME_TOO = 3


@dataclass(frozen=True)
class Known:
    """A stored day."""

    schedule_date: date
    raw: dict[str, Any]
    seen: CanonicalDay


@dataclass(frozen=True)
class Shown:
    """A session and its content."""

    key: UUID
    user_id: int
    kind: Kind
    payload: dict[str, Any]
    known: Known | None  # of the day, before the first session of this run


@cache
def customers() -> Sequence[dict[str, str]]:
    """Return all customers with their addresses."""
    some = random.Random(SEED)  # noqa: S311
    return [
        {
            "title": f"{some.choice(NAMES)} {some.choice(SURNAMES)}  • {some.choice(LABELS)}",
            "address": f"{some.choice(STREETS)}gatan {some.randint(1, 99)}, 4{some.randint(10, 99)} "
            f"{some.randint(10, 99)} {some.choice(PLACES)}",
        }
        for _ in range(CUSTOMERS)
    ]


def entries_of(seed: int) -> list[dict[str, Any]]:
    """Build the shifts of a day: different customers, one after the other."""
    some = random.Random(seed)  # noqa: S311
    return [
        {"start": f"{7 + 2 * nth:02}:{some.randrange(0, 60, 5):02}", "end": f"{9 + 2 * nth}.00", **customer}
        for nth, customer in enumerate(some.sample(customers(), SHIFTS))
    ]


@cache
def known_days(several: int) -> Sequence[Known]:
    """Build the stored days of one person; other people have the same."""
    return [known_day(nth) for nth in range(min(several, DAYS))]


def known_day(nth: int) -> Known:
    """Build a stored day."""
    day = FIRST_DAY + timedelta(days=nth)
    raw = {"schedule_date": day.isoformat(), "entries": entries_of(nth)}
    return Known(day, raw, canonicalize(raw))


def known_user(place: int) -> int:
    """Return the person of the stored day with this number."""
    return 1 + place // DAYS


def shown(number: int, stored: int) -> Shown:
    """Build the session with this number, beside this many stored days."""
    kind, nth = Kind(number % len(Kind)), number // len(Kind)
    key = UUID(int=KEYS + number)
    if kind is Kind.NEW:
        day = NEW_DAY + timedelta(days=nth % 365)
        payload = {"schedule_date": day.isoformat(), "entries": entries_of(DAYS + number)}
        return Shown(key, NEW_USERS + nth // 365, kind, payload, None)
    half = max(1, stored // 2)  # days at even places stay as they are, the others change
    if kind is Kind.CHANGED:
        place = 2 * (nth % half) + 1
        known = known_days(stored)[place % DAYS]
        first, *rest = known.raw["entries"]
        moved = {**first, "start": f"06:{nth // half % 60:02}"}  # each time another
        return Shown(key, known_user(place), kind, {**known.raw, "entries": [moved, *rest]}, known)
    place = 2 * ((2 * nth + kind - Kind.SAME) % half)
    known = known_days(stored)[place % DAYS]
    return Shown(key, known_user(place), kind, known.raw, known)
