"""Times and durations on the command line.

A time without a zone is in the user's zone: that of the `--zone` option if it is given, or else that of this machine
(`TZ`). How it was read is printed to standard error.
"""

import sys
from datetime import UTC, datetime, tzinfo
from typing import overload

from duly.errors import InvalidArgument
from duly.jobs.duration import to_seconds


@overload
def parse_time(option: str, text: str, zone: tzinfo | None = None) -> datetime: ...


@overload
def parse_time(option: str, text: str | None, zone: tzinfo | None = None) -> datetime | None: ...


def parse_time(option: str, text: str | None, zone: tzinfo | None = None) -> datetime | None:
    """Parse a time, or a date, which means its midnight; return it in UTC. An option not given is None."""
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is not None:
            return time.astimezone(UTC)
        local = time.astimezone() if zone is None else time.replace(tzinfo=zone)
        found = local.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidArgument(
            f"{option} {text[:40]!r}: must be a time such as 2030-01-31T08:00+01:00, or a date such as 2030-01-31"
        ) from None
    print(f"duly: {option} {text}: read as {local:%Y-%m-%d %H:%M:%S %Z}", file=sys.stderr)
    return found


def parse_duration(option: str, text: str | None) -> float | None:
    """Parse a duration such as 1h30m into seconds. An option not given is None."""
    if text is None:
        return None
    try:
        return to_seconds(text)
    except InvalidArgument as error:
        raise InvalidArgument(f"{option}: {error}") from None
