"""How long: a number of seconds, a timedelta, or a few letters such as "90s", "2m", "1h30m", "7d"."""

import re
from datetime import timedelta
from typing import TypeAlias

from duly.backoff import MAX_SECONDS
from duly.errors import InvalidArgument

__all__ = ["Duration", "seconds_of"]

Duration: TypeAlias = float | timedelta | str

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def seconds_of(duration: Duration, max_length: float = MAX_SECONDS) -> float:
    """The duration in seconds; refused when it is none, negative, or longer than this, which is a year."""
    match duration:
        case timedelta():
            seconds = duration.total_seconds()
        case str():
            seconds = parsed(duration)
        case _:
            seconds = float(duration)
    if not 0 <= seconds <= max_length:  # false for NaN too
        raise InvalidArgument(f"a duration of {duration!r}: must be between 0 and {max_length:.0f} seconds")
    return seconds


def parsed(text: str) -> float:
    """Parts one after another, largest or smallest first: "1h30m"."""
    parts = PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise InvalidArgument(f"a duration of {text!r}: write it as 90s, 2m, 1h30m or 7d (ms, s, m, h, d)")
    return sum(float(number) * UNITS[unit] for number, unit in parts)
