"""Times as screens print them: 08:00-09:30, 8.00 - 9.30, kl 08:00 till 24:00; and those that cannot be right."""

import re
from dataclasses import dataclass

__all__ = ["LONGEST_SHIFT_MINUTES", "Range", "find_range", "find_single"]

LONGEST_SHIFT_MINUTES = 16 * 60
MINUTES_OF_DAY = 24 * 60
LOOK_ALIKES = str.maketrans({"O": "0", "o": "0", "Q": "0", "l": "1", "I": "1", "|": "1"})
DIGIT = r"[0-9OoQlI|]"
CLOCK = rf"(?<![0-9A-Za-z])({DIGIT}{{1,2}})\s?[:.;\uff1a\uff0e]\s?({DIGIT}{{2}})(?![0-9])"
BARE = rf"(?<![0-9A-Za-z])({DIGIT}{{2}})()({DIGIT}{{2}})(?![0-9])"
DASH = r"\s*(?:[-\u2010-\u2015\u2212~_]+|\btill?\b|\bto\b|→|>)\s*"
RANGE = re.compile(rf"{CLOCK}{DASH}{CLOCK}", re.IGNORECASE)
BARE_RANGE = re.compile(rf"{BARE}{DASH}{BARE}", re.IGNORECASE)
HALF_BARE = re.compile(rf"(?:{CLOCK}{DASH}{BARE}|{BARE}{DASH}{CLOCK})", re.IGNORECASE)
DASHLESS = re.compile(rf"^\W*(?:kl\.?\s*)?{CLOCK}\s*{CLOCK}\s*$", re.IGNORECASE)
SINGLE = re.compile(rf"^\W*(?:kl\.?\s*)?{CLOCK}\s*(?:[-\u2010-\u2015\u2212~]\s*)?$", re.IGNORECASE)
LATER = re.compile(rf"^\W*(?:[-\u2010-\u2015\u2212~]\s*)?{CLOCK}\s*$", re.IGNORECASE)


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
    for pattern in (RANGE, DASHLESS, HALF_BARE, BARE_RANGE):
        if found := pattern.search(text):
            digits = [group for group in found.groups() if group]
            if len(digits) == 4:
                return range_of(found[0], digits, text[: found.start()], text[found.end() :])
    return None


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
    hours, minutes = int(hour.translate(LOOK_ALIKES)), int(minute.translate(LOOK_ALIKES))
    is_time = (hours < 24 and minutes < 60) or (hours, minutes) == (24, 0)
    return f"{hours:02}:{minutes:02}" if is_time else None


def length_of(start: str, end: str) -> int:
    """Minutes from one to the other; an end that is earlier is on the next day."""
    begins, ends = (int(time[:2]) * 60 + int(time[3:]) for time in (start, end))
    return ends - begins if ends >= begins else ends + MINUTES_OF_DAY - begins
