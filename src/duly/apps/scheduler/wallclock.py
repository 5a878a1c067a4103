"""Clocks on walls: which instant a local time is, and when the clocks of a zone are set."""

import re
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from duly.errors import InvalidArgument

__all__ = ["LAST_DAY", "MINUTE", "first_change", "instant_of", "parse_zone"]

LAST_DAY = date(2199, 12, 31)
MINUTE = timedelta(minutes=1)


def instant_of(local: datetime, zone: ZoneInfo) -> datetime:
    """The instant at which a wall clock shows this: the first of two, or the first after a gap."""
    instant = local.replace(tzinfo=zone).astimezone(UTC)  # of two, fold=0 is the first
    if instant.astimezone(zone).replace(tzinfo=None) == local:
        return instant
    before = local.replace(tzinfo=zone, fold=1).astimezone(UTC)  # in a gap these lie before and after its instant
    change = first_change(before, instant, zone)
    assert change, "a gap is where a clock was set"
    return change


def first_change(before: datetime, after: datetime, zone: ZoneInfo) -> datetime | None:
    """The instant between two at which the clocks of a zone are set; None when they go on as they were."""
    before, after = before.astimezone(UTC), after.astimezone(UTC)
    offset = before.astimezone(zone).utcoffset()
    if after.astimezone(zone).utcoffset() == offset:
        return None
    while after - before > timedelta(seconds=1):
        middle = before + timedelta(seconds=(after - before) // timedelta(seconds=2))
        if middle.astimezone(zone).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after.replace(microsecond=0) if after.microsecond else after


def parse_zone(place: str, name: object) -> ZoneInfo:
    """The zone of an IANA name."""
    try:
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+_/-]{0,63}", name):
            raise ValueError
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise InvalidArgument(f"{place}: must be an IANA zone such as Europe/Stockholm, not {name!r}") from None
