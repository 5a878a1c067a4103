"""Parse times as screens print them: 08:00-09:30, 8.00 - 9.30, kl 08:00 till 24:00, 8 Uhr bis 10 Uhr, 1pm-3:30pm.

Letters that look like digits count as digits beside real ones. A time without its colon, as in 08:00-0930, is accepted
if it is plausible for an appointment: a multiple of five minutes, and at least a quarter of an hour long. A telephone
number, 0708-1234, or two years, 2026-2027, are no times.

Times of a 12-hour clock are converted: 1:00 PM - 3:00 PM, 1:00p-3:00p, 9:00 f.m. - 11:00 f.m. In 1:00 - 3:00 PM both
are PM. If AM is possible too, as in 11:00 - 1:00 PM, the range has a problem.

A range that is marked as old is ignored: 10:00-11:00 (tidigare 08:00-09:00), or 08:00-09:00 followed by an arrow and
the new one. Two ranges in one line without such a mark are a problem.

Hours without minutes are a range if a word says that they are times: kl 8-10, 8-10 Uhr, 1 PM - 3 PM. Without one,
8-10 may be a count or a date: `find_hours_range` returns it, and the caller decides by the layout.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from duly.apps.ingest.ocr.ui_text import DURATION, LEADING_ICON
from duly.apps.ingest.spelling import MINUTES_OF_DAY, minutes_since_midnight

MAX_SHIFT_MINUTES = 16 * 60  # longer ranges are misread
MIN_COLONLESS_MINUTES = 15  # shortest range that is accepted without a colon
STEP_MINUTES = 5  # of which its start and end are multiples
HALF_DAY_MINUTES = MINUTES_OF_DAY // 2
LOOK_ALIKE_DIGITS = {"O": "0", "o": "0", "Q": "0", "l": "1", "L": "1", "I": "1", "i": "1", "|": "1"}
AS_DIGITS = str.maketrans(LOOK_ALIKE_DIGITS)
DIGIT = rf"[0-9{''.join(LOOK_ALIKE_DIGITS)}]"
CLOCK = rf"(?<![0-9A-Za-z])({DIGIT}{{1,2}})\s?[:.;\uff1a\uff0e]\s?({DIGIT}{{2}})(?![:.]?[0-9])"
COLONLESS = rf"(?<![0-9A-Za-z])({DIGIT}{{2}})({DIGIT}{{2}})(?!\s?[0-9])"
HOUR = rf"(?<![\w.:/,+])([0-9]{{1,2}})(?:\s?[:.]\s?({DIGIT}{{2}}))?(?![0-9/:,]|\.[0-9])"
TO = r"(?i:till?|to|until|bis)"
AT = r"(?:(?i:klo?)\b\.?\s*)?"  # the word before a time
LEAD = r"(?:(?:(?i:klo?)\.?|(?i:von|from|fr[åa]n)\b)\s*)"
DASH = rf"\s*(?:[-\u2010-\u2015\u2212~_=]+|\b{TO}\b|→|>)\s*{AT}"
PLAIN_DASH = rf"\s*(?:[-\u2010-\u2015\u2212~]|\b{TO}\b)\s*{AT}"
ARROW = r"(?:[→⇒⟶➔➜➞]|[-=\u2013\u2014]+>)"
START = rf"^\W*{LEAD}*"
UHR = r"(?:\s?(?i:uhr)\b\.?)?"

# AM or PM after a time, also Swedish f.m./e.m., Finnish ap./ip., German vorm./nachm. A capital or a single letter
# before a word is more likely an initial or a name.
M = r"(?:[mM]|rn)"  # engines read a narrow m as rn
WORD_END = rf"(?!\w|-(?!{DIGIT}{{1,2}}[:.])[^\W\d])"
NO_NAME_AFTER = rf"(?!\s*(?!{TO}\b)[^\W\d_])"
CLEAR_MERIDIEM = (
    rf"\s?(?:[aApP]\.?\s?{M}\.?|[ef]\.\s?{M}\.?|[EF]\.\s?M\.?|[ef]m\.?|[ai]p\.?|(?:[EF]M|[AI]P)\.?{NO_NAME_AFTER}"
    rf"|(?i:vorm|nachm)(?:\.|(?i:ittags))?){WORD_END}"
)
MERIDIEM = rf"(?:({CLEAR_MERIDIEM}|[aApP]\.?{WORD_END}|\s[aApP]\.?{WORD_END}{NO_NAME_AFTER}))?"
ONLY_MERIDIEM = re.compile(
    rf"\W*(?:[ap]\.?(?:\s?{M}\.?)?|[ef]\.?\s?{M}\.?|[ai]p\.?|(?:vor|nach)m(?:\.|ittags)?)\W*", re.IGNORECASE
)
LONE_CAPITAL = re.compile(r"\s[AP]\.?")
MAYBE_MERIDIEM = re.compile(r"(?:[ap]|EM|FM)\b(?!-)")

TIME = rf"{CLOCK}{UHR}{MERIDIEM}"
COLONLESS_TIME = rf"{COLONLESS}{UHR}{MERIDIEM}"
RANGE = re.compile(rf"{TIME}{DASH}{TIME}")
DASHLESS = re.compile(rf"{START}{TIME}\s*{TIME}\s*$")
PARTLY_COLONLESS = re.compile(rf"(?:{TIME}{DASH}{COLONLESS_TIME}|{COLONLESS_TIME}{DASH}{TIME})")
FULLY_COLONLESS = re.compile(rf"{START}{COLONLESS_TIME}{DASH}{COLONLESS_TIME}")
SINGLE = re.compile(rf"{START}{TIME}\s*(?:[-\u2010-\u2015\u2212~]\s*)?$")
SINGLE_END = re.compile(rf"^\W*(?:[-\u2010-\u2015\u2212~]\s*)?{TIME}\s*$")
HOURS_WITH_MERIDIEM = re.compile(rf"{START}{HOUR}{UHR}({CLEAR_MERIDIEM}){PLAIN_DASH}{HOUR}{UHR}({CLEAR_MERIDIEM})")
HOURS_ALONE = re.compile(
    rf"[^\w()\[\]{{}}+]*(?P<lead>(?i:klo?)\.?\s*)?(?:(?i:von|from|fr[åa]n)\s+)?"
    rf"{HOUR}(?P<first>{UHR}){MERIDIEM}{PLAIN_DASH}{HOUR}(?P<second>{UHR}){MERIDIEM}"
    r"[^\w()\[\]{}/:%+°\u2010-\u2015-]*"
)
RESEMBLES_RANGE = re.compile(
    r"(?=[\d\s\W]*[:.])\d{1,2}[:.\d]*\s*[-\u2010-\u2015]\s*\d[\d:.]*"  # 08:0-09:00, 08-09:00
    r"|(?=(?:\D*\d){3})\w{1,2}[:.]\w{1,2}\s*[-\u2010-\u2015]\s*\w{1,2}[:.]\w{1,2}"  # q8:00-09:00
    r"|\d{1,2}[:.]\d{3,4}[:.]\d{2}(?!\d)"  # 12:1513:15
)
RESEMBLES_TIME = re.compile(r"\d{1,2}[:.]\d{2}(?![:.]?\d)")
TOUCHING_WORD = re.compile(r"(?:(?<=[^\W\d_]{3})|(?<=\bkl)|(?<=\bkl\.))(?=\d{1,2}[:.]\d{2})")  # klo12.30, aiemmin12.45
TOUCHING_DURATION = re.compile(
    r"(\D{0,3}(\d{1,2})[:.](\d{2})\s*[-\u2010-\u2015]\s*(\d{1,2})[:.](\d{2}))"
    r"(?:(\d{1,2})\s?(?:h|tim|std|t)\b\.?\s*)?(?:(\d{1,2})\s?min\b)?",
    re.IGNORECASE,
)
LEAD_BEFORE_RANGE = re.compile(rf"(?:^|(?<=\s)){LEAD}+$")

# Notes about times that are no longer valid. They are dropped, so their times need not be readable.
OPENING, CLOSING = r"[(\[{]", r"[)\]}]"
OLD_WORD = r"""(?ix:\b(?:
    tidigare | f[öo]rut | ursprunglig(?:en|t|a)? | i\s?st[äa]llet\s+f[öo]r | gam(?:mal|la) | var
    | (?:[äa]ndra[dt]|flytta[dt]|ombokad|omplanerad)\s+fr[åa]n
    | was | previous(?:ly)? | former(?:ly)? | original(?:ly)? | earlier | old | instead\s+of
    | (?:changed|moved|rescheduled)\s+from
    | fr[üu]her | vorher | zuvor | bisher | (?:an)?statt | urspr[üu]nglich | (?:ge[äa]ndert|verschoben|verlegt)\s+von
    | aiemmin | aikaisemmin | alun\s?perin | entinen | vanha
)\b)"""
OLD_LEAD = r"(?:\s*(?:(?i:tiden|tid|time|zeit|aika|klo?|von|fr[åa]n|um)\b\.?|[:,]))*\s*"
OLD_TIME = rf"(?=\S*[0-9])(?:{DIGIT}{{1,2}}[:.;]{DIGIT}{{0,2}}|{DIGIT}{{4}}|{DIGIT}{{1,2}})(?![0-9/]){UHR}{MERIDIEM}"
OLD_RANGE = rf"{OLD_WORD}{OLD_LEAD}{OLD_TIME}{DASH}{OLD_TIME}"
OLD_SINGLE = rf"{OLD_WORD}{OLD_LEAD}{TIME}"
OLD_NOTE = re.compile(
    rf"(?:{OPENING}\s*)?(?:{OLD_RANGE}|{OLD_SINGLE})\s*{CLOSING}?\.?(?:\s*(?:{ARROW}|\b{TO}\b)\s*(?={CLOCK}))?"
)
HAS_OLD_RANGE = re.compile(OLD_RANGE)
OLD_WITHOUT_TIME = re.compile(rf"(?:{OPENING}\s*)?{OLD_WORD}{OLD_LEAD}{CLOSING}?\W*$")
BRACKETED = re.compile(rf"{OPENING}\s*{LEAD}*{TIME}{DASH}{TIME}\s*{CLOSING}")
REPLACED = re.compile(rf"{TIME}{PLAIN_DASH}{TIME}\s*{ARROW}\s*(?={LEAD}*{TIME}{PLAIN_DASH}{CLOCK})")


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Start and end as HH:MM, and the text before and after them; or the problem why it cannot be right."""

    start: str
    end: str
    before: str
    after: str
    problem: str | None = None
    is_12_hour: bool = False  # written for a 12-hour clock
    is_hours_only: bool = False  # without minutes, or a word that says it is a time: 8-10, 8-10:30
    is_bracketed: bool = False  # it is in brackets, as old times often are


