"""Scan a line for dates and weekdays as they are written, before deciding which date is meant (`header`).

The names of months and weekdays are Swedish, English, German and Finnish, and may be slightly misread.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache

from duly.apps.ingest.ocr.letters import fold

# All names are folded: lower case, without diacritics. Swedish and English months may be cut to 3 or 4 letters.
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
WEEKDAY_NAMES = {
    name: (nth, language)
    for language, days in WEEKDAYS.items()
    for nth, names in enumerate(days)
    for name in names.split()
}
# Two letters are a weekday only directly beside a date. Those that English has too do not decide if the day is first.
TWO_LETTER_WEEKDAYS = {
    "mo": 0, "di": 1, "mi": 2, "do": 3, "fr": 4, "sa": 5, "so": 6,
    "ma": 0, "ti": 1, "ke": 2, "to": 3, "pe": 4, "la": 5, "su": 6, "lo": 5,
}  # fmt: skip
ENGLISH_TWO_LETTERS = frozenset({"mo", "fr", "sa", "su"})
NOT_WEEKDAYS = frozenset({"frida", "montage"})  # a name and a task, similar to friday and montag
AMBIGUOUS_WEEKDAYS = frozenset({"fri", "man", "son", "lor", "tor"})  # also Swedish words and names
DAY_FIRST_RELATIVE_DAYS = frozenset(
    {"idag", "imorgon", "igar", "heute", "morgen", "gestern", "tanaan", "huomenna", "eilen"}
)
RELATIVE_DAYS = DAY_FIRST_RELATIVE_DAYS | {"today", "tomorrow", "yesterday"}
MIN_MISREAD_LENGTH = 5  # letters of a word that may be a misread name
MIN_MISREAD_NAME_LENGTH = {SWEDISH: 5, ENGLISH: 5, GERMAN: 7, FINNISH: 7}  # letters of that name
MIN_SIMILARITY = 0.8  # SequenceMatcher's ratio of the two

WORD_OR_NUMBER = re.compile(r"[^\W\d_]+|\d+(?:st|nd|rd|th|:e|e)?\b|\d+", re.IGNORECASE)
WEEK_NUMBER = r"\b(?:v|vecka|week|kw|woche|vko|viikko)\.?\s?\d{1,2}\b"
NOT_A_DATE = re.compile(
    rf"""
    \bv(?:ersion)?\.?\s?\d+(?:[.-]\d+)+                                          # v2.1
    | {WEEK_NUMBER}                                                              # v. 9
    | (?<![\d.])\d{{1,2}}(?:[.:,]\d{{1,2}})?\s?(?:h|tim|timmar|hours?|min|uhr|std|stunden|tuntia)\b  # 7.5 h
    | (?<![\d.])\d{{1,2}}(?:[.:,]\d{{1,2}})+(?!\.?\d)                             # 08.10
    """,
    re.IGNORECASE | re.VERBOSE,
)
YEAR_FIRST = re.compile(r"(?<!\d)(\d{4})(?:[-/]|\.(?=\d{2}\.\d{2}))(\d{1,2})[-/.](\d{1,2})(?!\d)")
YEAR_LAST = re.compile(r"(?<!\d)(\d{1,2})(/|\.(?=\d{1,2}\.))(\d{1,2})[/.\s-]+(\d{4})(?!\d)")
DAY_MONTH = re.compile(r"(?<![\d/])(\d{1,2})/(\d{1,2})(?![\d/])")
DOTTED_DAY_MONTH = re.compile(r"(?<![\d.,:])(\d{1,2})\.\s?(\d{1,2})\.(?!\d)")
ORDINAL = re.compile(r"(\d+)\D*")
HEADER_WORDS = RELATIVE_DAYS | {
    "den", "the", "of", "vecka", "week", "v", "dag", "day", "der", "am", "woche", "kw", "viikko", "vko", "tag",
}  # fmt: skip
FILLER_WORDS = HEADER_WORDS | {"schema", "schedule"}
FIRST_YEAR, LAST_YEAR = 2000, 2199  # of a schedule
NUMERIC, MONTH_NAME, SHORT = range(3)  # styles of a date, most reliable first


@dataclass(frozen=True, slots=True)
class DateMatch:
    """A date as written in a line, with its span of characters."""

    style: int
    start: int
    end: int
    year: int | None
    month: int
    day: int
    separator: str = ""  # between day and month, if both are numbers and the year is last or missing


@dataclass(frozen=True, slots=True)
class WeekdayMatch:
    """A weekday as written in a line, with its span of characters."""

    number: int  # 0 is Monday
    language: str | None  # None for two letters that English has too
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class DateScan:
    """The dates and weekdays of a line, and its other words."""

    text: str
    dates: tuple[DateMatch, ...]
    weekdays: tuple[WeekdayMatch, ...]
    other_words: tuple[str, ...]


def scan_dates(text: str) -> DateScan:
    """Find the dates and weekdays of a line.

    A date of two numbers counts only beside a weekday or a relative day, and if the line has no other words.
    """
    calendar = NOT_A_DATE.sub(to_spaces, text)
    dates: list[DateMatch] = []
    written_short = (*find_short(DAY_MONTH, "/", calendar), *find_short(DOTTED_DAY_MONTH, ".", text))
    for found in (*find_numeric(calendar), *find_with_month_name(calendar), *written_short):
        if not any(found.start < other.end and other.start < found.end for other in dates):
            dates.append(found)
    dates.sort(key=lambda date_match: date_match.start)
    weekdays = find_weekdays(text, dates)
    other_words = find_other_words(calendar, [*dates, *weekdays])
    has_day_word = bool(weekdays) or any(fold(word) in RELATIVE_DAYS for word in WORD_OR_NUMBER.findall(text))
    is_alone = has_day_word and not other_words
    kept = [each for each in dates if each.style != SHORT or (is_alone and not is_clock(each, text, weekdays))]
    if len(kept) < len(dates):
        other_words = find_other_words(calendar, [*kept, *weekdays])
    return DateScan(text, tuple(kept), tuple(weekdays), other_words)


def find_other_words(text: str, matches: Iterable[DateMatch | WeekdayMatch]) -> tuple[str, ...]:
    """Return the words that belong to no date or weekday and are no filler words."""
    remaining = blank_out(text, [(each.start, each.end) for each in matches])
    return tuple(word for word in WORD_OR_NUMBER.findall(remaining) if fold(word) not in FILLER_WORDS)


def find_numeric(text: str) -> list[DateMatch]:
    """Find dates of three numbers: 2026-02-24, 24/2 2026."""
    first = (
        DateMatch(NUMERIC, *found.span(), int(found[1]), int(found[2]), int(found[3]))
        for found in YEAR_FIRST.finditer(text)
    )
    last = (
        DateMatch(NUMERIC, *found.span(), int(found[4]), int(found[3]), int(found[1]), found[2])
        for found in YEAR_LAST.finditer(text)
    )
    return [*first, *last]


def find_short(pattern: re.Pattern[str], separator: str, text: str) -> list[DateMatch]:
    """Find dates of two numbers, the day first: 24/2, or 7.9. with a dot after each."""
    return [
        DateMatch(SHORT, *found.span(), None, int(found[2]), int(found[1]), separator)
        for found in pattern.finditer(text)
    ]


def is_clock(date_match: DateMatch, text: str, weekdays: Iterable[WeekdayMatch]) -> bool:
    """Return whether a date with dots may be a clock time, as 08.10. is in Swedish or English."""
    written = text[date_match.start : date_match.end]
    is_like_clock = date_match.separator == "." and bool(re.fullmatch(r"(?:[01]\d|2[0-3])\.[0-5]\d\.", written))
    return is_like_clock and all(weekday.language in (SWEDISH, ENGLISH) for weekday in weekdays)


def find_with_month_name(text: str) -> list[DateMatch]:
    """Find dates around the name of a month: 24 februari 2026, February 24, 2026."""
    words = list(WORD_OR_NUMBER.finditer(text))
    found: list[DateMatch] = []
    free = 0  # index of the first word that belongs to no date yet
    for at, word in enumerate(words):
        month = parse_month(word[0])
        if month is None:
            continue
        before = parse_number(words[at - 1][0]) if at > free else None
        after, later = (parse_number(words[at + n][0]) if at + n < len(words) else None for n in (1, 2))
        if before is not None and 1 <= before <= 31:
            first, last, day = at - 1, at, before
            year = after
        elif after is not None and 1 <= after <= 31 and fold(word[0]) not in DAY_FIRST_MONTHS:
            first, last, day = at, at + 1, after
            year = later
        else:
            continue
        year = year if year is not None and year >= FIRST_YEAR else None
        last += year is not None
        free = last + 1
        found.append(DateMatch(MONTH_NAME, words[first].start(), words[last].end(), year, month, day))
    return found


def parse_number(word: str) -> int | None:
    """Return the value of a number or an ordinal of at most four digits, else None."""
    found = ORDINAL.fullmatch(word)
    return int(found[1]) if found and len(found[1]) <= 4 else None


def find_weekdays(text: str, dates: Sequence[DateMatch]) -> list[WeekdayMatch]:
    """Find the weekdays of a line; two letters count only directly beside a date."""
    words = list(WORD_OR_NUMBER.finditer(text))
    found = [WeekdayMatch(*known, *word.span()) for word in words if (known := parse_weekday(word[0]))]
    two_letter_words = [
        word for word in words if fold(word[0]) in TWO_LETTER_WEEKDAYS and is_beside(text, word.span(), dates)
    ]
    has_other_weekdays = bool(found) or any(fold(word[0]) != "to" for word in two_letter_words)
    for word in two_letter_words:
        letters = fold(word[0])
        is_between = any(not text[each.end : word.start()].strip() for each in dates if each.end <= word.start())
        if letters == "to" and is_between and not has_other_weekdays:  # English: 7 September to 9 September
            continue
        found.append(
            WeekdayMatch(TWO_LETTER_WEEKDAYS[letters], None if letters in ENGLISH_TWO_LETTERS else GERMAN, *word.span())
        )
    return sorted(found, key=lambda weekday: weekday.start)


def is_beside(text: str, span: tuple[int, int], dates: Sequence[DateMatch]) -> bool:
    """Return whether a word is directly before a date, or directly after one with nothing behind it."""
    start, end = span
    before = re.sub(WEEK_NUMBER, to_spaces, text[:start], flags=re.IGNORECASE)
    follows_number = bool(re.search(r"\d\s*$", before)) and not any(
        each.end == len(text[:start].rstrip()) for each in dates
    )
    if any(re.fullmatch(r"[.,]?\s*", text[end : each.start]) for each in dates if each.start >= end):
        return not follows_number  # 5 to 7 september
    is_after = any(re.fullmatch(r"[\s,.(]*", text[each.end : start]) for each in dates if each.end <= start)
    return is_after and bool(re.match(r"\.?\s*(?:$|[|),;·•])", text[end:]))


def blank_out(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return the text with spaces in place of some spans of characters."""
    for start, end in spans:
        text = text[:start] + " " * (end - start) + text[end:]
    return text


