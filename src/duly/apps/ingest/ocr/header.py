"""Find the date of a page in its header.

    Tisdag 24 februari 2026      Idag, tis 24 feb      Tuesday, February 24, 2026      2026-02-24      24/2 2026
    Montag, 7. September 2026    Mo 07.09.2026         ma 7.9.2026                     ke 9.9.         9. syyskuuta

Two numbers alone are no date: 08.10 is a clock time, 7.5 an amount, 2.1 a version, 1/2 a count. Without a year, 24/2 or
7.9. is a date only beside a weekday or a relative day such as "today". A wrong date would remove the known shifts of
that day, while a date that is not found only requires a better photograph.

The weekday need not be right: `HeaderDate.contradicts_weekday` reports that it is not. It decides only where day and
month may be swapped: Friday 04/03/2026 is 3 April. Swedish, German and Finnish put the day first; elsewhere
`HeaderDate.is_ambiguous` is set unless the weekday fits exactly one of the two.

Of several lines with a date the best one counts: one with a weekday, then one with a year, one without other words, the
tallest, the longest, the uppermost.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from duly.apps.ingest.ocr.date_scan import (
    AMBIGUOUS_WEEKDAYS,
    DAY_FIRST_RELATIVE_DAYS,
    FILLER_WORDS,
    FINNISH,
    FIRST_YEAR,
    GERMAN,
    HEADER_WORDS,
    LAST_YEAR,
    RELATIVE_DAYS,
    SWEDISH,
    TWO_LETTER_WEEKDAYS,
    WEEK_NUMBER,
    WEEKDAY_NAMES,
    WORD_OR_NUMBER,
    DateMatch,
    DateScan,
    WeekdayMatch,
    blank_out,
    parse_number,
    scan_dates,
    to_spaces,
)
from duly.apps.ingest.ocr.letters import fold
from duly.apps.ingest.ocr.lines import Line

DASH = r"\s?[-\u2010-\u2015]\s?"
RANGE_BEFORE = re.compile(rf"\d\.?{DASH}$")  # 7-13 september
RANGE_AFTER = re.compile(rf"{DASH}\d{{1,2}}(?![\d:./])")  # September 7-13
TWO_WORD_RELATIVE_DAY = re.compile(r"\bi\s(?:dag|morgon|går|gar)\b", re.IGNORECASE)
DAY_FIRST_WORDS = DAY_FIRST_RELATIVE_DAYS | {
    "den", "vecka", "schema", "dag", "der", "woche", "kw", "viikko", "vko", "tag",
}  # fmt: skip
LEAP_YEAR = 2024  # default year where only the presence of a date matters: every day and month exist in it
# Has a weekday, has a year, has no other words, height, length, negative position: the largest is likely the header.
Rank = tuple[bool, bool, bool, float, int, float]


@dataclass(frozen=True, slots=True)
class HeaderDate:
    """A date in a line, and how likely the line is the header of a page."""

    date: date
    line: Line
    rank: Rank
    weekday: int | None = None  # as written, 0 is Monday
    contradicts_weekday: bool = False  # the written weekday is not that of the date
    is_ambiguous: bool = False  # another date is possible: 04/03/2026, 7-13 september, or several dates in the line
    has_year: bool = True  # else it is the default year
    start: int = 0  # span in the text of the line, with its weekday
    end: int = 0


def find_header_date(lines: Sequence[Line], default_year: int) -> HeaderDate | None:
    """Return the date of the line that is most likely the header, or None."""
    found = [header_date for line in lines if (header_date := find_best_date(line, default_year))]
    return max(found, key=lambda header_date: header_date.rank) if found else None


def find_dates(line: Line, default_year: int) -> list[HeaderDate]:
    """Return all dates of a line, from left to right, each with its span of characters."""
    scan = scan_dates(line.text)
    found = ((date_match, resolve(scan, date_match, default_year)) for date_match in scan.dates)
    return [to_header_date(line, scan, date_match, *day) for date_match, day in found if day]


def is_day_header(text: str) -> bool:
    """Return whether a line has nothing but dates, weekdays or relative days, as the header of a day has."""
    days = find_dates(Line(text, 0, 0, 0, 1, 1), LEAP_YEAR)
    remaining = re.sub(
        WEEK_NUMBER, to_spaces, blank_out(text, [(day.start, day.end) for day in days]), flags=re.IGNORECASE
    )
    remaining, relative_days = TWO_WORD_RELATIVE_DAY.subn(to_spaces, remaining)
    words = [word for word in WORD_OR_NUMBER.findall(remaining) if fold(word) not in HEADER_WORDS]
    relative_days += sum(fold(word) in RELATIVE_DAYS for word in WORD_OR_NUMBER.findall(remaining))
    numbers = [at for at in range(len(words)) if is_day_number(words, at)]
    weekdays = [word for at, word in enumerate(words) if is_header_weekday(words, at)]
    if len(numbers) + len(weekdays) < len(words):
        return False
    is_ambiguous_word = len(words) == 1 and not days and is_ambiguous_weekday(words[0])
    return bool(days or weekdays or relative_days) and not is_ambiguous_word


def is_relative_day(text: str) -> bool:
    """Return whether a line says today, tomorrow or yesterday, so that its year is the current one."""
    return bool(TWO_WORD_RELATIVE_DAY.search(text)) or any(
        fold(word) in RELATIVE_DAYS for word in WORD_OR_NUMBER.findall(text)
    )


def find_best_date(line: Line, default_year: int) -> HeaderDate | None:
    """Return the most reliably written date of a line, or None."""
    scan = scan_dates(line.text)
    for date_match in sorted(scan.dates, key=lambda each: (each.style, each.start)):
        if day := resolve(scan, date_match, default_year):
            others = {other.date for other in find_dates(line, default_year)}
            return to_header_date(line, scan, date_match, day[0], is_ambiguous=day[1] or len(others) > 1)
    return None


def to_header_date(line: Line, scan: DateScan, date_match: DateMatch, day: date, is_ambiguous: bool) -> HeaderDate:
    """Return the header date of a match in a line."""
    has_year, weekday = date_match.year is not None, find_weekday_for(scan, date_match)
    rank = (bool(scan.weekdays), has_year, not scan.other_words, line.height, len(line.text), -line.centre_y)
    start, end = find_span(scan, date_match, weekday)
    contradicts_weekday = weekday is not None and weekday.number != day.weekday()
    return HeaderDate(
        day, line, rank, weekday.number if weekday else None, contradicts_weekday, is_ambiguous, has_year, start, end
    )


def resolve(scan: DateScan, date_match: DateMatch, default_year: int) -> tuple[date, bool] | None:
    """Return the date of a match and whether it is ambiguous; None if there is no such date."""
    day = make_date(date_match.year, date_match.month, date_match.day, default_year)
    is_date_range = bool(
        RANGE_BEFORE.search(scan.text[: date_match.start]) or RANGE_AFTER.match(scan.text, date_match.end)
    )
    if not date_match.separator or date_match.month == date_match.day:
        return (day, is_date_range) if day else None
    swapped = make_date(date_match.year, date_match.day, date_match.month, default_year)
    if day is None or swapped is None:
        day = day or (swapped if date_match.separator == "/" and not is_day_first(scan) else None)
        return (day, is_date_range) if day else None
    day, is_ambiguous = choose_order(scan, date_match, day, swapped)
    return day, is_ambiguous or is_date_range


def choose_order(scan: DateScan, date_match: DateMatch, day: date, swapped: date) -> tuple[date, bool]:
    """Return the date with the day first or swapped, and whether both are possible."""
    if is_day_first(scan):
        return day, False
    weekday = find_weekday_for(scan, date_match)
    fitting = [each for each in (day, swapped) if weekday and each.weekday() == weekday.number]
    if date_match.separator == ".":  # the day is first with dots, but a weekday may contradict that
        return day, fitting == [swapped]
    return (fitting[0], False) if len(fitting) == 1 else (day, True)


def make_date(year: int | None, month: int, day: int, default_year: int) -> date | None:
    """Return the date, or None if it does not exist or is not in a year of a schedule."""
    try:
        found = date(default_year if year is None else year, month, day)
    except ValueError:
        return None
    return found if FIRST_YEAR <= found.year <= LAST_YEAR else None


def is_day_first(scan: DateScan) -> bool:
    """Return whether a word of the line is in a language that writes the day before the month."""
    has_weekday = any(weekday.language in (SWEDISH, GERMAN, FINNISH) for weekday in scan.weekdays)
    return has_weekday or any(fold(word) in DAY_FIRST_WORDS for word in WORD_OR_NUMBER.findall(scan.text))


def find_weekday_for(scan: DateScan, date_match: DateMatch) -> WeekdayMatch | None:
    """Return the weekday of a date: the nearest before it, or after it if the line starts with a date."""
    if not scan.weekdays:
        return None
    others = [other for other in scan.dates if other is not date_match]
    if scan.weekdays[0].start < scan.dates[0].start:
        since = max((other.end for other in others if other.end <= date_match.start), default=0)
        before = [weekday for weekday in scan.weekdays if since <= weekday.start < date_match.start]
        return before[-1] if before else None
    until = min((other.start for other in others if other.start >= date_match.end), default=len(scan.text))
    return next((weekday for weekday in scan.weekdays if date_match.end <= weekday.start < until), None)


def find_span(scan: DateScan, date_match: DateMatch, weekday: WeekdayMatch | None) -> tuple[int, int]:
    """Return the span of a date, including its weekday if only filler words are between."""
    if weekday is None:
        return date_match.start, date_match.end
    first, second = sorted(((weekday.start, weekday.end), (date_match.start, date_match.end)))
    gap = scan.text[first[1] : second[0]]
    if any(fold(word) not in FILLER_WORDS for word in WORD_OR_NUMBER.findall(gap)):
        return date_match.start, date_match.end
    is_closed = "(" in gap and scan.text.startswith(")", second[1])
    return first[0], second[1] + is_closed


def is_header_weekday(words: Sequence[str], at: int) -> bool:
    """Return whether a word is certainly a weekday; two letters count only before the number of a day."""
    letters = fold(words[at])
    return letters in WEEKDAY_NAMES or (letters in TWO_LETTER_WEEKDAYS and has_day_number(words[at + 1 : at + 2]))


def is_day_number(words: Sequence[str], at: int) -> bool:
    """Return whether a word is the number of a day directly after a weekday: Mån 7."""
    return at > 0 and has_day_number(words[at : at + 1]) and is_header_weekday(words, at - 1)


def has_day_number(words: Sequence[str]) -> bool:
    """Return whether there is a word and it is a number from 1 to 31."""
    return any(1 <= (parse_number(word) or 0) <= 31 for word in words)


def is_ambiguous_weekday(word: str) -> bool:
    """Return whether an abbreviated weekday is also another word: fri, Tor; with its diacritic, as Mån, it is not."""
    return fold(word) in AMBIGUOUS_WEEKDAYS and fold(word) == word.casefold()