def find_time_range(text: str) -> TimeRange | None:
    """Find the current time range of a line; a range that is marked as old is ignored."""
    kept = drop_old_times(separate_duration(text))
    outside = BRACKETED.sub(" ", kept)
    found = search_range(outside, text) if outside != kept else None
    found = found or search_range(kept, text)
    if found is None and HAS_OLD_RANGE.search(text) and has_words(kept) and not find_hours_range(kept):
        return TimeRange("", "", "", "", f"{text!r} has an old time range and no new one")
    return found


def separate_duration(text: str) -> str:
    """Return the line with a space between times and their duration, if these touch and agree: 11:30-12:301 h."""
    text = TOUCHING_WORD.sub(" ", text)
    found = TOUCHING_DURATION.match(text)
    if found is None:
        return text
    start, end = parse_time(found[2], found[3]), parse_time(found[4], found[5])
    length = int(found[6] or 0) * 60 + int(found[7] or 0)
    if start is None or end is None or duration_minutes(start, end) != length:
        return text
    return f"{found[1]} {text[found.end(1) :]}"


def find_hours_range(text: str) -> TimeRange | None:
    """Find the range that a line consists of if only the layout can show that it is one: 8-10, 8-10:30."""
    found = HOURS_ALONE.fullmatch(drop_old_times(text).strip())
    if found is None or is_clearly_times(found) is not False:
        return None
    times = build_range(found[0].strip(), hour_groups(found), "", "")
    return None if times.problem else replace(times, is_hours_only=True)


