"""An oracle for rules: when they fire, computed minute by minute from their text, without code of duly.

A rule is the fields of crontab(5) or the JSON of a periodic rule. Every real minute around a clock change has its local
time; a time of day is the first minute with that local time, or the first after the gap that skips it; a rule with * or
/ in its minutes or hours fires at every real minute whose local time matches its fields.
"""

import calendar
import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import cached_property, lru_cache
from typing import Any
from zoneinfo import ZoneInfo

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
NAMES = {
    **{name: number for number, name in enumerate(("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"))},
    **{name.upper(): number for number, name in enumerate(calendar.month_abbr) if name},
}
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

CRON = (
    *("0 0 * * *", "30 0 * * *", "1 0 * * *", "0 1 * * *", "30 1 * * *", "0 2 * * *", "15 2 * * *", "30 2 * * *"),
    *("59 2 * * *", "0 3 * * *", "30 3 * * *", "0 4 * * *", "0 12 * * *", "0 22 * * *", "0 23 * * *", "30 23 * * *"),
    *("59 23 * * *", "0 0,12 * * *", "30 1,2,3 * * *", "0,30 2 * * *", "0-59 2 * * *", "15 0-4 * * *"),
    *("30 2 * * SUN", "30 2 * * 0", "0 0 * * MON", "30 23 * * SAT", "30 0 * * 7", "0 2 * * MON-FRI", "30 2 1-7 * *"),
    *("30 2 L * *", "0 0 1 * *", "30 23 L * *", "30 2 LW * *", "30 2 * * SUN#1", "30 2 * * 0#5", "30 2 * * 0L"),
    *("30 2 29 2 *", "30 2 31 * *", "0 2 * 3 *", "30 2 * 3,10,11 SUN", "30 1 * OCT,NOV *", "0 3 8-14 3 *"),
    *("30 23 27 * *", "0 0 30 12 *", "30 2 */2 * *", "30 2 1,15 * MON", "30 0 15 * *", "0 10 28-31 * *"),
    *("* * * * *", "*/5 * * * *", "*/20 0 * * *", "*/7 2 * * *", "0 * * * *", "30 * * * *", "0 */2 * * *"),
    *("0 */6 * * *", "15 */5 * * SUN", "*/30 0-3 * * *", "59 * * * *", "0 1-23/2 * * *", "*/15 2,3 * * SAT,SUN"),
    *("5 */3 1-15 * *", "* 2 * * *", "*/10 23 * * *"),
)
PERIODIC: tuple[Mapping[str, Any], ...] = (
    *({"every": "day", "at": at} for at in ("00:00", "00:30", "02:00", "02:30", "03:00", "12:00", "23:00", "23:30")),
    *({"every": "day", "interval": n, "at": "02:30"} for n in (2, 3, 7, 28, 31, 364, 365, 366)),
    {"every": "day", "at": ["02:00", "02:30", "23:59"]},
    *({"every": "week", "at": at} for at in ("00:00", "02:30", "23:30")),
    *({"every": "week", "interval": n, "weekdays": ["sat", "sun"], "at": "23:30"} for n in (1, 2, 52)),
    {"every": "week", "weekdays": ["mon", "thu"], "at": ["02:30", "17:30"]},
    *({"every": "month", "day": day, "at": "02:30"} for day in (1, 28, 29, 31, "last")),
    *({"every": "month", "nth": nth, "weekday": "sun", "at": "02:30"} for nth in (1, 5, "last")),
    {"every": "month", "interval": 3, "day": 27, "at": "23:30"},
    {"every": "year", "at": "02:30"},
    {"every": "year", "month": 3, "nth": "last", "weekday": "sun", "at": "02:30"},
    {"every": "year", "month": 2, "day": 29, "at": "00:00"},
    {"every": "year", "interval": 4, "month": 12, "day": 30, "at": "10:00"},
)
RULES = (*(f"cron: {fields}" for fields in CRON), *(json.dumps(each) for each in PERIODIC))


