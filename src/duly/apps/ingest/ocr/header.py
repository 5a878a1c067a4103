"""Find the day that a page is about, in its head.

    Tisdag 24 februari 2026      Idag, tis 24 feb      Tuesday, February 24, 2026      2026-02-24      24/2 2026
    Montag, 7. September 2026    Mo 07.09.2026         ma 7.9.2026                     ke 9.9.         9. syyskuuta

Two numbers alone are no day: 08.10 is a clock, 7.5 an amount, 2.1 a version, 1/2 a count. Only 24/2 or 7.9. beside a
weekday, or beside today, is one without a year. A day that is made up would remove what is known of it, and a day
that is not found only asks for a better photograph.

The weekday is decoration and need not be right; Named.contradicts says so. It decides only where day and month could
be swapped: Friday 04/03/2026 is 3 April. Swedish, German and Finnish put the day first; elsewhere such a date without
a weekday that fits one reading has Named.is_ambiguous set.

Of several lines that could be the day the best is taken: one with a weekday, then one with a year, one that says
nothing else, the tallest, the longest, the uppermost.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from difflib import SequenceMatcher
from functools import lru_cache

from duly.apps.ingest.ocr.lines import Line
from duly.apps.ingest.ocr.spelling import bare

__all__ = ["LEAP_YEAR", "Named", "days_in", "find_day", "is_day_header", "says_today", "weekday_of"]

# Names, without marks and in small letters. Short forms of Swedish and English months are their first letters.
MONTHS = (
    ("januari", "january"), ("februari", "february"), ("mars", "march"), ("april",), ("maj", "may"), ("juni", "june"),
    ("juli", "july"), ("augusti", "august"), ("september",), ("oktober", "october"), ("november",),
    ("december",),
)  # fmt: skip
GERMAN_MONTHS = (
    ("januar", "janner"), ("februar", "feber"), ("marz", "maerz", "mrz"), (), ("mai",), (), (), (), (), (), (),
    ("dezember", "dez"),
)  # fmt: skip
FINNISH_MONTHS = (
    "tammi", "helmi", "maalis", "huhti", "touko", "kesa", "heina", "elo", "syys", "loka", "marras", "joulu",
)  # fmt: skip
DAY_FIRST_MONTHS = {name: nth for nth, names in enumerate(GERMAN_MONTHS, 1) for name in names} | {
    f"{name}{end}": nth for nth, name in enumerate(FINNISH_MONTHS, 1) for end in ("", "kuu", "kuuta", "kuussa", "k")
}
SWEDISH, ENGLISH, GERMAN, FINNISH = "sv", "en", "de", "fi"
WEEKDAYS = {
    SWEDISH: ("mandag man", "tisdag tis", "onsdag ons", "torsdag tor tors", "fredag fre", "lordag lor", "sondag son"),
    ENGLISH: (
        "monday mon", "tuesday tue tues", "wednesday wed", "thursday thu thur thurs", "friday fri", "saturday sat",
        "sunday sun",
    ),
    GERMAN: ("montag", "dienstag", "mittwoch", "donnerstag", "freitag", "samstag sonnabend", "sonntag"),
    FINNISH: (
        "maanantai maanantaina", "tiistai tiistaina", "keskiviikko keskiviikkona", "torstai torstaina",
        "perjantai perjantaina", "lauantai lauantaina", "sunnuntai sunnuntaina",
    ),
}  # fmt: skip
KNOWN_WEEKDAYS = {
    name: (nth, language)
    for language, days in WEEKDAYS.items()
    for nth, names in enumerate(days)
    for name in names.split()
}
# Two letters are a weekday only directly beside a date. Those that English has too leave day and month open.
TWO_LETTERS = {
    "mo": 0, "di": 1, "mi": 2, "do": 3, "fr": 4, "sa": 5, "so": 6,
    "ma": 0, "ti": 1, "ke": 2, "to": 3, "pe": 4, "la": 5, "su": 6, "lo": 5,
}  # fmt: skip
ALSO_ENGLISH = frozenset({"mo", "fr", "sa", "su"})
NO_WEEKDAYS = frozenset({"frida", "montage"})  # a name and a task, near to friday and montag
DOUBTFUL_ALONE = frozenset({"fri", "man", "son", "lor", "tor"})  # Swedish words and names; Mån and Lör are certain
MIN_MISREAD_LENGTH = 5
MIN_MISREAD_NAME_LENGTH = {SWEDISH: 5, ENGLISH: 5, GERMAN: 7, FINNISH: 7}
ALIKE = 0.8
WORD = re.compile(r"[^\W\d_]+|\d+(?:st|nd|rd|th|:e|e)?\b|\d+", re.IGNORECASE)
WEEK = r"\b(?:v|vecka|week|kw|woche|vko|viikko)\.?\s?\d{1,2}\b"
NO_DAY = re.compile(
    rf"""
    \bv(?:ersion)?\.?\s?\d+(?:[.-]\d+)+                                          # v2.1
    | {WEEK}                                                                     # v. 9
    | (?<![\d.])\d{{1,2}}(?:[.:,]\d{{1,2}})?\s?(?:h|tim|timmar|hours?|min|uhr|std|stunden|tuntia)\b  # 7.5 h
    | (?<![\d.])\d{{1,2}}(?:[.:,]\d{{1,2}})+(?!\.?\d)                             # 08.10
    """,
    re.IGNORECASE | re.VERBOSE,
)
YEAR_FIRST = re.compile(r"(?<!\d)(\d{4})(?:[-/]|\.(?=\d{2}\.\d{2}))(\d{1,2})[-/.](\d{1,2})(?!\d)")
YEAR_LAST = re.compile(r"(?<!\d)(\d{1,2})(/|\.(?=\d{1,2}\.))(\d{1,2})[/.\s-]+(\d{4})(?!\d)")
NO_YEAR = re.compile(r"(?<![\d/])(\d{1,2})/(\d{1,2})(?![\d/])")
DOTTED = re.compile(r"(?<![\d.,:])(\d{1,2})\.\s?(\d{1,2})\.(?!\d)")
ORDINAL = re.compile(r"(\d+)\D*")
DASH = r"\s?[-\u2010-\u2015]\s?"
DAYS_BEFORE = re.compile(rf"\d\.?{DASH}$")  # 7-13 september
DAYS_AFTER = re.compile(rf"{DASH}\d{{1,2}}(?![\d:./])")  # September 7-13
TODAY = re.compile(r"\bi\s(?:dag|morgon|går|gar)\b", re.IGNORECASE)
NEAR_DAY_FIRST = frozenset({"idag", "imorgon", "igar", "heute", "morgen", "gestern", "tanaan", "huomenna", "eilen"})
NEAR = NEAR_DAY_FIRST | {"today", "tomorrow", "yesterday"}
HEADER_WORDS = NEAR | {
    "den", "the", "of", "vecka", "week", "v", "dag", "day", "der", "am", "woche", "kw", "viikko", "vko", "tag",
}  # fmt: skip
DECORATION = HEADER_WORDS | {"schema", "schedule"}
DAY_FIRST_WORDS = NEAR_DAY_FIRST | {"den", "vecka", "schema", "dag", "der", "woche", "kw", "viikko", "vko", "tag"}
FIRST_YEAR, LAST_YEAR = 2000, 2199
LEAP_YEAR = 2024
NUMERIC, SPOKEN, SHORT = range(3)  # how a date is written, best first
Rank = tuple[bool, bool, bool, float, int, float]


@dataclass(frozen=True, slots=True)
class Named:
    """A day that a line names, and how much that looks like the head of a page."""

    date: date
    line: Line
    rank: Rank
    weekday: int | None = None  # as written, 0 is Monday
    contradicts: bool = False  # the weekday is not that of the date
    is_ambiguous: bool = False  # it may be another day: 04/03/2026, 7-13 september, or several days in find_day
    has_year: bool = True  # as written; otherwise it is the default year
    start: int = 0  # where it stands in the text of the line, with its weekday
    end: int = 0


@dataclass(frozen=True, slots=True)
class Written:
    """A date as it is written in a line."""

    kind: int
    start: int
    end: int
    year: int | None
    month: int
    day: int
    separator: str = ""  # between day and month, where both are numbers and the year is last or missing


@dataclass(frozen=True, slots=True)
class Weekday:
    """A weekday as it is written in a line."""

    nth: int
    language: str | None  # None for two letters that English has, too
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Scan:
    """What a line says about days: dates and weekdays, and words that are neither."""

    text: str
    dates: tuple[Written, ...]
    weekdays: tuple[Weekday, ...]
    rest: tuple[str, ...]


def find_day(lines: Sequence[Line], default_year: int) -> Named | None:
    """Find the day that these lines name, if any does."""
    found = [named for line in lines if (named := named_in(line, default_year))]
    return max(found, key=lambda named: named.rank) if found else None


def days_in(line: Line, default_year: int) -> list[Named]:
    """Find all days that a line names, from left to right, each with its span of characters."""
    scan = scanned(line.text)
    found = ((written, resolved(scan, written, default_year)) for written in scan.dates)
    return [named(line, scan, written, *day) for written, day in found if day]


def is_day_header(text: str) -> bool:
    """Check whether a line is nothing but days, as a header is: a weekday, a date, today, or several in a row."""
    days = days_in(Line(text, 0, 0, 0, 1, 1), LEAP_YEAR)
    left = re.sub(WEEK, blank, without(text, [(day.start, day.end) for day in days]), flags=re.IGNORECASE)
    left, nears = TODAY.subn(blank, left)
    words = [word for word in WORD.findall(left) if bare(word) not in HEADER_WORDS]
    nears += sum(bare(word) in NEAR for word in WORD.findall(left))
    numbers = [at for at in range(len(words)) if is_day_number(words, at)]
    weekdays = [word for at, word in enumerate(words) if is_header_weekday(words, at)]
    if len(numbers) + len(weekdays) < len(words):
        return False
    is_doubtful = len(words) == 1 and not days and is_doubtful_alone(words[0])
    return bool(days or weekdays or nears) and not is_doubtful


def says_today(text: str) -> bool:
    """Check whether a line says today, tomorrow or yesterday, so that its year is the current one."""
    return bool(TODAY.search(text)) or any(bare(word) in NEAR for word in WORD.findall(text))


def named_in(line: Line, default_year: int) -> Named | None:
    """Find the day that a line names."""
    scan = scanned(line.text)
    for written in sorted(scan.dates, key=lambda each: (each.kind, each.start)):
        if day := resolved(scan, written, default_year):
            others = {other.date for other in days_in(line, default_year)}
            return named(line, scan, written, day[0], is_ambiguous=day[1] or len(others) > 1)
    return None


def named(line: Line, scan: Scan, written: Written, day: date, is_ambiguous: bool) -> Named:
    """Make a named day from a date that a line shows."""
    has_year, weekday = written.year is not None, weekday_of_date(scan, written)
    rank = (bool(scan.weekdays), has_year, not scan.rest, line.height, len(line.text), -line.middle)
    start, end = span_of(scan, written, weekday)
    contradicts = weekday is not None and weekday.nth != day.weekday()
    return Named(day, line, rank, weekday.nth if weekday else None, contradicts, is_ambiguous, has_year, start, end)


# Which date it is -----------------------------------------------------------------------------------------------------


def resolved(scan: Scan, written: Written, default_year: int) -> tuple[date, bool] | None:
    """Return the date and whether it may be another one; None when there is no such date."""
    day = date_of(written.year, written.month, written.day, default_year)
    is_one_of_several = bool(DAYS_BEFORE.search(scan.text[: written.start]) or DAYS_AFTER.match(scan.text, written.end))
    if not written.separator or written.month == written.day:
        return (day, is_one_of_several) if day else None
    swapped = date_of(written.year, written.day, written.month, default_year)
    if day is None or swapped is None:
        day = day or (swapped if written.separator == "/" and not is_day_first(scan) else None)
        return (day, is_one_of_several) if day else None
    day, is_open = in_order(scan, written, day, swapped)
    return day, is_open or is_one_of_several


def in_order(scan: Scan, written: Written, day: date, swapped: date) -> tuple[date, bool]:
    """Return the reading of two numbers, day first or swapped, and whether both are possible."""
    if is_day_first(scan):
        return day, False
    weekday = weekday_of_date(scan, written)
    fitting = [each for each in (day, swapped) if weekday and each.weekday() == weekday.nth]
    if written.separator == ".":  # the day is first there, but a weekday may contradict that
        return day, fitting == [swapped]
    return (fitting[0], False) if len(fitting) == 1 else (day, True)


def date_of(year: int | None, month: int, day: int, default_year: int) -> date | None:
    """Return the date, or None when there is none in the years of schedules."""
    try:
        found = date(default_year if year is None else year, month, day)
    except ValueError:
        return None
    return found if FIRST_YEAR <= found.year <= LAST_YEAR else None


def is_day_first(scan: Scan) -> bool:
    """Check whether a word of the line is of a language that writes the day before the month."""
    is_told = any(weekday.language in (SWEDISH, GERMAN, FINNISH) for weekday in scan.weekdays)
    return is_told or any(bare(word) in DAY_FIRST_WORDS for word in WORD.findall(scan.text))


def weekday_of_date(scan: Scan, written: Written) -> Weekday | None:
    """Return the weekday of a date: the nearest before it, or after it where the first date comes before a weekday."""
    if not scan.weekdays:
        return None
    others = [other for other in scan.dates if other is not written]
    if scan.weekdays[0].start < scan.dates[0].start:
        since = max((other.end for other in others if other.end <= written.start), default=0)
        before = [weekday for weekday in scan.weekdays if since <= weekday.start < written.start]
        return before[-1] if before else None
    until = min((other.start for other in others if other.start >= written.end), default=len(scan.text))
    return next((weekday for weekday in scan.weekdays if written.end <= weekday.start < until), None)


def span_of(scan: Scan, written: Written, weekday: Weekday | None) -> tuple[int, int]:
    """Return where a date stands, with its weekday if nothing but decoration is between."""
    if weekday is None:
        return written.start, written.end
    first, second = sorted(((weekday.start, weekday.end), (written.start, written.end)))
    gap = scan.text[first[1] : second[0]]
    if any(bare(word) not in DECORATION for word in WORD.findall(gap)):
        return written.start, written.end
    is_closed = "(" in gap and scan.text.startswith(")", second[1])
    return first[0], second[1] + is_closed


# What is written ------------------------------------------------------------------------------------------------------


def scanned(text: str) -> Scan:
    """Read dates and weekdays of a line."""
    calendar = NO_DAY.sub(blank, text)
    dates: list[Written] = []
    for found in (*numeric(calendar), *spoken(calendar), *short(calendar), *dotted(text)):
        if not any(found.start < other.end and other.start < found.end for other in dates):
            dates.append(found)
    dates.sort(key=lambda written: written.start)
    weekdays = weekdays_in(text, dates)
    spans = [(each.start, each.end) for each in (*dates, *weekdays)]
    rest = tuple(word for word in WORD.findall(without(calendar, spans)) if bare(word) not in DECORATION)
    has_near = bool(weekdays) or any(bare(word) in NEAR for word in WORD.findall(text))
    is_alone = has_near and not rest
    kept = [each for each in dates if each.kind != SHORT or (is_alone and not is_clock(each, text, weekdays))]
    if len(kept) < len(dates):
        spans = [(each.start, each.end) for each in (*kept, *weekdays)]
        rest = tuple(word for word in WORD.findall(without(calendar, spans)) if bare(word) not in DECORATION)
    return Scan(text, tuple(kept), tuple(weekdays), rest)


def numeric(text: str) -> list[Written]:
    """Find dates of three numbers: 2026-02-24, 24/2 2026."""
    first = [
        Written(NUMERIC, *found.span(), int(found[1]), int(found[2]), int(found[3]))
        for found in YEAR_FIRST.finditer(text)
    ]
    last = [
        Written(NUMERIC, *found.span(), int(found[4]), int(found[3]), int(found[1]), found[2])
        for found in YEAR_LAST.finditer(text)
    ]
    return [*first, *last]


def short(text: str) -> list[Written]:
    """Find dates of two numbers: 24/2."""
    return [Written(SHORT, *found.span(), None, int(found[2]), int(found[1]), "/") for found in NO_YEAR.finditer(text)]


def dotted(text: str) -> list[Written]:
    """Find dates of two numbers with a dot after each: 7.9."""
    return [Written(SHORT, *found.span(), None, int(found[2]), int(found[1]), ".") for found in DOTTED.finditer(text)]


def is_clock(written: Written, text: str, weekdays: Iterable[Weekday]) -> bool:
    """Check whether a date with dots is rather a clock, as 08.10. is in Swedish or English."""
    shown = text[written.start : written.end]
    is_like_clock = written.separator == "." and bool(re.fullmatch(r"(?:[01]\d|2[0-3])\.[0-5]\d\.", shown))
    return is_like_clock and all(weekday.language in (SWEDISH, ENGLISH) for weekday in weekdays)


def spoken(text: str) -> list[Written]:
    """Find dates around the name of a month: 24 februari 2026, February 24, 2026."""
    words = list(WORD.finditer(text))
    found: list[Written] = []
    free = 0  # the first word that no date has
    for at, word in enumerate(words):
        month = month_of(word[0])
        if month is None:
            continue
        before = number(words[at - 1][0]) if at > free else None
        after, later = (number(words[at + n][0]) if at + n < len(words) else None for n in (1, 2))
        if before is not None and 1 <= before <= 31:
            first, last, day = at - 1, at, before
            year = after
        elif after is not None and 1 <= after <= 31 and bare(word[0]) not in DAY_FIRST_MONTHS:
            first, last, day = at, at + 1, after
            year = later
        else:
            continue
        year = year if year is not None and year >= FIRST_YEAR else None
        last += year is not None
        free = last + 1
        found.append(Written(SPOKEN, words[first].start(), words[last].end(), year, month, day))
    return found


def weekdays_in(text: str, dates: Sequence[Written]) -> list[Weekday]:
    """Find the weekdays of a line; two letters only directly beside a date."""
    words = list(WORD.finditer(text))
    found = [Weekday(*known, *word.span()) for word in words if (known := weekday_of(word[0]))]
    pairs = [word for word in words if bare(word[0]) in TWO_LETTERS and is_beside(text, word.span(), dates)]
    has_others = bool(found) or any(bare(word[0]) != "to" for word in pairs)
    for word in pairs:
        letters = bare(word[0])
        is_between = any(not text[each.end : word.start()].strip() for each in dates if each.end <= word.start())
        if letters == "to" and is_between and not has_others:  # English: 7 September to 9 September
            continue
        found.append(Weekday(TWO_LETTERS[letters], None if letters in ALSO_ENGLISH else GERMAN, *word.span()))
    return sorted(found, key=lambda weekday: weekday.start)


def is_beside(text: str, span: tuple[int, int], dates: Sequence[Written]) -> bool:
    """Check whether a word stands directly before a date, or directly after one with nothing else behind it."""
    start, end = span
    before = re.sub(WEEK, blank, text[:start], flags=re.IGNORECASE)
    is_counted = bool(re.search(r"\d\s*$", before)) and not any(
        each.end == len(text[:start].rstrip()) for each in dates
    )
    if any(re.fullmatch(r"[.,]?\s*", text[end : each.start]) for each in dates if each.start >= end):
        return not is_counted  # 5 to 7 september
    is_after = any(re.fullmatch(r"[\s,.(]*", text[each.end : start]) for each in dates if each.end <= start)
    return is_after and bool(re.match(r"\.?\s*(?:$|[|),;·•])", text[end:]))


def without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return the text with blanks in place of some spans."""
    for start, end in spans:
        text = text[:start] + " " * (end - start) + text[end:]
    return text


