"""Times as screens print them: 08:00-09:30, 8.00 - 9.30, kl 08:00 till 24:00; and those that cannot be right.

Letters that look like digits are read as such beside real ones. A time that lost its colon, as in 08:00-0930, is
believed where people make appointments: in steps of five minutes, and for a quarter of an hour at least. A telephone
number, 0708-1234, or two years, 2026-2027, are no times.
"""

import re
from dataclasses import dataclass

from duly.ingest.spelling import MINUTES_OF_DAY, minutes

__all__ = ["LONGEST_SHIFT_MINUTES", "Range", "find_range", "find_single"]

LONGEST_SHIFT_MINUTES = 16 * 60
SHORTEST_BARE_MINUTES = 15
STEP_MINUTES = 5
LOOK_ALIKES = {"O": "0", "o": "0", "Q": "0", "l": "1", "L": "1", "I": "1", "i": "1", "|": "1"}
AS_DIGITS = str.maketrans(LOOK_ALIKES)
DIGIT = rf"[0-9{''.join(LOOK_ALIKES)}]"
CLOCK = rf"(?<![0-9A-Za-z])({DIGIT}{{1,2}})\s?[:.;\uff1a\uff0e]\s?({DIGIT}{{2}})(?![0-9])"
BARE = rf"(?<![0-9A-Za-z])({DIGIT}{{2}})({DIGIT}{{2}})(?!\s?[0-9])"
DASH = r"\s*(?:[-\u2010-\u2015\u2212~_]+|\b(?i:till?|to)\b|→|>)\s*"
START = r"^\W*(?:(?i:kl)\.?\s*)?"
RANGE = re.compile(rf"{CLOCK}{DASH}{CLOCK}")
DASHLESS = re.compile(rf"{START}{CLOCK}\s*{CLOCK}\s*$")
HALF_BARE = re.compile(rf"(?:{CLOCK}{DASH}{BARE}|{BARE}{DASH}{CLOCK})")
ALL_BARE = re.compile(rf"{START}{BARE}{DASH}{BARE}")
SINGLE = re.compile(rf"{START}{CLOCK}\s*(?:[-\u2010-\u2015\u2212~]\s*)?$")
LATER = re.compile(rf"^\W*(?:[-\u2010-\u2015\u2212~]\s*)?{CLOCK}\s*$")


@dataclass(frozen=True, slots=True)
class Range:
    """From when to when, as HH:MM, and what stands beside it; or why it cannot be right."""

    start: str
    end: str
    before: str
    after: str
    problem: str | None = None


def find_range(text: str) -> Range | None:
    """The range of times in a line, if there is one."""
    for pattern in (RANGE, DASHLESS, HALF_BARE, ALL_BARE):
        if found := pattern.search(text):
            digits = [group for group in found.groups() if group]
            times = range_of(found[0], digits, text[: found.start()], text[found.end() :])
            is_bare = pattern in (HALF_BARE, ALL_BARE)
            if any(map(str.isdigit, found[0])) and (not is_bare or is_usual(times)):
                return times
    return None


def is_usual(times: Range) -> bool:
    """Is it a range that people would agree on?"""
    if times.problem:
        return False
    is_stepped = not any(minutes(time) % STEP_MINUTES for time in (times.start, times.end))
    return is_stepped and length_of(times.start, times.end) >= SHORTEST_BARE_MINUTES


def range_of(shown: str, digits: list[str], before: str, after: str) -> Range:
    """A range from its four numbers."""
    start, end = time_of(*digits[:2]), time_of(*digits[2:])
    problem = None
    if start is None or end is None or start == "24:00":
        problem = f"{shown.strip()!r} is no range of times"
    elif not 0 < length_of(start, end) <= LONGEST_SHIFT_MINUTES:
        problem = f"{shown.strip()!r} would be a shift of {length_of(start, end) / 60:g} hours"
    return Range(start or "", "00:00" if end == "24:00" else end or "", before.strip(), after.strip(), problem)


def find_single(text: str, *, is_later: bool = False) -> str | None:
    """The one time that a line consists of, if it does; of a later one, perhaps after a dash."""
    found = (LATER if is_later else SINGLE).match(text)
    return time_of(found[1], found[2]) if found else None


def time_of(hour: str, minute: str) -> str | None:
    """HH:MM, or None when there is no such time."""
    hours, past = int(hour.translate(AS_DIGITS)), int(minute.translate(AS_DIGITS))
    is_time = (hours < 24 and past < 60) or (hours, past) == (24, 0)
    return f"{hours:02}:{past:02}" if is_time else None


def length_of(start: str, end: str) -> int:
    """Minutes from one to the other; an end that is earlier is on the next day."""
    begins, ends = minutes(start), minutes(end)
    return ends - begins if ends >= begins else ends + MINUTES_OF_DAY - begins
