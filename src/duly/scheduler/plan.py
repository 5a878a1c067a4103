"""Which runs a schedule gets next: every firing up to a horizon, each in its period.

Runs are made so far ahead that a reminder which comes before its run finds it there. A schedule that was not looked at
for long is planned in pieces; what it missed meanwhile gets its runs like everything else, and whether anybody is
reminded of them is decided when they are due.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from duly.scheduler.rule import Grain, Rule, parse_rule
from duly.scheduler.wallclock import parse_zone

__all__ = ["HORIZON", "MOST_RUNS", "Firing", "Plan", "Planning", "next_firings", "plan"]

HORIZON = timedelta(hours=1)
MOST_RUNS = 1000  # in one piece


@dataclass(frozen=True)
class Planning:
    """A schedule that is to be planned, as it was when it was held."""

    job_id: int
    rule: str
    zone: str  # of the person
    first_run_at: datetime
    advance_minutes: int
    planned_until: datetime | None
    skip_before: datetime | None
    now: datetime


@dataclass(frozen=True)
class Firing:
    """A run to be made."""

    job_id: int
    period_key: str
    scheduled_at: datetime
    remind_at: datetime | None  # None: nobody is reminded, because the schedule was paused


@dataclass(frozen=True)
class Plan:
    """The runs to be made, and when to look again."""

    firings: Sequence[Firing]
    planned_until: datetime | None
    next_at: datetime | None
    plan_at: datetime | None


def plan(asked: Planning, horizon: timedelta = HORIZON, most: int = MOST_RUNS) -> Plan:
    """Every firing that comes within the horizon of its reminder, and when the one after them is to be planned."""
    rule, zone = read_rule(asked.rule), parse_zone("user.zone", asked.zone)
    advance = timedelta(minutes=asked.advance_minutes)
    until = asked.now + advance + horizon
    grain = grain_of(asked.rule, zone.key, first_day(asked, rule, zone))
    firings: list[Firing] = []
    planned_until, next_at = asked.planned_until, None
    for at in rule.occurrences(asked.first_run_at, zone, after=asked.planned_until):
        if at > until or len(firings) == most:
            next_at = at
            break
        was_paused = asked.skip_before is not None and at < asked.skip_before
        period = grain.key(at, rule.zone_for(zone))
        firings.append(Firing(asked.job_id, period, at, None if was_paused else at - advance))
        planned_until = at
    return Plan(firings, planned_until, next_at, next_at - advance - horizon if next_at else None)


def next_firings(rule: str, first_run_at: datetime, zone: str, after: datetime, most: int) -> list[datetime]:
    """The next firings after an instant."""
    found: list[datetime] = []
    for at in read_rule(rule).occurrences(first_run_at, parse_zone("zone", zone), after=after):
        if len(found) == most:
            break
        found.append(at)
    return found


def first_day(asked: Planning, rule: Rule, zone: ZoneInfo) -> date:
    """The day that a rule with an interval counts from."""
    return asked.first_run_at.astimezone(rule.zone_for(zone)).date()


@lru_cache(maxsize=10_000)
def read_rule(text: str) -> Rule:
    """A rule, read once."""
    return parse_rule(text)


@lru_cache(maxsize=10_000)
def grain_of(text: str, zone: str, anchor: date) -> Grain:
    """How long the periods of a rule are, found out once."""
    rule = read_rule(text)
    noon = datetime(anchor.year, anchor.month, anchor.day, 12, tzinfo=rule.zone_for(ZoneInfo(zone)))
    return rule.grain(noon.astimezone(UTC), ZoneInfo(zone))
