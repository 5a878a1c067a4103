"""Parse durations: a number of seconds, a timedelta, or a string such as "90s", "2m", "1h30m", "7d"."""

import re
from datetime import timedelta
from typing import TypeAlias

from duly.backoff import MAX_SECONDS
from duly.errors import InvalidArgument

Duration: TypeAlias = float | timedelta | str

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def to_seconds(duration: Duration, max_seconds: float = MAX_SECONDS) -> float:
    """Convert a duration to seconds; InvalidArgument when it is malformed, negative or longer than `max_seconds`."""
    match duration:
        case timedelta():
            seconds = duration.total_seconds()
        case str():
            seconds = parse_text(duration)
        case _:
            seconds = float(duration)
    if not 0 <= seconds <= max_seconds:  # false for NaN too
        raise InvalidArgument(f"duration {duration!r}: must be between 0 and {max_seconds:.0f} seconds")
    return seconds


def parse_text(text: str) -> float:
    """Parse a string of parts in any order, such as "1h30m"."""
    parts = PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise InvalidArgument(f"duration {text!r}: write it as 90s, 2m, 1h30m or 7d (ms, s, m, h, d)")
    return sum(float(number) * UNITS[unit] for number, unit in parts)
