"""An independent oracle for rules: brute force over every minute, with the documented rules for gaps and overlaps."""

import json
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def brute_force(text: str, zone: ZoneInfo, begin: datetime, end: datetime, anchor: date) -> list[datetime]:
    """Return every instant of a rule from `begin` until before `end`."""
    minutes = [begin + MINUTE * nth for nth in range((end - begin) // MINUTE)]
    fires, follows_elapsed = parse_matcher(text, anchor)
    if follows_elapsed:
        return [at for at in minutes if fires(at.astimezone(zone).replace(tzinfo=None))]
    found = set[datetime]()
    seen = set[datetime]()
    before: datetime | None = None
    for at in minutes:
        local = at.astimezone(zone).replace(tzinfo=None)
        if before is not None and local > before + MINUTE:  # spring: the minutes between are left out
            skipped = before + MINUTE
            while skipped < local:
                if skipped not in seen and fires(skipped):
                    found.add(at)
                seen.add(skipped)
                skipped += MINUTE
        if local not in seen and fires(local):
            found.add(at)
        seen.add(local)
        before = local
    return sorted(found)


def parse_matcher(text: str, anchor: date) -> tuple[Callable[[datetime], bool], bool]:
    """Return a matcher for local times, and whether the rule follows elapsed time."""
    if text.startswith("cron:"):
        return cron_matcher(text.removeprefix("cron:").split())
    return periodic_matcher(json.loads(text), anchor), False


def cron_matcher(fields: list[str]) -> tuple[Callable[[datetime], bool], bool]:
    """Return a matcher for crontab(5): either day matches when both are restricted."""
    minute, hour = numbers(fields[0], 0, 59), numbers(fields[1], 0, 23)
    month = numbers(fields[3], 1, 12)
    is_and = fields[2].startswith("*") or fields[4].startswith("*")

    def fires(at: datetime) -> bool:
        if at.minute not in minute or at.hour not in hour or at.month not in month:
            return False
        by_day, by_weekday = day_matches(fields[2], at), weekday_matches(fields[4], at)
        return (by_day and by_weekday) if is_and else (by_day or by_weekday)

    return fires, any(sign in fields[0] + fields[1] for sign in "*/")


def numbers(text: str, minimum: int, maximum: int) -> set[int]:
    """Return the numbers of a field."""
    found = set[int]()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        low = minimum if span == "*" else int(first)
        high = maximum if span == "*" or (step and not last) else int(last or first)
        found |= set(range(low, high + 1, int(step or 1)))
    return found


def day_matches(text: str, at: datetime) -> bool:
    """Match the day of the month."""
    if text == "L":
        return (at + timedelta(days=1)).day == 1
    return at.day in numbers(text, 1, 31)


def weekday_matches(text: str, at: datetime) -> bool:
    """Match the day of the week; 0 and 7 are Sunday."""
    sunday = (at.weekday() + 1) % 7
    if "#" in text:
        weekday, nth = text.split("#")
        return sunday == int(weekday) % 7 and (at.day - 1) // 7 + 1 == int(nth)
    if text.endswith("L"):
        return sunday == int(text[:-1]) % 7 and (at + timedelta(days=7)).month != at.month
    return sunday in {number % 7 for number in numbers(text, 0, 7)}


def periodic_matcher(rule: dict[str, Any], anchor: date) -> Callable[[datetime], bool]:
    """Return a matcher for every n days, weeks, months or years, counted from the anchor."""
    at: Any = rule["at"]
    times: list[str] = [at] if isinstance(at, str) else at
    interval = int(str(rule.get("interval", 1)))

    def fires(local: datetime) -> bool:
        day = local.date()
        return local.strftime("%H:%M") in times and day >= anchor and fires_on(day)

    def fires_on(day: date) -> bool:
        months = (day.year - anchor.year) * 12 + day.month - anchor.month
        match rule["every"]:
            case "day":
                return (day - anchor).days % interval == 0
            case "week":
                weeks = ((day - timedelta(days=day.weekday())) - (anchor - timedelta(days=anchor.weekday()))).days // 7
                wanted = rule.get("weekdays", [DAYS[anchor.weekday()]])
                return weeks % interval == 0 and DAYS[day.weekday()] in wanted
            case "month":
                return months % interval == 0 and in_month(day)
            case _:
                month = rule.get("month", anchor.month)
                return (day.year - anchor.year) % interval == 0 and day.month == month and in_month(day)

    def in_month(day: date) -> bool:
        last = ((day.replace(day=1) + timedelta(days=32)).replace(day=1) - timedelta(days=1)).day
        if "nth" in rule:
            if DAYS[day.weekday()] != rule["weekday"]:
                return False
            return day.day + 7 > last if rule["nth"] == "last" else (day.day - 1) // 7 + 1 == rule["nth"]
        wanted = rule.get("day", anchor.day)
        return day.day == (last if wanted == "last" else min(int(str(wanted)), last))

    return fires
