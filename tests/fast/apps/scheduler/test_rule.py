"""When rules fire: their syntax, zones, clock changes, and the keys of periods."""

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from itertools import islice, pairwise, takewhile
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim

from duly.apps.scheduler.rule import PeriodUnit, Rule, parse_rule
from duly.errors import InvalidArgument
from tests.support.scheduler.oracle import brute_force

STOCKHOLM = ZoneInfo("Europe/Stockholm")
START = datetime(2026, 1, 1, tzinfo=UTC)
ZONES = (
    "Europe/Stockholm",
    "America/New_York",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "Asia/Tehran",
    "Africa/Casablanca",
    "America/Havana",
    "Asia/Beirut",
    "Pacific/Auckland",
    "America/St_Johns",
    "Europe/Dublin",
    "Africa/Cairo",
)
YEARS = range(2013, 2018)
RULES_EACH = 1


def fires(text: str, count: int = 3, zone: ZoneInfo | None = None, start: datetime = START) -> list[str]:
    """Return the first instants of a rule, in the local time of a zone."""
    found = islice(parse_rule(text).firing_times(start, zone), count)
    return [at.astimezone(parse_rule(text).zone_for(zone)).isoformat(timespec="minutes") for at in found]


def periodic(**fields: Any) -> str:
    """Return a rule as JSON."""
    return json.dumps({"at": "10:00", **fields})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cron: 0 10 1 * *", ["2026-01-01T10:00+00:00", "2026-02-01T10:00+00:00", "2026-03-01T10:00+00:00"]),
        ("cron: @weekly", ["2026-01-04T00:00+00:00", "2026-01-11T00:00+00:00", "2026-01-18T00:00+00:00"]),
        ("cron: 0 9 * * MON#1", ["2026-01-05T09:00+00:00", "2026-02-02T09:00+00:00", "2026-03-02T09:00+00:00"]),
        ("cron: 0 0 L * *", ["2026-01-31T00:00+00:00", "2026-02-28T00:00+00:00", "2026-03-31T00:00+00:00"]),
        ("cron: CRON_TZ=Asia/Tokyo 0 9 * * *", ["2026-01-01T09:00+09:00", "2026-01-02T09:00+09:00"]),
        (periodic(every="day", interval=10), ["2026-01-01T10:00+00:00", "2026-01-11T10:00+00:00"]),
        (periodic(every="day", at=["18:00", "08:00"]), ["2026-01-01T08:00+00:00", "2026-01-01T18:00+00:00"]),
        (periodic(every="week", weekdays=["mon", "thu"]), ["2026-01-01T10:00+00:00", "2026-01-05T10:00+00:00"]),
        (periodic(every="week", interval=2, weekdays=["mon"]), ["2026-01-12T10:00+00:00", "2026-01-26T10:00+00:00"]),
        (periodic(every="month", day=31), ["2026-01-31T10:00+00:00", "2026-02-28T10:00+00:00"]),
        (periodic(every="month", day="last"), ["2026-01-31T10:00+00:00", "2026-02-28T10:00+00:00"]),
        (periodic(every="month", nth="last", weekday="fri"), ["2026-01-30T10:00+00:00", "2026-02-27T10:00+00:00"]),
        (periodic(every="month", nth=5, weekday="fri"), ["2026-01-30T10:00+00:00", "2026-05-29T10:00+00:00"]),
        (periodic(every="year", month=2, day=29), ["2026-02-28T10:00+00:00", "2027-02-28T10:00+00:00"]),
        (periodic(every="month", day=1, tz="Europe/Stockholm"), ["2026-01-01T10:00+01:00", "2026-02-01T10:00+01:00"]),
    ],
)
def test_rule_fires_at_the_expected_times(text: str, expected: list[str]) -> None:
    assert fires(text, len(expected)) == expected


