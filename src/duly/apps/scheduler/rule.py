"""Rules for recurring events: how they are written, and the instants at which they fire (their firings).

    cron: 0 10 1 * *                                                    crontab(5); @daily and the like are expanded
    cron: CRON_TZ=Europe/Stockholm 0 10 * * MON-FRI                     with its own time zone
    {"every": "month", "day": 1, "at": "10:00", "tz": "Europe/Stockholm"}
    {"every": "week", "interval": 2, "weekdays": ["mon", "thu"], "at": ["08:00", "17:30"]}

A rule that names times of day follows the local time of its zone: a time that does not occur when clocks go forward is
the first instant after the gap, and a time that occurs twice when clocks go back is the first of the two. A cron rule
with * or / in its hours or minutes follows elapsed time instead, and has every real hour once. Years are 2000 to 2199.

A period is the coarsest of year, month, ISO week and day, in the rule's zone, in which the rule never fires twice; for
rules with several times of day, or that follow elapsed time, every instant is its own period. The period is that of the
day that the rule names, even when a clock change at midnight moves the instant to the next day.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import Protocol
from zoneinfo import ZoneInfo

from duly.apps.scheduler.cron import parse_cron
from duly.apps.scheduler.periodic import parse_periodic
from duly.apps.scheduler.wallclock import LAST_DAY
from duly.errors import InvalidArgument

MAX_RULE_LENGTH = 200
DAY = timedelta(days=1)
YEARS_OF_EVERY_SHAPE = (  # every pair of consecutive years by length and first weekday: 28 years, and around 2100
    (date(2000, 1, 1), date(2029, 12, 31)),
    (date(2096, 1, 1), date(2104, 12, 31)),
)


class PeriodUnit(StrEnum):
    """The calendar unit of the periods of a rule."""

    YEAR = "year"
    MONTH = "month"
    WEEK = "week"
    DAY = "day"
    INSTANT = "instant"

    def key(self, at: datetime, day: date) -> str:
        """Return the key of a period, such as 2025-01, given an instant and the day that the rule names for it."""
        match self:
            case PeriodUnit.YEAR:
                return f"{day.year:04}"
            case PeriodUnit.MONTH:
                return f"{day.year:04}-{day.month:02}"
            case PeriodUnit.WEEK:
                week = day.isocalendar()
                return f"{week.year:04}-W{week.week:02}"
            case PeriodUnit.DAY:
                return day.isoformat()
            case PeriodUnit.INSTANT:
                return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%MZ")


class Recurrence(Protocol):
    """A rule without its time zone. Intervals such as "every 2 weeks" are counted from its anchor, its first day."""

    @property
    def times_a_day(self) -> int | None:
        """How often it fires on a day; None when that follows elapsed time."""
        ...

    @property
    def time_of_day(self) -> time | None:
        """The time of day at which it fires, when it fires once a day."""
        ...

    @property
    def counts_from_anchor(self) -> bool:
        """Whether its days depend on the day it starts."""
        ...

    def days(self, first: date, last: date, anchor: date) -> Iterator[date]:
        """Yield the days on which it fires."""
        ...

    def firing_times(self, after: datetime, zone: ZoneInfo, anchor: date) -> Iterator[datetime]:
        """Yield the instants at which it fires after another, in UTC and in order."""
        ...

    def sentence(self, anchor: date) -> str:
        """Describe the rule in English, when it starts on this day."""
        ...


@dataclass(frozen=True)
class Rule:
    """A parsed rule: its text, its recurrence, and its own time zone if it names one."""

    text: str
    recurrence: Recurrence
    zone: ZoneInfo | None = None

    def zone_for(self, user_zone: ZoneInfo | None) -> ZoneInfo:
        """Return the zone that it follows: its own, else the user's, else UTC."""
        return self.zone or user_zone or ZoneInfo("UTC")

    def firing_times(
        self, not_before: datetime, user_zone: ZoneInfo | None = None, *, after: datetime | None = None
    ) -> Iterator[datetime]:
        """Yield the instants at which it fires from `not_before` on, or only those after another; in UTC, in order."""
        zone = self.zone_for(user_zone)
        anchor = not_before.astimezone(zone).date()
        just_before = not_before - timedelta(microseconds=1)
        for at in self.recurrence.firing_times(max(just_before, after or just_before), zone, anchor):
            if at.year > LAST_DAY.year:
                return
            yield at

    def period_unit(self, not_before: datetime, user_zone: ZoneInfo | None = None) -> PeriodUnit:
        """Return the unit of its periods."""
        if self.recurrence.times_a_day != 1:
            return PeriodUnit.INSTANT
        return coarsest_period_unit(self.recurrence, not_before.astimezone(self.zone_for(user_zone)).date())

    def period_key(self, at: datetime, unit: PeriodUnit, user_zone: ZoneInfo | None = None) -> str:
        """Return the key of the period of one of its instants."""
        return unit.key(at, self.named_day(at, self.zone_for(user_zone)))

    def named_day(self, at: datetime, zone: ZoneInfo) -> date:
        """Return the day that the rule names for an instant: the day before, where a clock change skipped midnight."""
        local, time_of_day = at.astimezone(zone), self.recurrence.time_of_day
        return local.date() - DAY if time_of_day and time_of_day > local.time() else local.date()

    def sentence(self, not_before: datetime, user_zone: ZoneInfo | None = None) -> str:
        """Describe the rule in English, with its zone; a day that it does not name is that of `not_before`."""
        zone = self.zone_for(user_zone)
        return f"{self.recurrence.sentence(not_before.astimezone(zone).date())}, {zone.key}"


def coarsest_period_unit(recurrence: Recurrence, anchor: date) -> PeriodUnit:
    """Return the coarsest unit in which a rule never fires twice: months for every fifth week, and for every month.

    For a rule that counts from its first day, every day until the last is checked. For any other, the days depend only
    on the length and the first weekday of a year, so that every combination of a year and the next is enough.
    """
    candidates = {PeriodUnit.YEAR: 0, PeriodUnit.MONTH: 0, PeriodUnit.WEEK: 0}
    for first, last in ((anchor, LAST_DAY),) if recurrence.counts_from_anchor else YEARS_OF_EVERY_SHAPE:
        for day in recurrence.days(first, last, anchor):
            year, week, _ = day.isocalendar()
            numbers = {
                PeriodUnit.YEAR: day.year,
                PeriodUnit.MONTH: day.year * 12 + day.month,
                PeriodUnit.WEEK: year * 54 + week,
            }
            candidates = {unit: numbers[unit] for unit, before in candidates.items() if before != numbers[unit]}
            if not candidates:
                return PeriodUnit.DAY
    return next(iter(candidates))


def parse_rule(text: str) -> Rule:
    """Parse a rule; InvalidArgument, with the position of the mistake, when it is invalid."""
    if not 1 <= len(text) <= MAX_RULE_LENGTH:
        raise InvalidArgument(f"rule: has {len(text)} characters, must have 1 to {MAX_RULE_LENGTH}")
    if text.lstrip().startswith("{"):
        return Rule(text, *parse_periodic(text))
    if text.startswith("cron:"):
        return Rule(text, *parse_cron(text))
    raise InvalidArgument(
        "rule: must begin with `cron:`, for example cron: 0 10 1 * *, or be JSON, for example "
        '{"every": "month", "day": 1, "at": "10:00"}'
    )
