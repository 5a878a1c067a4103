"""Rules against an independent oracle: every zone, every clock change from 2005 to 2100."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import takewhile
from zoneinfo import ZoneInfo, available_timezones

import pytest

from duly.apps.scheduler.rule import PeriodUnit, Rule, parse_rule
from tests.support.scheduler.minutes import RULES, Window, clock_changes, firings

FIRST, LAST = datetime(2005, 1, 1, tzinfo=UTC), datetime(2101, 1, 1, tzinfo=UTC)
BEGIN = datetime(2003, 1, 1, 12, tzinfo=UTC)
PARTS = 32
AROUND = timedelta(days=3)
AROUND_OF_ELAPSED = timedelta(hours=14)


@cache
def changes_of_clocks() -> Sequence[tuple[ZoneInfo, datetime]]:
    """Return every clock change of these years, once for all zones that share them."""
    found: dict[object, list[tuple[ZoneInfo, datetime]]] = {}
    for name in sorted(available_timezones() - {"localtime"}):
        zone = ZoneInfo(name)
        changes = clock_changes(zone, FIRST, LAST)
        offsets = [at.astimezone(zone).utcoffset() for at in (FIRST, *changes)]
        found.setdefault((*changes, *offsets), [(zone, at) for at in changes or (FIRST,)])
    return [each for each_zone in found.values() for each in each_zone]


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_period_around_every_clock_change_has_exactly_one_firing(part: int) -> None:
    offenders: list[object] = []
    for zone, change in changes_of_clocks()[part::PARTS]:
        wide, narrow = (around(zone, change, half) for half in (AROUND, AROUND_OF_ELAPSED))
        begin = BEGIN + timedelta(days=4 * (change.toordinal() % 97))  # counted from one of many days
        for text in RULES:
            window = narrow if parse_cached(text).recurrence.times_a_day is None else wide
            expected = expected_firings(text, window, begin)
            if (found := actual_firings(text, window, begin)) != expected or len({key for _, key in found}) != len(
                found
            ):
                offenders.append((zone.key, change, text, found, expected))
    assert not offenders, (len(offenders), offenders[:5])


def actual_firings(text: str, window: Window, begin: datetime) -> list[tuple[datetime, str]]:
    """Return the firings of the rule in a window, with their period keys."""
    rule, period_unit = parse_cached(text), find_period_unit(text, begin, window.zone)
    instants = takewhile(lambda at: at < window.last, rule.firing_times(begin, window.zone, after=window.first))
    return [(at, rule.period_key(at, period_unit, window.zone)) for at in instants]


@cache
def parse_cached(text: str) -> Rule:
    """Parse a rule, with a cache."""
    return parse_rule(text)


def find_period_unit(text: str, begin: datetime, zone: ZoneInfo) -> PeriodUnit:
    """How long the periods of a rule are, which depends on the day it begins, if on anything."""
    counts = parse_cached(text).recurrence.counts_from_anchor
    return find_period_unit_from(text, begin.astimezone(zone).date() if counts else BEGIN.date())


@cache
def find_period_unit_from(text: str, day: date) -> PeriodUnit:
    """How long the periods of a rule are that begins on a day."""
    noon = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    return parse_cached(text).period_unit(noon, ZoneInfo("UTC"))


def expected_firings(text: str, window: Window, begin: datetime) -> list[tuple[datetime, str]]:
    """Return the firings of the oracle in a window; the key is that of the day that the rule names."""
    period_unit = find_period_unit(text, begin, window.zone)
    found = firings(text, window, begin.astimezone(window.zone).date())
    return [(at, period_unit.key(at, day or at.date())) for at, day in found if at > window.first]


def around(zone: ZoneInfo, change: datetime, half: timedelta) -> Window:
    """Return the minutes around a clock change."""
    return Window(zone, (change - half).replace(second=0), 2 * half // timedelta(minutes=1))


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("every", ["day", "week", "month"])
def test_no_interval_rule_fires_twice_in_one_period(every: str) -> None:
    """Every valid interval, starting on days across four years."""
    offenders: list[object] = []
    named = {"day": 1} if every == "month" else {}
    for interval in range(1, 1001):
        text = json.dumps({"every": every, "interval": interval, "at": "10:00", **named})
        rule = parse_rule(text)
        for number in range(0, 1461, 97):
            begin = date(2024, 1, 1) + timedelta(days=number)
            noon = datetime(begin.year, begin.month, begin.day, 12, tzinfo=UTC)
            period_unit = rule.period_unit(noon, ZoneInfo("UTC"))
            keys = [period_unit.key(noon, day) for day in rule.recurrence.days(begin, date(2199, 12, 31), begin)]
            if len(set(keys)) != len(keys):
                offenders.append((text, begin, period_unit))
    assert not offenders, (len(offenders), offenders[:5])