def to_spaces(found: re.Match[str]) -> str:
    """Return as many spaces as the match has characters."""
    return " " * len(found[0])


# Names of months and weekdays -----------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def parse_month(word: str) -> int | None:
    """Return 1 to 12 for the name of a month, abbreviated or slightly misread."""
    letters = fold(word)
    if len(letters) < 3 or not letters.isalpha():
        return None
    for nth, names in enumerate(MONTHS, 1):
        if any(name == letters or (len(letters) in (3, 4) and name.startswith(letters)) for name in names):
            return nth
    if letters in DAY_FIRST_MONTHS:
        return DAY_FIRST_MONTHS[letters]
    names = {name: nth for nth, names in enumerate(MONTHS, 1) for name in names}
    names |= {name: nth for name, nth in DAY_FIRST_MONTHS.items() if len(name) >= MIN_MISREAD_NAME_LENGTH[FINNISH]}
    similar = find_similar(letters, names)
    return names[similar] if similar else None


@lru_cache(maxsize=1024)
def parse_weekday(word: str) -> tuple[int, str] | None:
    """Return 0 (Monday) to 6 and the language for the name of a weekday, abbreviated or slightly misread."""
    letters = fold(word)
    if letters in WEEKDAY_NAMES or letters in NOT_WEEKDAYS:
        return WEEKDAY_NAMES.get(letters)
    names = [name for name, (_, language) in WEEKDAY_NAMES.items() if len(name) >= MIN_MISREAD_NAME_LENGTH[language]]
    similar = find_similar(letters, names)
    return WEEKDAY_NAMES[similar] if similar else None


def find_similar(letters: str, names: Iterable[str]) -> str | None:
    """Return the most similar name, if a word is long enough and one is similar enough."""
    if len(letters) < MIN_MISREAD_LENGTH:
        return None
    near = {name: similarity(letters, name) for name in names if abs(len(letters) - len(name)) <= 1}
    best = max(near, key=lambda name: near[name], default=None)
    return best if best and near[best] >= MIN_SIMILARITY else None


def similarity(letters: str, name: str) -> float:
    """Return how similar two words are, from 0 to 1."""
    return SequenceMatcher(None, letters, name, autojunk=False).ratio()