def test_zone_is_taken_from_the_rule_then_the_user_then_utc() -> None:
    assert fires("cron: 0 10 * * *", 1, STOCKHOLM) == ["2026-01-01T10:00+01:00"]
    assert fires("cron: TZ=Asia/Tokyo 0 10 * * *", 1, STOCKHOLM) == ["2026-01-01T10:00+09:00"]
    assert fires("cron: 0 10 * * *", 1) == ["2026-01-01T10:00+00:00"]


def test_first_firing_is_at_or_after_first_run_at() -> None:
    start = datetime(2026, 1, 1, 10, tzinfo=UTC)
    assert fires("cron: 0 10 * * *", 1, start=start) == ["2026-01-01T10:00+00:00"]
    assert fires("cron: 0 10 * * *", 1, start=start + timedelta(seconds=1)) == ["2026-01-02T10:00+00:00"]


def test_occurrences_after_an_instant_are_strictly_later() -> None:
    rule = parse_rule("cron: */5 * * * *")
    at = datetime(2026, 5, 1, tzinfo=UTC)
    assert next(rule.firing_times(START, after=at)) == at + timedelta(minutes=5)


@pytest.mark.parametrize("text", ["cron: 30 2 * * *", periodic(every="day", at="02:30")])
def test_local_time_in_a_clock_change_gap_fires_at_the_first_instant_after(text: str) -> None:
    start = datetime(2026, 3, 28, tzinfo=UTC)
    assert fires(text, 3, STOCKHOLM, start) == [
        "2026-03-28T02:30+01:00",
        "2026-03-29T03:00+02:00",
        "2026-03-30T02:30+02:00",
    ]


@pytest.mark.parametrize("text", ["cron: 30 2 * * *", periodic(every="day", at="02:30")])
def test_ambiguous_local_time_fires_at_its_first_occurrence(text: str) -> None:
    start = datetime(2026, 10, 24, tzinfo=UTC)
    assert fires(text, 3, STOCKHOLM, start) == [
        "2026-10-24T02:30+02:00",
        "2026-10-25T02:30+02:00",
        "2026-10-26T02:30+01:00",
    ]


def test_hourly_rule_fires_once_in_every_elapsed_hour() -> None:
    start = datetime(2026, 10, 24, 23, 30, tzinfo=UTC)
    found = list(islice(parse_rule("cron: 0 * * * *").firing_times(start, STOCKHOLM), 5))
    assert [(later - before) for before, later in pairwise(found)] == [timedelta(hours=1)] * 4


# The oracle -----------------------------------------------------------------------------------------------------------


@cache
def clock_changes(zone: str, year: int) -> tuple[datetime, ...]:
    """Return the clock changes of a zone in a year."""
    zone_info, found = ZoneInfo(zone), list[datetime]()
    at = datetime(year, 1, 1, tzinfo=UTC)
    while at.year == year:
        later = at + timedelta(hours=1)
        if later.astimezone(zone_info).utcoffset() != at.astimezone(zone_info).utcoffset():
            found.append(later)
        at = later
    return tuple(found)


@pytest.mark.parametrize("zone", ZONES)
def test_firings_match_an_independent_oracle_around_clock_changes(zone: str, request: Any) -> None:
    chance = Random(f"{request.config.getoption('randomly_seed', default=0)}-{zone}")  # noqa: S311
    zone_info = ZoneInfo(zone)
    for year in YEARS:
        for change in clock_changes(zone, year):
            begin = change.replace(minute=0) - timedelta(days=1, hours=6)
            for text, rule in islice(random_rules(chance), RULES_EACH):
                start = datetime(year, 1, chance.randint(1, 28), 12, tzinfo=UTC)
                expected = brute_force(
                    text, zone_info, begin, begin + timedelta(days=3), start.astimezone(zone_info).date()
                )
                found = list[datetime]()
                for at in rule.firing_times(start, zone_info, after=begin - timedelta(minutes=1)):
                    if at >= begin + timedelta(days=3):
                        break
                    found.append(at)
                assert found == expected, f"{text} in {zone} around {change}"


