"""Every so many days, weeks, months or years, on days that are named, at times of day."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import count
from typing import Any, cast
from zoneinfo import ZoneInfo

from duly.apps.scheduler.wallclock import LAST_DAY, instant_of, parse_zone
from duly.errors import InvalidArgument

__all__ = ["Periodic", "parse_periodic"]

EVERY = ("day", "week", "month", "year")
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MAX_TIMES = 24
MAX_INTERVAL = 1000
CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")


@dataclass(frozen=True)
class Periodic:
    """Every so many days, weeks, months or years, on days that are named, at times of day."""

    every: str
    interval: int
    at: tuple[time, ...]
    weekdays: tuple[int, ...] = ()  # of a week; or, with nth, of a month
    day: int | None = None  # of a month; -1 is the last
    nth: int | None = None  # of these weekdays in a month; -1 is the last
    month: int | None = None  # of a year

    @property
    def times_a_day(self) -> int:
        """How often on a day it fires."""
        return len(self.at)

    @property
    def clock(self) -> time | None:
        """The time of day at which it fires, where that is one."""
        return self.at[0] if len(self.at) == 1 else None

    @property
    def counts_from_anchor(self) -> bool:
        """An interval is counted from the day it begins; so is a day that is not named."""
        return True

    def days(self, first: date, last: date, anchor: date) -> Iterator[date]:
        """The days on which it fires, counted from the anchor's day, week, month or year."""
        for days in self.blocks(max(first, anchor), anchor):
            for day in days:
                if day > last:
                    return
                if day >= first and day >= anchor:
                    yield day

    def blocks(self, first: date, anchor: date) -> Iterator[list[date]]:
        """The days of each block of the interval, from the one that holds `first` on, or an earlier one."""
        match self.every:
            case "day":
                begin = max(0, (first - anchor).days // self.interval)
                for nth in count(begin):
                    day = plus(anchor, nth * self.interval)
                    if day is None:
                        return
                    yield [day]
            case "week":
                monday = anchor - timedelta(days=anchor.weekday())
                begin = max(0, (first - monday).days // 7 // self.interval)
                for nth in count(begin):
                    week = plus(monday, nth * self.interval * 7)
                    if week is None:
                        return
                    found = [plus(week, weekday) for weekday in self.weekdays or (anchor.weekday(),)]
                    yield [day for day in found if day]
            case "month":
                yield from self.months(anchor.year * 12 + anchor.month - 1, first, self.interval)
            case _:
                month = (self.month or anchor.month) - 1
                yield from self.months(anchor.year * 12 + month, first, self.interval * 12, anchor)

    def months(self, origin: int, first: date, step: int, anchor: date | None = None) -> Iterator[list[date]]:
        """The days of every so many months, from the one that holds `first` on."""
        begin = max(0, (first.year * 12 + first.month - 1 - origin) // step)
        for nth in count(begin):
            number = origin + nth * step
            if number // 12 > LAST_DAY.year:
                return
            yield self.days_of_month(number // 12, number % 12 + 1, anchor)

    def days_of_month(self, year: int, month: int, anchor: date | None) -> list[date]:
        """The days of one month."""
        last = (date(year + month // 12, month % 12 + 1, 1) - timedelta(days=1)).day
        if self.nth is not None:
            weekday = self.weekdays[0]
            if self.nth == -1:
                end = date(year, month, last)
                return [end - timedelta(days=(end.weekday() - weekday) % 7)]
            day = 1 + (weekday - date(year, month, 1).weekday()) % 7 + 7 * (self.nth - 1)
            return [date(year, month, day)] if day <= last else []
        wanted = self.day or (anchor.day if anchor else 1)
        return [date(year, month, last if wanted == -1 else min(wanted, last))]

    def after(self, at: datetime, zone: ZoneInfo, anchor: date) -> Iterator[datetime]:
        """The instants after one."""
        last = at
        for day in self.days(at.astimezone(zone).date() - timedelta(days=1), LAST_DAY, anchor):
            for clock in self.at:
                instant = instant_of(datetime.combine(day, clock), zone)
                if instant > last:
                    last = instant
                    yield instant

    def sentence(self, anchor: date) -> str:
        """The rule in plain words; a day that it does not name is that on which it begins."""
        times = " and ".join(clock.strftime("%H:%M") for clock in self.at)
        unit = f"every {self.every}" if self.interval == 1 else f"every {self.interval} {self.every}s"
        return f"{unit.capitalize()}{self.on(anchor)} at {times}"

    def on(self, anchor: date) -> str:
        """On which days of the unit."""
        if self.every == "day":
            return ""
        if self.every == "week":
            return f" on {' and '.join(DAY_NAMES[each] for each in self.weekdays or (anchor.weekday(),))}"
        month = f" of {MONTHS[(self.month or anchor.month) - 1]}" if self.every == "year" else ""
        if self.nth is not None:
            place = "last" if self.nth == -1 else ORDINALS[self.nth]
            return f" on the {place} {DAY_NAMES[self.weekdays[0]]}{month}" + (
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


def plus(day: date, days: int) -> date | None:
    """So many days later; None beyond the years there are."""
    return day + timedelta(days=days) if days <= (LAST_DAY - day).days else None


def parse_periodic(text: str) -> tuple[Periodic, ZoneInfo | None]:
    """Read a rule that is JSON."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        at = f" at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else ""
        raise InvalidArgument(f"rule: is not JSON{at}") from None
    reader = Fields(found)
    every = reader.one_of("every", EVERY)
    interval = reader.number("interval", 1, MAX_INTERVAL) or 1
    at = reader.times("at")
    zone = parse_zone("rule.tz", found["tz"]) if "tz" in found else None
    weekdays = reader.weekdays("weekdays" if every == "week" else "weekday")
    day = reader.day("day") if every in ("month", "year") else None
    nth = reader.nth("nth") if every in ("month", "year") else None
    month = reader.number("month", 1, 12) if every == "year" else None
    reader.refuse_others({"every", "interval", "at", "tz"} | ALLOWED[every])
    if (nth is not None) != (bool(weekdays) and every in ("month", "year")):
        raise InvalidArgument('rule: `nth` and `weekday` go together, for example "nth": 1, "weekday": "mon"')
    if nth is not None and day is not None:
        raise InvalidArgument("rule: name either `day` or `nth` and `weekday`, not both")
    if every == "month" and nth is None and day is None:
        raise InvalidArgument('rule.day: must be there: 1 to 31 or "last"; or `nth` and `weekday`')
    return Periodic(every, interval, at, weekdays, day, nth, month), zone


ALLOWED = {
    "day": set[str](),
    "week": {"weekdays"},
    "month": {"day", "nth", "weekday"},
    "year": {"month", "day", "nth", "weekday"},
}


@dataclass(frozen=True)
class Fields:
    """The fields of a periodic rule, each read or refused by its name."""

    found: Mapping[str, Any]

    def one_of(self, name: str, words: Sequence[str]) -> str:
        """One of these words."""
        value = self.found.get(name)
        if not isinstance(value, str) or value not in words:
            raise InvalidArgument(f"rule.{name}: must be {', '.join(words[:-1])} or {words[-1]}, not {value!r}")
        return value

    def number(self, name: str, least: int, limit: int) -> int | None:
        """A whole number, or None when it is not there."""
        value = self.found.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= limit:
            raise InvalidArgument(f"rule.{name}: must be a whole number from {least} to {limit}, not {value!r}")
        return value

    def times(self, name: str) -> tuple[time, ...]:
        """Times of day, in order."""
        value = self.found.get(name)
        several = cast("list[object]", value) if isinstance(value, list) else [cast("object", value)]
        if not 1 <= len(several) <= MAX_TIMES:
            raise InvalidArgument(f"rule.{name}: has {len(several)} times; 1 to {MAX_TIMES} will do")
        times = set[time]()
        for each in several:
            clock = CLOCK.fullmatch(each) if isinstance(each, str) else None
            if clock is None:
                raise InvalidArgument(f'rule.{name}: must be a time such as "10:00", or a list of them, not {each!r}')
            times.add(time(int(clock[1]), int(clock[2])))
        return tuple(sorted(times))

    def weekdays(self, name: str) -> tuple[int, ...]:
        """Days of the week; none when they are not there."""
        value = self.found.get(name)
        if value is None:
            return ()
        several = (
            cast("list[object]", value) if isinstance(value, list) and name == "weekdays" else [cast("object", value)]
        )
        if not several or any(each not in WEEKDAYS for each in several):
            raise InvalidArgument(f"rule.{name}: must be {', '.join(WEEKDAYS[:-1])} or {WEEKDAYS[-1]}, not {value!r}")
        return tuple(sorted({WEEKDAYS.index(cast("str", each)) for each in several}))

    def day(self, name: str) -> int | None:
        """A day of the month; -1 is the last."""
        return -1 if self.found.get(name) == "last" else self.number(name, 1, 31)

    def nth(self, name: str) -> int | None:
        """Which of the weekdays; -1 is the last."""
        return -1 if self.found.get(name) == "last" else self.number(name, 1, 5)

    def refuse_others(self, names: set[str]) -> None:
        """Nothing in it is overlooked."""
        others = sorted(set(self.found) - names)
        if others:
            raise InvalidArgument(f"rule.{others[0]}: is not known here; there are {', '.join(sorted(names))}")