# Zones ----------------------------------------------------------------------------------------------------------------


def clock_changes(zone: ZoneInfo, first: datetime, last: datetime) -> Sequence[datetime]:
    """Return every instant between two at which the UTC offset of a zone changes."""
    found: list[datetime] = []
    at, offset = first, first.astimezone(zone).utcoffset()
    while at < last:
        later = at + DAY
        while (now := later.astimezone(zone).utcoffset()) != offset:
            low, high = 0, int((later - at).total_seconds())
            while high - low > 1:
                middle = (low + high) // 2
                is_before = (at + timedelta(seconds=middle)).astimezone(zone).utcoffset() == offset
                low, high = (middle, high) if is_before else (low, middle)
            at += timedelta(seconds=high)
            found.append(at)
            offset = at.astimezone(zone).utcoffset()
            if offset == now:
                break
        at = later
    return found


@dataclass(frozen=True)
class Window:
    """Every real minute of a few days in a zone, with its local time."""

    zone: ZoneInfo
    first: datetime
    minutes: int

    @property
    def last(self) -> datetime:
        """The first instant after the window."""
        return self.first + self.minutes * MINUTE

    @cached_property
    def walls(self) -> Sequence[datetime]:
        """The local time of every minute."""
        return [
            (self.first + number * MINUTE).astimezone(self.zone).replace(tzinfo=None, fold=0)
            for number in range(self.minutes)
        ]

    @cached_property
    def first_minute_of(self) -> Mapping[datetime, int]:
        """The first minute of every local time."""
        first_minutes: dict[datetime, int] = {}
        for number, wall in enumerate(self.walls):
            first_minutes.setdefault(wall, number)
        return first_minutes

    @cached_property
    def highest(self) -> Sequence[datetime]:
        """The latest local time up to every minute."""
        highest: list[datetime] = []
        for wall in self.walls:
            highest.append(max(wall, highest[-1]) if highest else wall)
        return highest

    def to_instant(self, local: datetime) -> datetime | None:
        """Return the first minute with this local time, or the first after it; None outside of the window."""
        number = self.first_minute_of.get(local)
        if number is None:
            number = bisect_left(self.highest, local)
        if number == self.minutes or (number == 0 and self.walls[0] != local):
            return None
        return self.first + number * MINUTE


# Rules ----------------------------------------------------------------------------------------------------------------


def firings(text: str, window: Window, anchor: date) -> list[tuple[datetime, date | None]]:
    """Return the instants of a window at which a rule fires, each with the day that it names; None for elapsed time."""
    if text.startswith("cron:"):
        fields = text.removeprefix("cron: ").split()
        if any(sign in fields[0] + fields[1] for sign in "*/"):
            return list(elapsed(fields, window))
        clocks = [time(hour, minute) for hour in values(fields[1], 0, 23) for minute in values(fields[0], 0, 59)]
        return at_clocks(lambda day: is_cron_day(tuple(fields[2:]), day), clocks, window)
    rule = json.loads(text)
    times = rule["at"] if isinstance(rule["at"], list) else [rule["at"]]
    return at_clocks(lambda day: is_periodic_day(text, day, anchor), [time.fromisoformat(at) for at in times], window)


def at_clocks(
    is_day: Callable[[date], bool], clocks: Sequence[time], window: Window
) -> list[tuple[datetime, date | None]]:
    """Return the instants of times of day in a window; equal instants are one, of the day that exists.

    When a whole day is skipped (Fakaofo, 30 December 2011), its midnight is the midnight of the next day.
    """
    found: dict[datetime, date | None] = {}
    day = window.walls[0].date() - DAY
    while day <= window.walls[-1].date():
        for clock in sorted(clocks) if is_day(day) else ():
            local = datetime.combine(day, clock)
            if instant := window.to_instant(local):
                found[instant] = day if local in window.first_minute_of else found.get(instant, day)
        day += DAY
    return sorted(found.items())