def blank(found: re.Match[str]) -> str:
    """Return as many blanks as were found characters."""
    return " " * len(found[0])


# Words ----------------------------------------------------------------------------------------------------------------


def number(word: str) -> int | None:
    """Return the number that a word is, an ordinal too."""
    found = ORDINAL.fullmatch(word)
    return int(found[1]) if found and len(found[1]) <= 4 else None


@lru_cache(maxsize=1024)
def month_of(word: str) -> int | None:
    """Return 1 to 12 for the name of a month, short or a little misread."""
    letters = bare(word)
    if len(letters) < 3 or not letters.isalpha():
        return None
    for nth, names in enumerate(MONTHS, 1):
        if any(name == letters or (len(letters) in (3, 4) and name.startswith(letters)) for name in names):
            return nth
    if letters in DAY_FIRST_MONTHS:
        return DAY_FIRST_MONTHS[letters]
    names = {name: nth for nth, names in enumerate(MONTHS, 1) for name in names}
    names |= {name: nth for name, nth in DAY_FIRST_MONTHS.items() if len(name) >= MIN_MISREAD_NAME_LENGTH[FINNISH]}
    alike = nearest(letters, names)
    return names[alike] if alike else None


@lru_cache(maxsize=1024)
def weekday_of(word: str) -> tuple[int, str] | None:
    """Return 0 to 6 and the language for the name of a weekday, short or a little misread."""
    letters = bare(word)
    if letters in KNOWN_WEEKDAYS or letters in NO_WEEKDAYS:
        return KNOWN_WEEKDAYS.get(letters)
    names = [name for name, (_, language) in KNOWN_WEEKDAYS.items() if len(name) >= MIN_MISREAD_NAME_LENGTH[language]]
    alike = nearest(letters, names)
    return KNOWN_WEEKDAYS[alike] if alike else None