def random_rules(chance: Random) -> Iterator[tuple[str, Rule]]:
    """Yield random valid rules, cron or periodic."""
    while True:
        text = chance.choice((random_cron, random_periodic))(chance)
        try:
            yield text, parse_rule(text)
        except InvalidArgument:
            continue


def random_cron(chance: Random) -> str:
    """Return random cron fields, often at night."""
    day = chance.choice(("*", "*", "*", "L", str(chance.randint(1, 31)), "1,15", "25-31"))
    weekday = chance.choice(("*", "*", "*", str(chance.randint(0, 7)), "1-5", "2#1", "5L"))
    hour = chance.choice(("0", "1", "2", "3", random_field(chance, 23)))
    return f"cron: {random_field(chance, 59)} {hour} {day} {chance.choice(('*', '*', '3,10', '4'))} {weekday}"


def random_field(chance: Random, limit: int) -> str:
    """Return a random field of minutes or hours."""
    first = chance.randint(0, limit)
    numbers = ",".join(str(chance.randint(0, limit)) for _ in range(3))
    return chance.choice(
        ("*", "*/2", "*/15", f"{first}-{chance.randint(first, limit)}", f"{first % 4}/7", str(first), numbers)
    )


def random_periodic(chance: Random) -> str:
    """Return a random periodic rule, often at night."""
    every = chance.choice(("day", "week", "month", "year"))
    rule: dict[str, Any] = {"every": every, "at": chance.choice(("02:30", "00:15", ["02:00", "02:45", "23:59"]))}
    if chance.random() < 0.5:
        rule["interval"] = chance.randint(1, 3)
    if every == "week":
        rule["weekdays"] = chance.sample(("mon", "tue", "wed", "thu", "fri", "sat", "sun"), 3)
    elif every in ("month", "year") and chance.random() < 0.3:
        rule |= {"nth": chance.choice((1, 2, 5, "last")), "weekday": chance.choice(("sat", "sun"))}
    elif every in ("month", "year"):
        rule["day"] = chance.choice((1, 28, 29, 30, 31, "last"))
    if every == "year":
        rule["month"] = chance.choice((3, 4, 10, 11))
    return json.dumps(rule)


# Rules that fire seldom -----------------------------------------------------------------------------------------------


@pytest.fixture
def inspected_days(monkeypatch: pytest.MonkeyPatch) -> list[date]:
    """Record the days that are compared with a cron rule."""
    matches, days = CronSim.match_day, list[date]()

    def recorded(cron: CronSim, day: date) -> bool:
        days.append(day)
        return matches(cron, day)

    monkeypatch.setattr(CronSim, "match_day", recorded)
    return days


@pytest.mark.parametrize("text", ["cron: * 0 */28 2 1#5", "cron: 0 0 */28 2 1#5", "cron: * 0 * 2 1#5"])
def test_the_search_for_the_next_day_is_cached(text: str, inspected_days: list[date]) -> None:
    rule = parse_rule(text)
    for minute in range(3):
        inspected_days.clear()
        at = datetime(2026, 11, 16, 12, minute, tzinfo=UTC)
        assert next(rule.firing_times(START, STOCKHOLM, after=at)) == datetime(2044, 2, 28, 23, tzinfo=UTC)
        assert len(inspected_days) < (1000 if minute == 0 else 10)


def test_search_for_days_between_firings_is_cached(inspected_days: list[date]) -> None:
    rule = parse_rule("cron: 0 */12 */28 2 1#5")
    for nth in range(2):
        inspected_days.clear()
        found = islice(rule.firing_times(START, after=datetime(2026, 11, 16, tzinfo=UTC)), 3)
        assert [at.strftime("%Y-%m-%d %H") for at in found] == ["2044-02-29 00", "2044-02-29 12", "2072-02-29 00"]
        assert len(inspected_days) < (2000 if nth == 0 else 50)


