"""When something recurs: a rule as people write it, and the instants it means.

    cron: 0 10 1 * *                                                    crontab(5); @daily and its kin are expanded
    cron: CRON_TZ=Europe/Stockholm 0 10 * * MON-FRI                     with a zone of its own
    {"every": "month", "day": 1, "at": "10:00", "tz": "Europe/Stockholm"}
    {"every": "week", "interval": 2, "weekdays": ["mon", "thu"], "at": ["08:00", "17:30"]}

A rule that names times of day follows the clock on the wall of its zone: a time that spring leaves out is the first
instant after it, and a time that autumn has twice is the first of the two. A cron rule with * or / in its hours or
minutes follows elapsed time instead, and has every real hour once. Years are 2000 to 2199.

A period is the coarsest of year, month, ISO week and day, in the rule's zone, in which the rule never fires twice; of
rules that fire more often than daily every instant is a period of its own. It is that of the day that the rule names,
also where clocks are set over midnight and the instant lies on the next day.
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

__all__ = ["Grain", "Rule", "parse_rule"]

MAX_RULE_LENGTH = 200
DAY = timedelta(days=1)
EVERY_KIND_OF_YEAR = (  # in these every kind of year follows every other that it can: 28 years, and those around 2100
    (date(2000, 1, 1), date(2029, 12, 31)),
    (date(2096, 1, 1), date(2104, 12, 31)),
)


class Grain(StrEnum):
    """How long a period is."""

    YEAR = "year"
    MONTH = "month"
    WEEK = "week"
    DAY = "day"
    INSTANT = "instant"

    def key(self, at: datetime, day: date) -> str:
        """The name of the period of an instant that is meant for a day."""
        match self:
            case Grain.YEAR:
                return f"{day.year:04}"
            case Grain.MONTH:
                return f"{day.year:04}-{day.month:02}"
            case Grain.WEEK:
                week = day.isocalendar()
                return f"{week.year:04}-W{week.week:02}"
            case Grain.DAY:
                return day.isoformat()
            case Grain.INSTANT:
                return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%MZ")


class Recurrence(Protocol):
    """What a rule says, without its zone."""

    @property
    def times_a_day(self) -> int | None:
        """How often on a day it fires; None when that follows elapsed time."""
        ...

    @property
    def clock(self) -> time | None:
        """The time of day at which it fires, where that is one."""
        ...

    @property
    def counts_from_anchor(self) -> bool:
        """Do its days depend on the day that it begins?"""
        ...

    def days(self, first: date, last: date, anchor: date) -> Iterator[date]:
        """The days on which it fires."""
        ...

    def after(self, at: datetime, zone: ZoneInfo, anchor: date) -> Iterator[datetime]:
        """The instants after one, in UTC and in order."""
        ...

    def sentence(self, anchor: date) -> str:
        """The rule in plain words, when it begins on this day."""
        ...


@dataclass(frozen=True)
class Rule:
    """A rule that was read: its text, its own zone if it names one, and what recurs."""

    text: str
    recurrence: Recurrence
    zone: ZoneInfo | None = None

    def zone_for(self, users: ZoneInfo | None = None) -> ZoneInfo:
        """The zone whose clock it follows: its own, else the person's, else UTC."""
        return self.zone or users or ZoneInfo("UTC")

    def occurrences(
        self, first_at: datetime, users: ZoneInfo | None = None, *, after: datetime | None = None
    ) -> Iterator[datetime]:
        """The instants from `first_at` on, or of these the ones after another instant; in UTC and in order."""
        zone = self.zone_for(users)
        anchor = first_at.astimezone(zone).date()
        just_before = first_at - timedelta(microseconds=1)
        for at in self.recurrence.after(max(just_before, after or just_before), zone, anchor):
            if at.year > LAST_DAY.year:
                return
            yield at

    def grain(self, first_at: datetime, users: ZoneInfo | None = None) -> Grain:
        """How long its periods are."""
        if self.recurrence.times_a_day != 1:
            return Grain.INSTANT
        return grain_of(self.recurrence, first_at.astimezone(self.zone_for(users)).date())

    def period(self, at: datetime, grain: Grain, users: ZoneInfo | None = None) -> str:
        """The key of the period that one of its instants belongs to."""
        return grain.key(at, self.named_day(at, self.zone_for(users)))

    def named_day(self, at: datetime, zone: ZoneInfo) -> date:
        """The day that it names for one of its instants: the day before, where clocks were set over midnight."""
        local, clock = at.astimezone(zone), self.recurrence.clock
        return local.date() - DAY if clock and clock > local.time() else local.date()

    def sentence(self, first_at: datetime, users: ZoneInfo | None = None) -> str:
        """The rule in plain words, with its zone; a day that it does not name is that of `first_at`."""
        zone = self.zone_for(users)
        return f"{self.recurrence.sentence(first_at.astimezone(zone).date())}, {zone.key}"


def grain_of(recurrence: Recurrence, anchor: date) -> Grain:
    """The coarsest grain in which it never fires twice.

    Of a rule that counts from the day it begins, every day is looked at to the last; of any other, a day depends only
    on the kind of its year, so that every kind of year and of the next is enough.
    """
    left = {Grain.YEAR: 0, Grain.MONTH: 0, Grain.WEEK: 0}
    for first, last in ((anchor, LAST_DAY),) if recurrence.counts_from_anchor else EVERY_KIND_OF_YEAR:
        for day in recurrence.days(first, last, anchor):
            year, week, _ = day.isocalendar()
            numbers = {Grain.YEAR: day.year, Grain.MONTH: day.year * 12 + day.month, Grain.WEEK: year * 54 + week}
            left = {grain: numbers[grain] for grain, before in left.items() if before != numbers[grain]}
            if not left:
                return Grain.DAY
    return next(iter(left))


def parse_rule(text: str) -> Rule:
    """Read a rule; InvalidArgument, pointing at the place, when it is none."""
    if not 1 <= len(text) <= MAX_RULE_LENGTH:
        raise InvalidArgument(f"rule: has {len(text)} characters; between 1 and {MAX_RULE_LENGTH} make a rule")
    if text.lstrip().startswith("{"):
        return Rule(text, *parse_periodic(text))
    if text.startswith("cron:"):
        return Rule(text, *parse_cron(text))
    raise InvalidArgument(
        "rule: must begin with `cron:`, for example cron: 0 10 1 * *, or be JSON, for example "
        '{"every": "month", "day": 1, "at": "10:00"}'
    )