def search_range(text: str, line: str) -> TimeRange | None:
    """Find a time range in the rest of a line; the full line is for the message of a problem."""
    for pattern in (RANGE, DASHLESS, PARTLY_COLONLESS, FULLY_COLONLESS, HOURS_WITH_MERIDIEM):
        if found := pattern.search(text):
            parts = [part or "" for part in (found.groups()[:6] if found[1] else found.groups()[-6:])]
            times = build_range(
                found[0].strip(), parts, *split_surroundings(text[: found.start()], text[found.end() :])
            )
            is_colonless = pattern in (PARTLY_COLONLESS, FULLY_COLONLESS)
            if any(map(str.isdigit, found[0])) and (not is_colonless or is_plausible(times)):
                return check_surroundings(times, parts, line)
    found = HOURS_ALONE.fullmatch(text.strip())
    if found and is_clearly_times(found):
        return check_surroundings(build_range(found[0].strip(), hour_groups(found), "", ""), hour_groups(found), line)
    return None


def split_surroundings(before: str, after: str) -> tuple[str, str, bool]:
    """Return the text before and after a range, and whether the range is in brackets.

    The brackets are removed, and so is a word such as "kl" before the range.
    """
    before, after = LEAD_BEFORE_RANGE.sub("", before.rstrip()).strip(), after.strip()
    is_bracketed = bool(re.search(rf"{OPENING}$", before) and re.match(CLOSING, after))
    return (before[:-1].strip(), after[1:].strip(), True) if is_bracketed else (before, after, False)


