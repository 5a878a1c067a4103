"""Times as screens print them: 08:00-09:30, 8.00 - 9.30, kl 08:00 till 24:00; and those that cannot be right.

Letters that look like digits are read as such beside real ones. A time that lost its colon, as in 08:00-0930, is
believed where people make appointments: in steps of five minutes, and for a quarter of an hour at least. A telephone
number, 0708-1234, or two years, 2026-2027, are no times.

Of a clock with two halves, 1:00 PM - 3:00 PM, both are converted; 1:00 - 3:00 PM lies in one half. Where the other
half would be possible too, as in 11:00 - 1:00 PM, nothing is guessed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from duly.ingest.eyes.chips import DURATION, ICON
from duly.ingest.spelling import MINUTES_OF_DAY, minutes

__all__ = ["LONGEST_SHIFT_MINUTES", "Range", "find_range", "find_single", "is_like_range", "is_like_times"]

LONGEST_SHIFT_MINUTES = 16 * 60
SHORTEST_BARE_MINUTES = 15
HALF_DAY_MINUTES = MINUTES_OF_DAY // 2
STEP_MINUTES = 5
LOOK_ALIKES = {"O": "0", "o": "0", "Q": "0", "l": "1", "L": "1", "I": "1", "i": "1", "|": "1"}
AS_DIGITS = str.maketrans(LOOK_ALIKES)
DIGIT = rf"[0-9{''.join(LOOK_ALIKES)}]"
CLOCK = rf"(?<![0-9A-Za-z])({DIGIT}{{1,2}})\s?[:.;\uff1a\uff0e]\s?({DIGIT}{{2}})(?![:.]?[0-9])"
BARE = rf"(?<![0-9A-Za-z])({DIGIT}{{2}})({DIGIT}{{2}})(?!\s?[0-9])"
DASH = r"\s*(?:[-\u2010-\u2015\u2212~_=]+|\b(?i:till?|to)\b|→|>)\s*"
START = r"^\W*(?:(?i:kl)\.?\s*)?"
HALF = r"(?:\s?([aApP]\.?\s?[mM]\.?|[ef]m)(?!\w|-[^\W\d]))?"
RANGE = re.compile(rf"{CLOCK}{HALF}{DASH}{CLOCK}{HALF}")
DASHLESS = re.compile(rf"{START}{CLOCK}{HALF}\s*{CLOCK}{HALF}\s*$")
HALF_BARE = re.compile(rf"(?:{CLOCK}{HALF}{DASH}{BARE}{HALF}|{BARE}{HALF}{DASH}{CLOCK}{HALF})")
ALL_BARE = re.compile(rf"{START}{BARE}{HALF}{DASH}{BARE}{HALF}")
SINGLE = re.compile(rf"{START}{CLOCK}{HALF}\s*(?:[-\u2010-\u2015\u2212~]\s*)?$")
LATER = re.compile(rf"^\W*(?:[-\u2010-\u2015\u2212~]\s*)?{CLOCK}{HALF}\s*$")
MEANT_FOR_RANGE = re.compile(
    r"(?=[\d\s\W]*[:.])\d{1,2}[:.\d]*\s*[-\u2010-\u2015]\s*\d[\d:.]*"  # 08:0-09:00, 08-09:00
    r"|(?=(?:\D*\d){3})\w{1,2}[:.]\w{1,2}\s*[-\u2010-\u2015]\s*\w{1,2}[:.]\w{1,2}"  # q8:00-09:00
    r"|\d{1,2}[:.]\d{3,4}[:.]\d{2}(?!\d)"  # 12:1513:15
)
MEANT_FOR_TIME = re.compile(r"\d{1,2}[:.]\d{2}(?![:.]?\d)")


@dataclass(frozen=True, slots=True)
class Range:
    """From when to when, as HH:MM, and what stands beside it; or why it cannot be right."""

    start: str
    end: str
    before: str
    after: str
    problem: str | None = None
    is_halved: bool = False  # by a clock with two halves


def find_range(text: str) -> Range | None:
    """The range of times in a line, if there is one."""
    for pattern in (RANGE, DASHLESS, HALF_BARE, ALL_BARE):
        if found := pattern.search(text):
            parts = [part or "" for part in (found.groups()[:6] if found[1] else found.groups()[-6:])]
            times = range_of(found[0].strip(), parts, text[: found.start()].strip(), text[found.end() :].strip())
            is_bare = pattern in (HALF_BARE, ALL_BARE)
            if any(map(str.isdigit, found[0])) and (not is_bare or is_usual(times)):
                is_alone = not any(
                    is_like_range(beside) or find_range(beside) for beside in (times.before, times.after)
                )
                return times if is_alone else replace(times, problem=f"{text!r} shows more than one range of times")
    return None


def is_usual(times: Range) -> bool:
    """Is it a range that people would agree on?"""
    if times.problem:
        return False
    is_stepped = not any(minutes(time) % STEP_MINUTES for time in (times.start, times.end))
    return is_stepped and length_of(times.start, times.end) >= SHORTEST_BARE_MINUTES


def range_of(shown: str, parts: Sequence[str], before: str, after: str) -> Range:
    """A range from its parts: hour, minute and perhaps half of the day, twice."""
    start, end = time_of(*parts[:2]), time_of(*parts[3:5])
    halves = half_of(parts[2]), half_of(parts[5])
    problem = None
    if any(halves):
        start, end, problem = halved(shown, start, end, halves)
    if start is None or end is None or start == "24:00":
        problem = problem or f"{shown!r} is no range of times"
    elif not 0 < length_of(start, end) <= LONGEST_SHIFT_MINUTES:
        problem = problem or f"{shown!r} would be a shift of {length_of(start, end) / 60:g} hours"
    end = "00:00" if end == "24:00" else end
    return Range(start or "", end or "", before, after, problem, is_halved=any(halves))


def find_single(text: str, *, is_later: bool = False) -> str | None:
    """The one time that a line consists of, if it does, with its half of the day; a later one perhaps after a dash."""
    found = (LATER if is_later else SINGLE).match(text)
    time = time_of(found[1], found[2]) if found else None
    return f"{time} {half_of(found[3] or '')}".strip() if found and time else None


def is_like_range(text: str) -> bool:
    """Was it meant for a range of times, whether or not it can be read?"""
    return bool(MEANT_FOR_RANGE.match(ICON.sub("", text)))


def is_like_times(text: str) -> bool:
    """Was it meant for times, a range or a single one, and not for how long something takes?"""
    words = ICON.sub("", text)
    return is_like_range(text) or bool(MEANT_FOR_TIME.match(words) and not DURATION.fullmatch(words.strip()))


def time_of(hour: str, minute: str) -> str | None:
    """HH:MM, or None when there is no such time."""
    hours, past = int(hour.translate(AS_DIGITS)), int(minute.translate(AS_DIGITS))
    is_time = (hours < 24 and past < 60) or (hours, past) == (24, 0)
    return f"{hours:02}:{past:02}" if is_time else None


# Clocks with two halves -----------------------------------------------------------------------------------------------


def half_of(shown: str) -> str:
    """AM or PM, or nothing, for what stands after a time."""
    return {"a": "AM", "f": "AM", "p": "PM", "e": "PM"}.get(shown[:1].lower(), "")


def halved(
    shown: str, start: str | None, end: str | None, halves: tuple[str, str]
) -> tuple[str | None, str | None, str | None]:
    """Start and end by a clock of twelve hours, and why they cannot be told; the half of an end is the start's too."""
    begins, ends = in_half(start, halves[0] or halves[1]), in_half(end, halves[1])
    unknown = f"{shown!r} does not say in which half of the day both times are"
    if not halves[1]:
        return begins, ends, unknown
    if begins is None or ends is None:
        return begins, ends, f"{shown!r} is no range of times by a clock with twelve hours"
    is_told = all(halves) or 0 < length_of(begins, ends) < HALF_DAY_MINUTES
    return begins, ends, None if is_told else unknown


def in_half(time: str | None, half: str) -> str | None:
    """HH:MM of a whole day; None for a time that such a clock does not show, or without a half."""
    if time is None or not half or not 1 <= int(time[:2]) <= 12:
        return None
    return f"{int(time[:2]) % 12 + (12 if half == 'PM' else 0):02}{time[2:]}"


def length_of(start: str, end: str) -> int:
    """Minutes from one to the other; an end that is earlier is on the next day."""
    begins, ends = minutes(start), minutes(end)
    return ends - begins if ends >= begins else ends + MINUTES_OF_DAY - begins
