"""Rules that fire every n days, weeks, months or years, on named days and at times of day."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import count
from typing import Any, cast
from zoneinfo import ZoneInfo

from duly.apps.scheduler.wallclock import LAST_DAY, parse_zone, to_instant
from duly.errors import InvalidArgument

EVERY = ("day", "week", "month", "year")
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MAX_TIMES = 24
MAX_INTERVAL = 1000
CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")


@dataclass(frozen=True)
class Periodic:
    """A rule that fires every n days, weeks, months or years, on named days and at times of day."""

    every: str
    interval: int
    at: tuple[time, ...]
    weekdays: tuple[int, ...] = ()  # of a week; or, with nth, of a month
    day: int | None = None  # of a month; -1 is the last
    nth: int | None = None  # of these weekdays in a month; -1 is the last
    month: int | None = None  # of a year

    @property
    def times_a_day(self) -> int:
        """How often it fires on a day."""
        return len(self.at)

    @property
    def time_of_day(self) -> time | None:
        """The time of day at which it fires, when it fires once a day."""
        return self.at[0] if len(self.at) == 1 else None

    @property
    def counts_from_anchor(self) -> bool:
        """Do its days depend on the day it starts? Intervals are counted from it."""
        return True

    def days(self, first: date, last: date, anchor: date) -> Iterator[date]:
        """Yield the days on which it fires, counted from the anchor's day, week, month or year."""
        for days in self.steps(max(first, anchor), anchor):
            for day in days:
                if day > last:
                    return
                if day >= first and day >= anchor:
                    yield day

    def steps(self, first: date, anchor: date) -> Iterator[list[date]]:
        """Yield the days of every nth day, week, month or year, from one that is not later than that of `first`."""
        match self.every:
            case "day":
                begin = max(0, (first - anchor).days // self.interval)
                for nth in count(begin):
                    day = add_days(anchor, nth * self.interval)
                    if day is None:
                        return
                    yield [day]
            case "week":
                monday = anchor - timedelta(days=anchor.weekday())
                begin = max(0, (first - monday).days // 7 // self.interval)
                for nth in count(begin):
                    week = add_days(monday, nth * self.interval * 7)
                    if week is None:
                        return
                    days = [add_days(week, weekday) for weekday in self.weekdays or (anchor.weekday(),)]
                    yield [day for day in days if day]
            case "month":
                yield from self.months(anchor.year * 12 + anchor.month - 1, first, self.interval, anchor)
            case _:
                month = (self.month or anchor.month) - 1
                yield from self.months(anchor.year * 12 + month, first, self.interval * 12, anchor)

    def months(self, origin: int, first: date, step: int, anchor: date) -> Iterator[list[date]]:
        """Yield the days of every nth month, starting with the one that contains `first`."""
        begin = max(0, (first.year * 12 + first.month - 1 - origin) // step)
        for nth in count(begin):
            number = origin + nth * step
            if number // 12 > LAST_DAY.year:
                return
            yield self.days_of_month(number // 12, number % 12 + 1, anchor)

    def days_of_month(self, year: int, month: int, anchor: date) -> list[date]:
        """Return the days of one month; a day that the rule does not name is that of the anchor."""
        last = (date(year + month // 12, month % 12 + 1, 1) - timedelta(days=1)).day
        if self.nth is not None:
            weekday = self.weekdays[0]
            if self.nth == -1:
                end = date(year, month, last)
                return [end - timedelta(days=(end.weekday() - weekday) % 7)]
            day = 1 + (weekday - date(year, month, 1).weekday()) % 7 + 7 * (self.nth - 1)
            return [date(year, month, day)] if day <= last else []
        wanted = self.day or anchor.day
        return [date(year, month, last if wanted == -1 else min(wanted, last))]

    def firing_times(self, after: datetime, zone: ZoneInfo, anchor: date) -> Iterator[datetime]:
        """Yield the instants after another."""
        last = after
        for day in self.days(after.astimezone(zone).date() - timedelta(days=1), LAST_DAY, anchor):
            for clock in self.at:
                instant = to_instant(datetime.combine(day, clock), zone)
                if instant > last:
                    last = instant
                    yield instant

    def sentence(self, anchor: date) -> str:
        """Describe the rule in English; a day that it does not name is that on which it starts."""
        times = " and ".join(clock.strftime("%H:%M") for clock in self.at)
        unit = f"every {self.every}" if self.interval == 1 else f"every {self.interval} {self.every}s"
        return f"{unit.capitalize()}{self.describe_days(anchor)} at {times}"

    def describe_days(self, anchor: date) -> str:
        """Describe on which days of the week, month or year it fires."""
        if self.every == "day":
            return ""
        if self.every == "week":
            return f" on {' and '.join(DAY_NAMES[each] for each in self.weekdays or (anchor.weekday(),))}"
        month = f" of {MONTHS[(self.month or anchor.month) - 1]}" if self.every == "year" else ""
        if self.nth is not None:
            ordinal = "last" if self.nth == -1 else ORDINALS[self.nth]
            return f" on the {ordinal} {DAY_NAMES[self.weekdays[0]]}{month}" + (
                ", if it has one," if self.nth == 5 else ""
            )
        day = self.day or anchor.day
        if day == -1:
            return f" on the last day{month}"
        if self.every == "year":
            return f" on day {day}{month}" + (
                ", or its last," if day > 28 and (self.month or anchor.month) == 2 else ""
            )
        return f" on day {day}" + (", or the last of a shorter month," if day > 28 else "")


ORDINALS = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth"}
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def add_days(day: date, days: int) -> date | None:
    """Return the day a number of days later; None after the last supported day."""
    return day + timedelta(days=days) if days <= (LAST_DAY - day).days else None


def parse_periodic(text: str) -> tuple[Periodic, ZoneInfo | None]:
    """Parse a rule written as JSON."""
    try:
        written = json.loads(text)
    except (ValueError, RecursionError) as error:
        at = f" at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else ""
        raise InvalidArgument(f"rule: is not JSON{at}") from None
    fields = RuleFields(written)
    every = fields.one_of("every", EVERY)
    interval = fields.number("interval", 1, MAX_INTERVAL) or 1
    at = fields.times("at")
    zone = parse_zone("rule.tz", written["tz"]) if "tz" in written else None
    weekdays = fields.weekdays("weekdays" if every == "week" else "weekday")
    day = fields.day("day") if every in ("month", "year") else None
    nth = fields.nth("nth") if every in ("month", "year") else None
    month = fields.number("month", 1, 12) if every == "year" else None
    fields.reject_unknown({"every", "interval", "at", "tz"} | ALLOWED[every])
    if (nth is not None) != (bool(weekdays) and every in ("month", "year")):
        raise InvalidArgument('rule: `nth` needs `weekday` and the reverse, for example "nth": 1, "weekday": "mon"')
    if nth is not None and day is not None:
        raise InvalidArgument("rule: name either `day` or `nth` and `weekday`, not both")
    if every == "month" and nth is None and day is None:
        raise InvalidArgument('rule.day: is required: 1 to 31 or "last"; or `nth` and `weekday`')
    return Periodic(every, interval, at, weekdays, day, nth, month), zone


ALLOWED = {
    "day": set[str](),
    "week": {"weekdays"},
    "month": {"day", "nth", "weekday"},
    "year": {"month", "day", "nth", "weekday"},
}


@dataclass(frozen=True)
class RuleFields:
    """The fields of a periodic rule; every method validates one field and names it in the error."""

    written: Mapping[str, Any]

    def one_of(self, name: str, choices: Sequence[str]) -> str:
        """Return a field that must be one of these values."""
        value = self.written.get(name)
        if not isinstance(value, str) or value not in choices:
            raise InvalidArgument(f"rule.{name}: must be {', '.join(choices[:-1])} or {choices[-1]}, not {value!r}")
        return value

    def number(self, name: str, minimum: int, maximum: int) -> int | None:
        """Return an integer field; None when it is missing."""
        value = self.written.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            raise InvalidArgument(f"rule.{name}: must be an integer from {minimum} to {maximum}, not {value!r}")
        return value

    def times(self, name: str) -> tuple[time, ...]:
        """Return times of day, in order."""
        value = self.written.get(name)
        values = cast("list[object]", value) if isinstance(value, list) else [cast("object", value)]
        if not 1 <= len(values) <= MAX_TIMES:
            raise InvalidArgument(f"rule.{name}: has {len(values)} times, must have 1 to {MAX_TIMES}")
        times = set[time]()
        for each in values:
            clock = CLOCK.fullmatch(each) if isinstance(each, str) else None
            if clock is None:
                raise InvalidArgument(f'rule.{name}: must be a time such as "10:00", or a list of them, not {each!r}')
            times.add(time(int(clock[1]), int(clock[2])))
        return tuple(sorted(times))

    def weekdays(self, name: str) -> tuple[int, ...]:
        """Return days of the week; empty when they are missing."""
        value = self.written.get(name)
        if value is None:
            return ()
        values = (
            cast("list[object]", value) if isinstance(value, list) and name == "weekdays" else [cast("object", value)]
        )
        if not values or any(each not in WEEKDAYS for each in values):
            raise InvalidArgument(f"rule.{name}: must be {', '.join(WEEKDAYS[:-1])} or {WEEKDAYS[-1]}, not {value!r}")
        return tuple(sorted({WEEKDAYS.index(cast("str", each)) for each in values}))

    def day(self, name: str) -> int | None:
        """Return a day of the month; -1 is the last."""
        return -1 if self.written.get(name) == "last" else self.number(name, 1, 31)

    def nth(self, name: str) -> int | None:
        """Return which of the weekdays; -1 is the last."""
        return -1 if self.written.get(name) == "last" else self.number(name, 1, 5)

    def reject_unknown(self, names: set[str]) -> None:
        """Raise InvalidArgument for any other field."""
        others = sorted(set(self.written) - names)
        if others:
            raise InvalidArgument(f"rule.{others[0]}: unknown field; valid: {', '.join(sorted(names))}")