def check_surroundings(times: TimeRange, parts: Sequence[str], line: str) -> TimeRange:
    """Return the range, with a problem if the text around it makes another reading possible."""
    if any(resembles_time_range(text) or find_time_range(text) for text in (times.before, times.after)):
        return replace(times, problem=f"{line!r} shows more than one time range")
    if any(OLD_WITHOUT_TIME.search(text) for text in (times.before, times.after)):
        return replace(times, problem=f"{line!r} does not show whether its times are the old ones")
    if not times.problem and has_doubtful_meridiem(times, parts):
        return replace(times, problem=f"{line!r} does not show whether both times are AM or PM")
    return times


def has_doubtful_meridiem(times: TimeRange, parts: Sequence[str]) -> bool:
    """Return whether text near the times may be their AM or PM, and may be something else."""
    if ONLY_MERIDIEM.fullmatch(times.before):
        return True
    if times.is_12_hour:
        return not parts[2] and bool(LONE_CAPITAL.fullmatch(parts[5]))
    fits_12_hours = all(1 <= int(time[:2]) <= 12 for time in (times.start, times.end))
    return fits_12_hours and bool(MAYBE_MERIDIEM.match(times.after) or ONLY_MERIDIEM.fullmatch(times.after))


def is_plausible(times: TimeRange) -> bool:
    """Return whether a range is plausible for an appointment."""
    if times.problem:
        return False
    is_rounded = not any(minutes_since_midnight(time) % STEP_MINUTES for time in (times.start, times.end))
    return is_rounded and duration_minutes(times.start, times.end) >= MIN_COLONLESS_MINUTES


def build_range(matched: str, parts: Sequence[str], before: str, after: str, is_bracketed: bool = False) -> TimeRange:
    """Build a range from its parts: hour, minute and optional AM or PM, twice."""
    start, end = parse_time(*parts[:2]), parse_time(*parts[3:5])
    meridiems = parse_meridiem(parts[2]), parse_meridiem(parts[5])
    problem = None
    if any(meridiems):
        start, end, problem = convert_12_hour(matched, start, end, meridiems)
    if start is None or end is None or start == "24:00":
        problem = problem or f"{matched!r} is not a valid time range"
    elif not 0 < duration_minutes(start, end) <= MAX_SHIFT_MINUTES:
        problem = problem or f"{matched!r} would be a shift of {duration_minutes(start, end) / 60:g} hours"
    end = "00:00" if end == "24:00" else end
    return TimeRange(
        start or "", end or "", before, after, problem, is_12_hour=any(meridiems), is_bracketed=is_bracketed
    )


def find_single_time(text: str, *, is_end: bool = False) -> str | None:
    """Find the single time that a line consists of, with its AM or PM; an end may follow a dash."""
    found = (SINGLE_END if is_end else SINGLE).match(text)
    if found is None or LONE_CAPITAL.fullmatch(found[3] or ""):
        return None
    time = parse_time(found[1], found[2])
    return f"{time} {parse_meridiem(found[3] or '')}".strip() if time else None


# Hours without minutes ------------------------------------------------------------------------------------------------


def hour_groups(found: re.Match[str]) -> list[str]:
    """Return hour, minute and AM or PM, twice, of a match of HOURS_ALONE."""
    _, hour, minute, _, meridiem, later_hour, later_minute, _, later_meridiem = (part or "" for part in found.groups())
    return [hour, minute, meridiem, later_hour, later_minute, later_meridiem]


def is_clearly_times(found: re.Match[str]) -> bool | None:
    """Return whether words show that hours are times; None if both have minutes.

    In 8-10:30 the first may have lost its minutes, so one word for both is not enough: each hour needs its own.
    """
    _, minute, meridiem, _, later_minute, later_meridiem = hour_groups(found)
    if minute and later_minute:
        return None
    is_first = bool(found["first"]) or is_clear_meridiem(meridiem)
    is_second = bool(found["second"]) or is_clear_meridiem(later_meridiem)
    if (minute or is_first) and (later_minute or is_second):
        return True
    return not minute and not later_minute and (bool(found["lead"]) or is_second)


