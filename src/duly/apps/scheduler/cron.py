"""Rules in the five fields of crontab(5), and the instants at which they fire."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property, lru_cache
from typing import Any, cast
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from duly.apps.scheduler.wallclock import LAST_DAY, MINUTE, find_clock_change, parse_zone, to_instant
from duly.errors import InvalidArgument

DAY = timedelta(days=1)
MAX_CACHED_DAYS = 10_000
NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
ENDINGS = {"1": "st", "2": "nd", "3": "rd"}
MIN_LENGTH = {month: 28 if month == 2 else 30 if month in (4, 6, 9, 11) else 31 for month in range(1, 13)}
FIELDS = {
    "minute": (0, "0 to 59"),
    "hour": (1, "0 to 23"),
    "day-of-month": (2, "1 to 31, L for the last day or LW for the last working day"),
    "month": (3, "1 to 12 or JAN to DEC"),
    "day-of-week": (4, "0 to 7 (0 and 7 are Sunday) or SUN to SAT, 5L for the last Friday, 2#1 for the first Tuesday"),
}


@dataclass(frozen=True)
class Cron:
    """A rule of five crontab(5) fields."""

    fields: tuple[str, str, str, str, str]

    @cached_property
    def parsed(self) -> CronSim:
        """The fields as parsed by cronsim; used for its sets of values, not for its times."""
        return CronSim(" ".join(self.fields), datetime(2000, 1, 1, tzinfo=UTC))

    @property
    def follows_elapsed_time(self) -> bool:
        """Whether it fires at intervals, rather than at times of day."""
        return any(sign in self.fields[0] + self.fields[1] for sign in "*/")

    @property
    def times_a_day(self) -> int | None:
        """How often it fires on a day; None when that follows elapsed time."""
        return None if self.follows_elapsed_time else len(self.parsed.minutes) * len(self.parsed.hours)

    @property
    def time_of_day(self) -> time | None:
        """The time of day at which it fires, when it fires once a day."""
        return time(min(self.parsed.hours), min(self.parsed.minutes)) if self.times_a_day == 1 else None

    @property
    def counts_from_anchor(self) -> bool:
        """Do its days depend on the day it starts? The calendar alone decides."""
        return False

    def days(self, first: date, last: date, anchor: date) -> Iterator[date]:  # noqa: ARG002
        """Yield the days on which it fires."""
        return filter(self.matches, (first + timedelta(days=number) for number in range((last - first).days + 1)))

    def firing_times(self, after: datetime, zone: ZoneInfo, anchor: date) -> Iterator[datetime]:  # noqa: ARG002
        """Yield the instants after another; two local times in the same gap of a clock change are one instant."""
        last = after
        start = self.shortly_before_next(after, zone)
        if start is None:
            return
        for tick in (
            self.elapsed(start, zone)
            if self.follows_elapsed_time
            else CronSim(" ".join(self.fields), start.astimezone(zone))
        ):
            instant = tick.astimezone(UTC)
            if instant > last:
                last = instant
                yield instant

    def elapsed(self, at: datetime, zone: ZoneInfo) -> Iterator[datetime]:
        """Yield the instants of a rule that follows elapsed time: real minutes whose local time matches the fields.

        cronsim steps by whole hours, and would miss instants where clocks change by half an hour or at midnight.
        """
        cron = self.parsed
        moment = at.replace(second=0, microsecond=0) + MINUTE
        while moment.year <= LAST_DAY.year:
            local = moment.astimezone(zone)
            if not self.matches(local.date()):
                start = self.shortly_before_next(moment, zone)
                if start is None:
                    return
                if start > moment:
                    moment = start
                    continue
                wait = 24 * 60 - local.hour * 60 - local.minute
            elif local.hour not in cron.hours or local.minute > max(cron.minutes):
                wait = 60 - local.minute
            elif local.minute not in cron.minutes:
                wait = min(minute for minute in cron.minutes if minute > local.minute) - local.minute
            else:
                yield moment
                wait = 1
            later = moment + wait * MINUTE
            moment = find_clock_change(moment, later, zone) or later

    def matches(self, day: date) -> bool:
        """Return whether it fires on this day."""
        return day.month in self.parsed.months and self.parsed.match_day(day)

    def shortly_before_next(self, at: datetime, zone: ZoneInfo) -> datetime | None:
        """Return an instant from which to search for the next firing; None when it never fires again.

        That is `at`, or the day before the next day on which it fires if that is later: decades without a firing are
        skipped, and no clock change can hide one.
        """
        day = next_day(self, at.astimezone(zone).date())
        if day is None:
            return None
        return max(at, to_instant(datetime.combine(day - DAY, time()), zone) - MINUTE)

    def sentence(self, anchor: date) -> str:  # noqa: ARG002
        """Describe the rule in English."""
        sentence = re.sub(r"\b([23]?)([123])th\b", lambda it: it[1] + it[2] + ENDINGS[it[2]], self.parsed.explain())
        return sentence + self.describe_left_out_months()

    def describe_left_out_months(self) -> str:
        """Return in which months it fires only, where the sentence alone would promise more."""
        days, months, weekdays = self.fields[2:]
        if "#5" in weekdays:
            return " (only in months that have five)"
        rare = [int(day) for day in days.split(",") if day in ("29", "30", "31")]
        if not rare or max(rare) <= min(MIN_LENGTH[month] for month in self.parsed.months):
            return ""
        if months in ("2", "FEB"):
            return " (only in leap years)"
        return f" (day {' and '.join(map(str, rare))} only in months that have as many)"


@lru_cache(maxsize=MAX_CACHED_DAYS)
def next_day(cron: Cron, first: date) -> date | None:
    """Return the first day, from a given one on, on which a rule fires; cached, because it may be decades away."""
    day = first
    while day <= LAST_DAY + DAY:  # its first hours are still LAST_DAY in some zones
        if cron.matches(day):
            return day
        day = day + DAY if day.month in cron.parsed.months else (day.replace(day=28) + 4 * DAY).replace(day=1)
    return None


def parse_cron(text: str) -> tuple[Cron, ZoneInfo | None]:
    """Parse `cron:` and five fields, optionally with a time zone in front."""
    fields = text.removeprefix("cron:").split()
    zone = None
    if fields and (named := re.fullmatch(r"(?:CRON_)?TZ=(.*)", fields[0])):
        zone, fields = parse_zone("rule: CRON_TZ", named[1]), fields[1:]
    if len(fields) == 1 and fields[0].lower() in NICKNAMES:
        fields = NICKNAMES[fields[0].lower()].split()
    if len(fields) != 5:
        raise InvalidArgument(
            f"rule: has {len(fields)} fields after `cron:`, needs five: minute, hour, day of month, month, day of "
            "week; for example cron: 0 10 1 * *"
        )
    cron = Cron(cast("Any", tuple(fields)))
    try:
        next(CronSim(" ".join(fields), datetime(2000, 1, 1, tzinfo=UTC)))
    except CronSimError as error:
        raise field_error(fields, str(error)) from None
    except StopIteration:
        raise InvalidArgument(f"rule: `{' '.join(fields)}` never fires: there is no such day") from None
    return cron, zone


def field_error(fields: Sequence[str], error: str) -> InvalidArgument:
    """Return the error for a field that cronsim rejected, with the position and the valid values."""
    name = error.removeprefix("Bad ")
    index, accepted = FIELDS.get(name, (0, ""))
    if not accepted:
        return InvalidArgument(f"rule: `{' '.join(fields)}` is not a cron rule: {error}")
    before = sum(len(word) + 1 for word in fields[:index])
    return InvalidArgument(
        f"rule: the {name.replace('-', ' ')} of `{' '.join(fields)}`, at character {before + 1}, is {fields[index]!r}; "
        f"valid: {accepted}"
    )