@pytest.mark.parametrize("fields", ["*/20 0", "0 */6", "0 0", "1 0", "30 2,23"])
@pytest.mark.parametrize(
    ("zone", "days", "begin"),
    [
        ("America/St_Johns", "7 11 *", datetime(2010, 10, 20, tzinfo=UTC)),  # at 00:01 the clocks go back an hour
        ("America/St_Johns", "6 11 *", datetime(2010, 10, 20, tzinfo=UTC)),
        ("America/St_Johns", "8 11 *", datetime(2010, 10, 20, tzinfo=UTC)),
        ("Pacific/Apia", "29 12 *", datetime(2011, 12, 10, tzinfo=UTC)),
        ("Pacific/Apia", "30 12 *", datetime(2011, 12, 10, tzinfo=UTC)),  # which Samoa did not have
        ("Pacific/Apia", "31 12 *", datetime(2011, 12, 10, tzinfo=UTC)),
        ("Pacific/Apia", "1 1 *", datetime(2011, 12, 10, tzinfo=UTC)),
        ("America/Sao_Paulo", "16 10 *", datetime(2016, 9, 30, tzinfo=UTC)),  # has no midnight
        ("America/Sao_Paulo", "17 10 *", datetime(2016, 9, 30, tzinfo=UTC)),
        ("Europe/Stockholm", "29 3 *", datetime(2026, 3, 1, tzinfo=UTC)),
        ("Europe/Stockholm", "* 3 0#5", datetime(2026, 3, 1, tzinfo=UTC)),
    ],
)
def test_skipped_days_contain_no_firing(fields: str, zone: str, days: str, begin: datetime) -> None:
    text, zone_info, end = f"cron: {fields} {days}", ZoneInfo(zone), begin + timedelta(days=30)
    found = takewhile(lambda at: at < end, parse_rule(text).firing_times(begin, zone_info))
    assert list(found) == brute_force(text, zone_info, begin, end, begin.date())


# Periods --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "period_unit", "key"),
    [
        ("cron: 0 10 1 1 *", PeriodUnit.YEAR, "2027"),
        ("cron: 0 10 29 2 *", PeriodUnit.YEAR, "2028"),
        ("cron: 0 10 1 * *", PeriodUnit.MONTH, "2026-02"),
        ("cron: 0 10 * * MON#1", PeriodUnit.MONTH, "2026-02"),
        ("cron: 0 10 L * *", PeriodUnit.MONTH, "2026-01"),
        ("cron: 0 10 * * MON", PeriodUnit.WEEK, "2026-W03"),
        ("cron: 0 10 1,15 * *", PeriodUnit.WEEK, "2026-W03"),
        ("cron: 0 10 * * MON,THU", PeriodUnit.DAY, "2026-01-08"),
        ("cron: 0 10 * * *", PeriodUnit.DAY, "2026-01-07"),
        ("cron: 0 10,18 * * *", PeriodUnit.INSTANT, "2026-01-06T17:00Z"),
        ("cron: */5 * * * *", PeriodUnit.INSTANT, "2026-01-06T12:05Z"),
        ("cron: 0 */6 * * *", PeriodUnit.INSTANT, "2026-01-06T17:00Z"),
        (periodic(every="year", month=1, day=1), PeriodUnit.YEAR, "2027"),
        (periodic(every="month", day=1), PeriodUnit.MONTH, "2026-02"),
        (periodic(every="month", interval=3, day=1), PeriodUnit.MONTH, "2026-04"),
        (periodic(every="week", weekdays=["mon"]), PeriodUnit.WEEK, "2026-W03"),
        (periodic(every="day", interval=14), PeriodUnit.WEEK, "2026-W04"),
        (periodic(every="day", interval=366), PeriodUnit.YEAR, "2027"),
        (periodic(every="day"), PeriodUnit.DAY, "2026-01-07"),
        (periodic(every="day", at=["10:00", "12:00"]), PeriodUnit.INSTANT, "2026-01-07T09:00Z"),
    ],
)
def test_a_period_is_the_coarsest_in_which_a_rule_fires_once(text: str, period_unit: PeriodUnit, key: str) -> None:
    rule, start = parse_rule(text), datetime(2026, 1, 6, 12, tzinfo=UTC)
    assert rule.period_unit(start, STOCKHOLM) == period_unit
    (at,) = islice(rule.firing_times(start, STOCKHOLM, after=start), 1)
    assert rule.period_key(at, period_unit, STOCKHOLM) == key