def is_clear_meridiem(matched: str) -> bool:
    """Return whether AM or PM has more than one letter: 7a may be a house number."""
    return len(matched.strip(" .")) > 1


# Old times ------------------------------------------------------------------------------------------------------------


def is_old_range(text: str) -> bool:
    """Return whether a line is nothing but a note about an old time, or a range in brackets."""
    text = TOUCHING_WORD.sub(" ", text)
    remaining = OLD_NOTE.sub("", text)
    remaining = BRACKETED.sub("", text) if remaining == text else remaining
    return remaining != text and not has_words(remaining)


def is_old_note(text: str) -> bool:
    """Return whether a word in a line says that its times are old."""
    return OLD_NOTE.search(TOUCHING_WORD.sub(" ", text)) is not None


def drop_old_times(text: str) -> str:
    """Return the line without times that are marked as old, or that an arrow replaces with others."""
    kept = REPLACED.sub("", OLD_NOTE.sub(" ", text))
    return text if kept == text else " ".join(kept.split())


def has_words(text: str) -> bool:
    """Return whether a text has a letter or a digit."""
    return any(map(str.isalnum, text))


# Misread times --------------------------------------------------------------------------------------------------------


def resembles_time_range(text: str) -> bool:
    """Return whether a text resembles a time range, readable or not."""
    return bool(RESEMBLES_RANGE.match(LEADING_ICON.sub("", text)))


def resembles_time(text: str) -> bool:
    """Return whether a text resembles a time range or a single time, and is no duration."""
    bare_text = LEADING_ICON.sub("", text)
    return resembles_time_range(text) or bool(
        RESEMBLES_TIME.match(bare_text) and not DURATION.fullmatch(bare_text.strip())
    )


def parse_time(hour: str, minute: str) -> str | None:
    """Return HH:MM, or None if there is no such time; without a minute it is the full hour."""
    hours, minute_value = int(hour.translate(AS_DIGITS)), int(minute.translate(AS_DIGITS) or 0)
    is_time = (hours < 24 and minute_value < 60) or (hours, minute_value) == (24, 0)
    return f"{hours:02}:{minute_value:02}" if is_time else None


# 12-hour clocks -------------------------------------------------------------------------------------------------------


def parse_meridiem(matched: str) -> str:
    """Return AM, PM or an empty string for the text after a time."""
    meridiems = {"a": "AM", "f": "AM", "v": "AM", "p": "PM", "e": "PM", "n": "PM", "i": "PM"}
    return meridiems.get(matched.strip()[:1].lower(), "")


def is_meridiem(text: str) -> bool:
    """Return whether a text is nothing but AM or PM: pm, e.m., vorm."""
    return bool(ONLY_MERIDIEM.fullmatch(text))


def convert_12_hour(
    matched: str, start: str | None, end: str | None, meridiems: tuple[str, str]
) -> tuple[str | None, str | None, str | None]:
    """Return start and end converted from a 12-hour clock, and a problem or None.

    AM or PM of the end applies to a start without one.
    """
    start_time, end_time = to_24_hour(start, meridiems[0] or meridiems[1]), to_24_hour(end, meridiems[1])
    unknown = f"{matched!r} does not show whether both times are AM or PM"
    if not meridiems[1]:
        return start_time, end_time, unknown
    if start_time is None or end_time is None:
        return start_time, end_time, f"{matched!r} is not a valid time range of a 12-hour clock"
    is_unambiguous = all(meridiems) or 0 < duration_minutes(start_time, end_time) < HALF_DAY_MINUTES
    return start_time, end_time, None if is_unambiguous else unknown


def to_24_hour(time: str | None, meridiem: str) -> str | None:
    """Return HH:MM of a 24-hour clock; None for a time that a 12-hour clock does not have, or without AM or PM."""
    if time is None or not meridiem or not 1 <= int(time[:2]) <= 12:
        return None
    return f"{int(time[:2]) % 12 + (12 if meridiem == 'PM' else 0):02}{time[2:]}"


def duration_minutes(start: str, end: str) -> int:
    """Return the minutes from start to end; an end that is earlier is on the next day."""
    start_time, end_time = minutes_since_midnight(start), minutes_since_midnight(end)
    return end_time - start_time if end_time >= start_time else end_time + MINUTES_OF_DAY - start_time
