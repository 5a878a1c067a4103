"""The day that a page is about, read from its head.

    Tisdag 24 februari 2026      Idag, tis 24 feb      Tuesday, February 24, 2026      2026-02-24      24/2 2026

The weekday is decoration and need not be right. Two numbers alone are no day: 08.10 is a clock, 7.5 an amount, 2.1 a
version, 1/2 a count. Only 24/2 beside a weekday, or beside today, is one without a year. A day that is made up would
remove what is known of it, and a day that is not found only asks for a better photograph.

Of several lines that could be the day the best is taken: one with a weekday, then one with a year, one that says
nothing else, the tallest, the longest, the uppermost.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from difflib import SequenceMatcher

from duly.ingest.eyes.lines import Line
from duly.ingest.eyes.spelling import bare

__all__ = ["Named", "find_day"]

MONTHS = (
    ("januari", "january"), ("februari", "february"), ("mars", "march"), ("april",), ("maj", "may"), ("juni", "june"),
    ("juli", "july"), ("augusti", "august"), ("september",), ("oktober", "october"), ("november",),
    ("december",),
)  # fmt: skip
WEEKDAYS = (
    "måndag", "tisdag", "onsdag", "torsdag", "fredag", "lördag", "söndag",
    "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday",
)  # fmt: skip
SHORT_WEEKDAYS = frozenset(
    {
        "man", "mon", "tis", "tue", "tues", "ons", "wed", "tor", "tors", "thu", "thur", "thurs", "fre", "fri", "lor",
        "sat", "son", "sun",
    }
)  # fmt: skip
SHORTEST_MISREAD = 5
ALIKE = 0.8
WORD = re.compile(r"[^\W\d_]+|\d+(?:st|nd|rd|th|:e|e)?\b|\d+", re.IGNORECASE)
NO_DAY = re.compile(
    r"""
    \bv(?:ersion)?\.?\s?\d+(?:[.-]\d+)+                                          # v2.1
    | \b(?:v|vecka|week)\.?\s?\d{1,2}\b                                          # v. 9
    | (?<![\d.])\d{1,2}(?:[.:,]\d{1,2})?\s?(?:h|tim|timmar|hours?|min)\b          # 7.5 h
    | (?<![\d.])\d{1,2}(?:[.:,]\d{1,2})+(?!\.?\d)                                 # 08.10
    """,
    re.IGNORECASE | re.VERBOSE,
)
YEAR_FIRST = re.compile(r"(?<!\d)(\d{4})(?:[-/]|\.(?=\d{2}\.\d{2}))(\d{1,2})[-/.](\d{1,2})(?!\d)")
YEAR_LAST = re.compile(r"(?<!\d)(\d{1,2})(?:/|\.(?=\d{1,2}\.))(\d{1,2})[/.\s-]+(\d{4})(?!\d)")
NO_YEAR = re.compile(r"(?<![\d/])(\d{1,2})/(\d{1,2})(?![\d/])")
ORDINAL = re.compile(r"(\d+)\D*")
NEAR = frozenset({"idag", "imorgon", "igar", "today", "tomorrow", "yesterday"})
DECORATION = NEAR | {"den", "the", "of", "vecka", "week", "v", "schema", "schedule", "dag", "day"}
FIRST_YEAR, LAST_YEAR = 2000, 2199
Read = tuple[int | None, int, int, int]  # year, month, day, and how many words that takes


@dataclass(frozen=True, slots=True)
class Named:
    """A day that a line names, and how much that looks like the head of a page."""

    date: date
    line: Line
    rank: tuple[bool, bool, bool, float, int, float]


def find_day(lines: Sequence[Line], default_year: int) -> Named | None:
    """The day that these lines name, if any does."""
    found = [named for line in lines if (named := named_in(line, default_year))]
    return max(found, key=lambda named: named.rank) if found else None


def named_in(line: Line, default_year: int) -> Named | None:
    """The day that a line names."""
    text = NO_DAY.sub(" ", line.text)
    words = WORD.findall(text)
    has_weekday = any(is_weekday(word) for word in words)
    rest = [word for word in words if not (is_weekday(word) or bare(word) in DECORATION)]
    read = numeric(text) or spoken(words)
    if read is None and len(rest) == 2 and (has_weekday or any(bare(word) in NEAR for word in words)):
        read = short(text)
    if read is None:
        return None
    year, month, day, used = read
    try:
        when = date(year or default_year, month, day)
    except ValueError:
        return None
    if not FIRST_YEAR <= when.year <= LAST_YEAR:
        return None
    return Named(when, line, (has_weekday, bool(year), len(rest) <= used, line.height, len(line.text), -line.middle))


def numeric(text: str) -> Read | None:
    """A day written as three numbers: 2026-02-24, 24/2 2026."""
    if found := YEAR_FIRST.search(text):
        return int(found[1]), int(found[2]), int(found[3]), 3
    if found := YEAR_LAST.search(text):
        return int(found[3]), int(found[2]), int(found[1]), 3
    return None


def short(text: str) -> Read | None:
    """A day written as two numbers: 24/2."""
    found = NO_YEAR.search(text)
    return (None, int(found[2]), int(found[1]), 2) if found else None


def spoken(words: Sequence[str]) -> Read | None:
    """A day around the name of a month: 24 februari 2026, February 24, 2026."""
    for at, word in enumerate(words):
        month = month_of(word)
        if month is None:
            continue
        before = number(words[at - 1]) if at else None
        after = number(words[at + 1]) if at + 1 < len(words) else None
        later = number(words[at + 2]) if at + 2 < len(words) else None
        if before is not None and 1 <= before <= 31:
            year = after if after is not None and after >= FIRST_YEAR else None
            return year, month, before, 2 + (year is not None)
        if after is not None and 1 <= after <= 31:
            year = later if later is not None and later >= FIRST_YEAR else None
            return year, month, after, 2 + (year is not None)
    return None


def number(word: str) -> int | None:
    """The number that a word is, an ordinal too."""
    found = ORDINAL.fullmatch(word)
    return int(found[1]) if found and len(found[1]) <= 4 else None


def month_of(word: str) -> int | None:
    """1 to 12 for the name of a month, short or a little misread."""
    letters = bare(word)
    if len(letters) < 3 or not letters.isalpha():
        return None
    for nth, names in enumerate(MONTHS, 1):
        if any(name == letters or (len(letters) in (3, 4) and name.startswith(letters)) for name in names):
            return nth
    return next((nth for nth, names in enumerate(MONTHS, 1) if any(is_alike(letters, name) for name in names)), None)


def is_weekday(word: str) -> bool:
    """Is it the name of a weekday, short or a little misread?"""
    letters = bare(word)
    return letters in SHORT_WEEKDAYS or any(letters == bare(day) or is_alike(letters, bare(day)) for day in WEEKDAYS)


def is_alike(letters: str, name: str) -> bool:
    """Is a long word nearly this name?"""
    if len(letters) < SHORTEST_MISREAD or abs(len(letters) - len(name)) > 1:
        return False
    return SequenceMatcher(None, letters, name, autojunk=False).ratio() >= ALIKE
