"""Convert local times of a time zone to instants, and find when the zone's clocks change."""

import re
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from duly.errors import InvalidArgument

LAST_DAY = date(2199, 12, 31)
MINUTE = timedelta(minutes=1)


def to_instant(local: datetime, zone: ZoneInfo) -> datetime:
    """Return the instant of a local time: the first if it occurs twice, the end of the gap if it does not occur."""
    instant = local.replace(tzinfo=zone).astimezone(UTC)  # fold=0 is the first of two
    if instant.astimezone(zone).replace(tzinfo=None) == local:
        return instant
    before = local.replace(tzinfo=zone, fold=1).astimezone(UTC)  # in a gap, the two folds are before and after it
    change = find_clock_change(before, instant, zone)
    assert change, "a gap is where a clock was set"
    return change


def find_clock_change(before: datetime, after: datetime, zone: ZoneInfo) -> datetime | None:
    """Return the instant between two at which the UTC offset of a zone changes; None when it does not."""
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


def parse_zone(field_name: str, name: object) -> ZoneInfo:
    """Return the zone of an IANA name; InvalidArgument when there is none."""
    try:
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+_/-]{0,63}", name):
            raise ValueError
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise InvalidArgument(f"{field_name}: must be an IANA zone such as Europe/Stockholm, not {name!r}") from None