def elapsed(fields: Sequence[str], window: Window) -> Iterator[tuple[datetime, None]]:
    """Yield every real minute that matches the fields."""
    minutes, hours = set(values(fields[0], 0, 59)), set(values(fields[1], 0, 23))
    for number, wall in enumerate(window.walls):
        if wall.minute in minutes and wall.hour in hours and is_cron_day(tuple(fields[2:]), wall.date()):
            yield window.first + number * MINUTE, None


@lru_cache(maxsize=100_000)
def is_cron_day(fields: tuple[str, ...], day: date) -> bool:
    """Do day of month, month and day of week match this day? Either day is enough when neither has a star."""
    days, months, weekdays = fields
    if day.month not in values(months, 1, 12):
        return False
    of_month = any(is_day_of_month(word, day) for word in days.split(","))
    of_week = any(is_day_of_week(word, day) for word in weekdays.split(","))
    return of_month and of_week if days.startswith("*") or weekdays.startswith("*") else of_month or of_week


def is_day_of_month(word: str, day: date) -> bool:
    """Does a part of the field match the day of the month?"""
    last = calendar.monthrange(day.year, day.month)[1]
    if word == "L":
        return day.day == last
    if word == "LW":
        working = max(number for number in range(last - 2, last + 1) if day.replace(day=number).weekday() < 5)
        return day.day == working
    return day.day in values(word, 1, 31)


def is_day_of_week(word: str, day: date) -> bool:
    """Does a part of the field match the day of the week?"""
    number = day.isoweekday() % 7
    if word.endswith("L") and word != "L":
        last = calendar.monthrange(day.year, day.month)[1]
        return number in {each % 7 for each in values(word[:-1], 0, 7)} and day.day > last - 7
    name, _, nth = word.partition("#")
    if number not in {each % 7 for each in values(name, 0, 7)}:
        return False
    return not nth or (day.day - 1) // 7 + 1 == int(nth)


@lru_cache(maxsize=10_000)
def values(field: str, minimum: int, maximum: int) -> tuple[int, ...]:
    """Return the numbers of a field."""
    found = set[int]()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        low, high = (minimum, maximum) if first == "*" else (parse_number(first), parse_number(last or first))
        found.update(range(low, high + 1, int(step or 1)))
    return tuple(sorted(found))


def parse_number(word: str) -> int:
    """Parse a number, or a name of a month or weekday."""
    return NAMES[word] if word in NAMES else int(word)


@lru_cache(maxsize=100_000)
def is_periodic_day(text: str, day: date, anchor: date) -> bool:
    """Does a periodic rule that starts on the anchor's day fire on this one?"""
    rule = json.loads(text)
    every, interval = rule["every"], rule.get("interval", 1)
    if day < anchor:
        return False
    if every == "day":
        return (day - anchor).days % interval == 0
    if every == "week":
        weeks = ((day - timedelta(days=day.weekday())) - (anchor - timedelta(days=anchor.weekday()))).days // 7
        named = rule.get("weekdays", [WEEKDAYS[anchor.weekday()]])
        return weeks % interval == 0 and WEEKDAYS[day.weekday()] in named
    months = (day.year - anchor.year) * 12 + day.month - anchor.month
    if every == "month" and months % interval:
        return False
    if every == "year" and ((day.year - anchor.year) % interval or day.month != rule.get("month", anchor.month)):
        return False
    last = calendar.monthrange(day.year, day.month)[1]
    if "nth" in rule:
        is_nth = day.day > last - 7 if rule["nth"] == "last" else (day.day - 1) // 7 + 1 == rule["nth"]
        return is_nth and WEEKDAYS[day.weekday()] == rule["weekday"]
    wanted = rule.get("day", anchor.day)
    return day.day == (last if wanted == "last" else min(wanted, last))