def test_the_periods_of_a_rule_have_distinct_keys() -> None:
    chance = Random(5)  # noqa: S311
    for text, rule in islice(random_rules(chance), 60):
        zone = ZoneInfo(chance.choice(ZONES))
        period_unit = rule.period_unit(START, zone)
        keys = [rule.period_key(at, period_unit, zone) for at in islice(rule.firing_times(START, zone), 40)]
        assert len(set(keys)) == len(keys), f"{text} in {zone}"


@pytest.mark.parametrize(
    ("zone", "begin", "text", "keys"),
    [  # clocks are set over midnight: from 23:00 to 24:00, over a whole day, from 24:00 to 00:30
        ("America/Nuuk", "2027-03-26", "cron: 30 23 * * *", ["2027-03-26", "2027-03-27", "2027-03-28", "2027-03-29"]),
        ("America/Nuuk", "2027-03-26", periodic(every="day", at="23:30"), ["2027-03-26", "2027-03-27", "2027-03-28"]),
        ("America/Nuuk", "2027-03-01", "cron: 30 23 27 * *", ["2027-03", "2027-04"]),
        ("Pacific/Apia", "2011-12-28", "cron: 0 10 * * *", ["2011-12-28", "2011-12-29", "2011-12-30", "2011-12-31"]),
        ("Asia/Pyongyang", "2018-05-03", "cron: 45 23 * * *", ["2018-05-03", "2018-05-04", "2018-05-05"]),
    ],
)
def test_period_key_is_the_local_day_named_by_the_rule(zone: str, begin: str, text: str, keys: list[str]) -> None:
    zone_info, rule = ZoneInfo(zone), parse_rule(text)
    start = datetime.fromisoformat(begin).replace(tzinfo=zone_info).astimezone(UTC)
    instants = list(islice(rule.firing_times(start, zone_info), len(keys)))
    assert [rule.period_key(at, rule.period_unit(start, zone_info), zone_info) for at in instants] == keys
    assert len(set(instants)) == len(keys)


@pytest.mark.parametrize("every", ["day", "week"])
def test_interval_rule_never_fires_twice_in_one_period(every: str) -> None:
    """Every interval from days within a year until 2100: every combination of day of month and leap year."""
    intervals = {"day": [*range(27, 33), *range(360, 370), 730, 731, 1000], "week": [4, 5, 51, 52, 53, 104, 105]}
    for interval in intervals[every]:
        rule = parse_rule(periodic(every=every, interval=interval))
        for begin in (date(2027, 1, 1) + timedelta(days=number) for number in range(0, 366, 45)):
            noon = datetime.combine(begin, time(12), UTC)
            period_unit = rule.period_unit(noon, ZoneInfo("UTC"))
            keys = [period_unit.key(noon, day) for day in rule.recurrence.days(begin, date(2100, 12, 31), begin)]
            assert len(set(keys)) == len(keys), (every, interval, begin, period_unit)