def nearest(letters: str, names: Iterable[str]) -> str | None:
    """Return the name that a long word nearly is."""
    if len(letters) < MIN_MISREAD_LENGTH:
        return None
    near = {name: likeness(letters, name) for name in names if abs(len(letters) - len(name)) <= 1}
    best = max(near, key=lambda name: near[name], default=None)
    return best if best and near[best] >= ALIKE else None


def likeness(letters: str, name: str) -> float:
    """Return how much two words have in common, from 0 to 1."""
    return SequenceMatcher(None, letters, name, autojunk=False).ratio()


def is_header_weekday(words: Sequence[str], at: int) -> bool:
    """Check whether a word is a weekday and surely nothing else; two letters only before the number of a day."""
    letters = bare(words[at])
    return letters in KNOWN_WEEKDAYS or (letters in TWO_LETTERS and is_number_of_day(words[at + 1 : at + 2]))


def is_day_number(words: Sequence[str], at: int) -> bool:
    """Check whether a word is the number of a day directly after a weekday: Mån 7."""
    return at > 0 and is_number_of_day(words[at : at + 1]) and is_header_weekday(words, at - 1)


def is_number_of_day(words: Sequence[str]) -> bool:
    """Check whether there is a word and it is a number from 1 to 31."""
    return any(1 <= (number(word) or 0) <= 31 for word in words)


def is_doubtful_alone(word: str) -> bool:
    """Check whether a short weekday is also another word: fri, Tor; with its mark, as in Mån, it is not."""
    return bare(word) in DOUBTFUL_ALONE and bare(word) == word.casefold()
