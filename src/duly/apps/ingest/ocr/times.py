"""Find times as screens print them: 08:00-09:30, 8.00 - 9.30, kl 08:00 till 24:00, 8 Uhr bis 10 Uhr, 1pm-3:30pm.

Letters that look like digits are read as such beside real ones. A time that lost its colon, as in 08:00-0930, is
believed where people make appointments: in steps of five minutes, and for a quarter of an hour at least. A telephone
number, 0708-1234, or two years, 2026-2027, are no times.

Times of a 12-hour clock are converted: 1:00 PM - 3:00 PM, 1:00p-3:00p, 9:00 f.m. - 11:00 f.m. In 1:00 - 3:00 PM both
lie in the afternoon. Where the other half would be possible too, as in 11:00 - 1:00 PM, the range has a problem.

A range that is marked as old is left out: 10:00-11:00 (tidigare 08:00-09:00), or 08:00-09:00 followed by an arrow and
the new one. Two ranges in one line that are not so explained are a problem.

Hours without minutes are a range where a word says that they are times: kl 8-10, 8-10 Uhr, 1 PM - 3 PM. Without one,
8-10 may be a count or a date: find_hours_range returns it, and the caller decides by the layout.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from duly.apps.ingest.ocr.chips import DURATION, ICON
from duly.apps.ingest.spelling import MINUTES_OF_DAY, minutes

__all__ = [
    "MAX_SHIFT_MINUTES",
    "Range",
    "find_hours_range",
    "find_range",
    "find_single",
    "is_half_of_day",
    "is_like_range",
    "is_like_times",
    "is_old_range",
]

MAX_SHIFT_MINUTES = 16 * 60
MIN_BARE_MINUTES = 15
HALF_DAY_MINUTES = MINUTES_OF_DAY // 2
STEP_MINUTES = 5
LOOK_ALIKES = {"O": "0", "o": "0", "Q": "0", "l": "1", "L": "1", "I": "1", "i": "1", "|": "1"}
AS_DIGITS = str.maketrans(LOOK_ALIKES)
DIGIT = rf"[0-9{''.join(LOOK_ALIKES)}]"
CLOCK = rf"(?<![0-9A-Za-z])({DIGIT}{{1,2}})\s?[:.;\uff1a\uff0e]\s?({DIGIT}{{2}})(?![:.]?[0-9])"
BARE = rf"(?<![0-9A-Za-z])({DIGIT}{{2}})({DIGIT}{{2}})(?!\s?[0-9])"
HOUR = rf"(?<![\w.:/,+])([0-9]{{1,2}})(?:\s?[:.]\s?({DIGIT}{{2}}))?(?![0-9/:,]|\.[0-9])"
TO = r"(?i:till?|to|until|bis)"
AT = r"(?:(?i:klo?)\b\.?\s*)?"  # the word before a time
LEAD = r"(?:(?:(?i:klo?)\.?|(?i:von|from|fr[åa]n)\b)\s*)"
DASH = rf"\s*(?:[-\u2010-\u2015\u2212~_=]+|\b{TO}\b|→|>)\s*{AT}"
PLAIN_DASH = rf"\s*(?:[-\u2010-\u2015\u2212~]|\b{TO}\b)\s*{AT}"
ARROW = r"(?:[→⇒⟶➔➜➞]|[-=\u2013\u2014]+>)"
START = rf"^\W*{LEAD}*"
UHR = r"(?:\s?(?i:uhr)\b\.?)?"

# The half of the day after a time. A capital or a lone letter followed by a word is rather an initial or a name.
M = r"(?:[mM]|rn)"  # rn is how engines read a narrow m
IS_WHOLE = rf"(?!\w|-(?!{DIGIT}{{1,2}}[:.])[^\W\d])"
NO_NAME = rf"(?!\s*(?!{TO}\b)[^\W\d_])"
SURE_HALF = (
    rf"\s?(?:[aApP]\.?\s?{M}\.?|[ef]\.\s?{M}\.?|[EF]\.\s?M\.?|[ef]m\.?|[ai]p\.?|(?:[EF]M|[AI]P)\.?{NO_NAME}"
    rf"|(?i:vorm|nachm)(?:\.|(?i:ittags))?){IS_WHOLE}"
)
HALF = rf"(?:({SURE_HALF}|[aApP]\.?{IS_WHOLE}|\s[aApP]\.?{IS_WHOLE}{NO_NAME}))?"
HALF_ALONE = re.compile(
    rf"\W*(?:[ap]\.?(?:\s?{M}\.?)?|[ef]\.?\s?{M}\.?|[ai]p\.?|(?:vor|nach)m(?:\.|ittags)?)\W*", re.IGNORECASE
)
LONE_CAPITAL = re.compile(r"\s[AP]\.?")
PERHAPS_HALF = re.compile(r"(?:[ap]|EM|FM)\b(?!-)")

TIME = rf"{CLOCK}{UHR}{HALF}"
BARE_TIME = rf"{BARE}{UHR}{HALF}"
RANGE = re.compile(rf"{TIME}{DASH}{TIME}")
DASHLESS = re.compile(rf"{START}{TIME}\s*{TIME}\s*$")
HALF_BARE = re.compile(rf"(?:{TIME}{DASH}{BARE_TIME}|{BARE_TIME}{DASH}{TIME})")
ALL_BARE = re.compile(rf"{START}{BARE_TIME}{DASH}{BARE_TIME}")
SINGLE = re.compile(rf"{START}{TIME}\s*(?:[-\u2010-\u2015\u2212~]\s*)?$")
LATER = re.compile(rf"^\W*(?:[-\u2010-\u2015\u2212~]\s*)?{TIME}\s*$")
HALVED_HOURS = re.compile(rf"{START}{HOUR}{UHR}({SURE_HALF}){PLAIN_DASH}{HOUR}{UHR}({SURE_HALF})")
HOURS_ALONE = re.compile(
    rf"[^\w()\[\]{{}}+]*(?P<lead>(?i:klo?)\.?\s*)?(?:(?i:von|from|fr[åa]n)\s+)?"
    rf"{HOUR}(?P<first>{UHR}){HALF}{PLAIN_DASH}{HOUR}(?P<second>{UHR}){HALF}"
    r"[^\w()\[\]{}/:%+°\u2010-\u2015-]*"
)
MEANT_FOR_RANGE = re.compile(
    r"(?=[\d\s\W]*[:.])\d{1,2}[:.\d]*\s*[-\u2010-\u2015]\s*\d[\d:.]*"  # 08:0-09:00, 08-09:00
    r"|(?=(?:\D*\d){3})\w{1,2}[:.]\w{1,2}\s*[-\u2010-\u2015]\s*\w{1,2}[:.]\w{1,2}"  # q8:00-09:00
    r"|\d{1,2}[:.]\d{3,4}[:.]\d{2}(?!\d)"  # 12:1513:15
)
MEANT_FOR_TIME = re.compile(r"\d{1,2}[:.]\d{2}(?![:.]?\d)")
TOUCHED_BY_WORD = re.compile(
    r"(?:(?<=[^\W\d_]{3})|(?<=\bkl)|(?<=\bkl\.))(?=\d{1,2}[:.]\d{2})"
)  # klo12.30, aiemmin12.45
TOUCHED_BY_LENGTH = re.compile(
    r"(\D{0,3}(\d{1,2})[:.](\d{2})\s*[-\u2010-\u2015]\s*(\d{1,2})[:.](\d{2}))"
    r"(?:(\d{1,2})\s?(?:h|tim|std|t)\b\.?\s*)?(?:(\d{1,2})\s?min\b)?",
    re.IGNORECASE,
)
LEFT_OF_RANGE = re.compile(rf"(?:^|(?<=\s)){LEAD}+$")

# Notes on a time that is no longer valid. What they say is dropped, so it need not be readable.
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
OLD_TIME = rf"(?=\S*[0-9])(?:{DIGIT}{{1,2}}[:.;]{DIGIT}{{0,2}}|{DIGIT}{{4}}|{DIGIT}{{1,2}})(?![0-9/]){UHR}{HALF}"
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
class Range:
    """From when to when, as HH:MM, and what stands beside it; or why it cannot be right."""

    start: str
    end: str
    before: str
    after: str
    problem: str | None = None
    is_halved: bool = False  # written for a 12-hour clock
    is_hours_only: bool = False  # a time has no minutes and no word that says that it is one: 8-10, 8-10:30
    is_bracketed: bool = False  # it stands in brackets, as old times often do


def find_range(text: str) -> Range | None:
    """Find the current range of times in a line; a range that is marked as old is left out."""
    kept = without_old(with_length_apart(text))
    outside = BRACKETED.sub(" ", kept)
    found = search_range(outside, text) if outside != kept else None
    found = found or search_range(kept, text)
    if found is None and HAS_OLD_RANGE.search(text) and has_words(kept) and not find_hours_range(kept):
        return Range("", "", "", "", f"{text!r} names an old range of times and no new one")
    return found


def with_length_apart(text: str) -> str:
    """Return the line with a blank between times and how long they are, where these touch and agree: 11:30-12:301 h."""
    text = TOUCHED_BY_WORD.sub(" ", text)
    found = TOUCHED_BY_LENGTH.match(text)
    if found is None:
        return text
    start, end = time_of(found[2], found[3]), time_of(found[4], found[5])
    length = int(found[6] or 0) * 60 + int(found[7] or 0)
    if start is None or end is None or length_of(start, end) != length:
        return text
    return f"{found[1]} {text[found.end(1) :]}"


def find_hours_range(text: str) -> Range | None:
    """Find the range that a line consists of when nothing but the layout can tell that it is one: 8-10, 8-10:30."""
    found = HOURS_ALONE.fullmatch(without_old(text).strip())
    if found is None or is_certain(found) is not False:
        return None
    times = range_of(found[0].strip(), hour_parts(found), "", "")
    return None if times.problem else replace(times, is_hours_only=True)


def search_range(text: str, line: str) -> Range | None:
    """Find a range of times in what is left of a line; the line is for the text of a problem."""
    for pattern in (RANGE, DASHLESS, HALF_BARE, ALL_BARE, HALVED_HOURS):
        if found := pattern.search(text):
            parts = [part or "" for part in (found.groups()[:6] if found[1] else found.groups()[-6:])]
            times = range_of(found[0].strip(), parts, *beside(text[: found.start()], text[found.end() :]))
            is_bare = pattern in (HALF_BARE, ALL_BARE)
            if any(map(str.isdigit, found[0])) and (not is_bare or is_usual(times)):
                return checked(times, parts, line)
    found = HOURS_ALONE.fullmatch(text.strip())
    if found and is_certain(found):
        return checked(range_of(found[0].strip(), hour_parts(found), "", ""), hour_parts(found), line)
    return None


def beside(before: str, after: str) -> tuple[str, str, bool]:
    """Return what stands before and after a range, without brackets around it or a word for the clock, and whether
    there were brackets.
    """
    before, after = LEFT_OF_RANGE.sub("", before.rstrip()).strip(), after.strip()
    is_bracketed = bool(re.search(rf"{OPENING}$", before) and re.match(CLOSING, after))
    return (before[:-1].strip(), after[1:].strip(), True) if is_bracketed else (before, after, False)


def checked(times: Range, parts: Sequence[str], line: str) -> Range:
    """Return the range, with a problem where the text beside it makes another reading possible."""
    if any(is_like_range(text) or find_range(text) for text in (times.before, times.after)):
        return replace(times, problem=f"{line!r} shows more than one range of times")
    if any(OLD_WITHOUT_TIME.search(text) for text in (times.before, times.after)):
        return replace(times, problem=f"{line!r} does not say whether its times are the old ones")
    if not times.problem and has_doubtful_half(times, parts):
        return replace(times, problem=f"{line!r} does not say in which half of the day both times are")
    return times


def has_doubtful_half(times: Range, parts: Sequence[str]) -> bool:
    """Check whether something near the times may be their half of the day, and may be something else."""
    if HALF_ALONE.fullmatch(times.before):
        return True
    if times.is_halved:
        return not parts[2] and bool(LONE_CAPITAL.fullmatch(parts[5]))
    is_twelve = all(1 <= int(time[:2]) <= 12 for time in (times.start, times.end))
    return is_twelve and bool(PERHAPS_HALF.match(times.after) or HALF_ALONE.fullmatch(times.after))


def is_usual(times: Range) -> bool:
    """Check whether it is a range that people would agree on."""
    if times.problem:
        return False
    is_stepped = not any(minutes(time) % STEP_MINUTES for time in (times.start, times.end))
    return is_stepped and length_of(times.start, times.end) >= MIN_BARE_MINUTES


def range_of(shown: str, parts: Sequence[str], before: str, after: str, is_bracketed: bool = False) -> Range:
    """Make a range from its parts: hour, minute and perhaps half of the day, twice."""
    start, end = time_of(*parts[:2]), time_of(*parts[3:5])
    halves = half_of(parts[2]), half_of(parts[5])
    problem = None
    if any(halves):
        start, end, problem = halved(shown, start, end, halves)
    if start is None or end is None or start == "24:00":
        problem = problem or f"{shown!r} is no range of times"
    elif not 0 < length_of(start, end) <= MAX_SHIFT_MINUTES:
        problem = problem or f"{shown!r} would be a shift of {length_of(start, end) / 60:g} hours"
    end = "00:00" if end == "24:00" else end
    return Range(start or "", end or "", before, after, problem, is_halved=any(halves), is_bracketed=is_bracketed)


def find_single(text: str, *, is_later: bool = False) -> str | None:
    """Find the one time that a line consists of, with its half of the day; a later one perhaps after a dash."""
    found = (LATER if is_later else SINGLE).match(text)
    if found is None or LONE_CAPITAL.fullmatch(found[3] or ""):
        return None
    time = time_of(found[1], found[2])
    return f"{time} {half_of(found[3] or '')}".strip() if time else None


# Hours without minutes ------------------------------------------------------------------------------------------------


def hour_parts(found: re.Match[str]) -> list[str]:
    """Return hour, minute and half of the day, twice, of a match of HOURS_ALONE."""
    _, hour, minute, _, half, later_hour, later_minute, _, later_half = (part or "" for part in found.groups())
    return [hour, minute, half, later_hour, later_minute, later_half]


def is_certain(found: re.Match[str]) -> bool | None:
    """Check whether words say that hours are times; None where both have minutes.

    Of 8-10:30 the first may have lost its minutes, so a word for both is not enough: each hour needs its own.
    """
    _, minute, half, _, later_minute, later_half = hour_parts(found)
    if minute and later_minute:
        return None
    is_first = bool(found["first"]) or is_sure_half(half)
    is_second = bool(found["second"]) or is_sure_half(later_half)
    if (minute or is_first) and (later_minute or is_second):
        return True
    return not minute and not later_minute and (bool(found["lead"]) or is_second)


def is_sure_half(shown: str) -> bool:
    """Check whether it says the half of the day in more than one letter: 7a may be the number of a house."""
    return len(shown.strip(" .")) > 1


# Old times ------------------------------------------------------------------------------------------------------------


def is_old_range(text: str) -> bool:
    """Check whether a line is nothing but a note on an old time, or a range in brackets."""
    text = TOUCHED_BY_WORD.sub(" ", text)
    left = OLD_NOTE.sub("", text)
    left = BRACKETED.sub("", text) if left == text else left
    return left != text and not has_words(left)


def is_old_note(text: str) -> bool:
    """Check whether a line says in words that its times are old."""
    return OLD_NOTE.search(TOUCHED_BY_WORD.sub(" ", text)) is not None


def without_old(text: str) -> str:
    """Return the line without times that are marked as old, or that an arrow replaces by others."""
    kept = REPLACED.sub("", OLD_NOTE.sub(" ", text))
    return text if kept == text else " ".join(kept.split())


def has_words(text: str) -> bool:
    """Check whether there is a letter or a digit."""
    return any(map(str.isalnum, text))


# What was meant for times ---------------------------------------------------------------------------------------------


def is_like_range(text: str) -> bool:
    """Check whether it was meant for a range of times, readable or not."""
    return bool(MEANT_FOR_RANGE.match(ICON.sub("", text)))


def is_like_times(text: str) -> bool:
    """Check whether it was meant for times, a range or a single one, and not for a duration."""
    words = ICON.sub("", text)
    return is_like_range(text) or bool(MEANT_FOR_TIME.match(words) and not DURATION.fullmatch(words.strip()))


def time_of(hour: str, minute: str) -> str | None:
    """Return HH:MM, or None when there is no such time; without a minute it is the full hour."""
    hours, past = int(hour.translate(AS_DIGITS)), int(minute.translate(AS_DIGITS) or 0)
    is_time = (hours < 24 and past < 60) or (hours, past) == (24, 0)
    return f"{hours:02}:{past:02}" if is_time else None


# 12-hour clocks -------------------------------------------------------------------------------------------------------


def half_of(shown: str) -> str:
    """Return AM or PM, or nothing, for what stands after a time."""
    halves = {"a": "AM", "f": "AM", "v": "AM", "p": "PM", "e": "PM", "n": "PM", "i": "PM"}
    return halves.get(shown.strip()[:1].lower(), "")


def is_half_of_day(text: str) -> bool:
    """Check whether a text is nothing but a half of the day: pm, e.m., vorm."""
    return bool(HALF_ALONE.fullmatch(text))


def halved(
    shown: str, start: str | None, end: str | None, halves: tuple[str, str]
) -> tuple[str | None, str | None, str | None]:
    """Convert start and end of a 12-hour clock, or say why not; the half of the end is the start's too."""
    begins, ends = in_half(start, halves[0] or halves[1]), in_half(end, halves[1])
    unknown = f"{shown!r} does not say in which half of the day both times are"
    if not halves[1]:
        return begins, ends, unknown
    if begins is None or ends is None:
        return begins, ends, f"{shown!r} is no range of times by a clock with twelve hours"
    is_told = all(halves) or 0 < length_of(begins, ends) < HALF_DAY_MINUTES
    return begins, ends, None if is_told else unknown


def in_half(time: str | None, half: str) -> str | None:
    """Return HH:MM of a 24-hour clock; None for a time that a 12-hour clock does not show, or without a half."""
    if time is None or not half or not 1 <= int(time[:2]) <= 12:
        return None
    return f"{int(time[:2]) % 12 + (12 if half == 'PM' else 0):02}{time[2:]}"


def length_of(start: str, end: str) -> int:
    """Return the minutes from one to the other; an end that is earlier is on the next day."""
    begins, ends = minutes(start), minutes(end)
    return ends - begins if ends >= begins else ends + MINUTES_OF_DAY - begins