# Texts ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("cron: 0 10 1 * *", "At 10:00 on the first day of every month"),
        (
            "cron: 30 2 31 * *",
            "At 02:30 on the 31st day of every month (day 31 only in months that have as many)",
        ),
        ("cron: 0 10 21,22,23 * *", "At 10:00 on the 21st, the 22nd, and the 23rd day of month"),
        ("cron: 0 10 11,12,13 * *", "At 10:00 on the 11th, the 12th, and the 13th day of month"),
        ("cron: 0 10 29 2 *", "At 10:00 on February 29 (only in leap years)"),
        ("cron: 0 10 30 4,6 *", "At 10:00 on the 30th day of April and June"),
        ("cron: 0 10 * * SUN#5", "At 10:00 on the fifth Sunday of the month (only in months that have five)"),
        (periodic(every="day"), "Every day at 10:00"),
        (periodic(every="week"), "Every week on Tuesday at 10:00"),
        (periodic(every="year"), "Every year on day 31 of March at 10:00"),
        (periodic(every="year", month=2), "Every year on day 31 of February, or its last, at 10:00"),
        (periodic(every="year", month=5, day=2), "Every year on day 2 of May at 10:00"),
        (periodic(every="month", nth=5, weekday="sun"), "Every month on the fifth Sunday, if it has one, at 10:00"),
        (periodic(every="week", interval=2, weekdays=["mon", "thu"]), "Every 2 weeks on Monday and Thursday at 10:00"),
        (periodic(every="month", day=31), "Every month on day 31, or the last of a shorter month, at 10:00"),
        (periodic(every="month", day="last"), "Every month on the last day at 10:00"),
        (periodic(every="year", month=5, nth=2, weekday="sun"), "Every year on the second Sunday of May at 10:00"),
        (periodic(every="month", day=1, tz="Asia/Tokyo"), "Every month on day 1 at 10:00, Asia/Tokyo"),
    ],
)
def test_a_rule_is_described_in_english(text: str, sentence: str) -> None:
    tuesday = datetime(2026, 3, 31, 12, tzinfo=UTC)
    assert parse_rule(text).sentence(tuesday, STOCKHOLM).removesuffix(", Europe/Stockholm") == sentence


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "rule: has 0 characters"),
        ("x" * 201, "rule: has 201 characters"),
        ("every day", "rule: must begin with `cron:`"),
        ("cron: 0 10 1 *", "rule: has 4 fields after `cron:`, needs five"),
        ("cron: 0 0 10 1 * *", "rule: has 6 fields"),
        ("cron: 61 10 1 * *", "rule: the minute of `61 10 1 * *`, at character 1, is '61'; valid: 0 to 59"),
        ("cron: 0 10 1 13 *", "rule: the month of `0 10 1 13 *`, at character 8, is '13'; valid: 1 to 12 or JAN"),
        ("cron: 0 10 15W * *", "rule: the day of month of `0 10 15W * *`, at character 6, is '15W'"),
        ("cron: 0 10 31 2 *", "rule: the day of month of `0 10 31 2 *`"),
        ("cron: CRON_TZ=Europe/Nowhere 0 10 * * *", "rule: CRON_TZ: must be an IANA zone"),
        ("cron: CRON_TZ=../../etc/passwd 0 10 * * *", "rule: CRON_TZ: must be an IANA zone"),
        ('{"every": "month"', "rule: is not JSON at character 18"),
        (periodic(every="fortnight"), "rule.every: must be day, week, month or year, not 'fortnight'"),
        (periodic(), "rule.every: must be day, week, month or year, not None"),
        (periodic(every="day", at="25:00"), "rule.at: must be a time such as"),
        (periodic(every="day", at=None), "rule.at: must be a time such as"),
        (periodic(every="day", at=[]), "rule.at: has 0 times"),
        (periodic(every="day", interval=0), "rule.interval: must be an integer from 1 to 1000, not 0"),
        (periodic(every="day", interval=True), "rule.interval: must be an integer"),
        (periodic(every="day", day=3), "rule.day: unknown field; valid: at, every, interval, tz"),
        (periodic(every="week", weekdays=["monday"]), "rule.weekdays: must be mon, tue"),
        (periodic(every="week", weekdays=[]), "rule.weekdays: must be mon, tue"),
        (periodic(every="month"), "rule.day: is required"),
        (periodic(every="month", day=32), "rule.day: must be an integer from 1 to 31, not 32"),
        (periodic(every="month", nth=1), "rule: `nth` needs `weekday`"),
        (periodic(every="month", nth=1, weekday="mon", day=1), "rule: name either `day` or"),
        (periodic(every="day", tz="Mars/Base"), "rule.tz: must be an IANA zone"),
    ],
)
def test_an_invalid_rule_is_refused_with_the_position(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        parse_rule(text)
    assert str(error.value).startswith(message)
