"""Which runs a schedule gets next: every firing up to a horizon, each in its period.

Runs are made so far ahead that a reminder which comes before its run finds it there. Of the firings that were missed
the latest get their runs like everything else, and whether anybody is reminded of them is decided when they are due;
the earlier ones are kept as ranges, from which each can be named. So the cost of a plan does not depend on how long a
schedule was not looked at.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from duly.apps.scheduler.limits import MAX_AHEAD_RUNS, MAX_MISSED_RUNS, MAX_PENDING_RUNS
from duly.apps.scheduler.rule import Grain, Rule, parse_rule
from duly.apps.scheduler.wallclock import parse_zone

__all__ = [
    "HORIZON",
    "Firing",
    "MissedRange",
    "Plan",
    "Planning",
    "fires_at",
    "missed_periods",
    "next_firings",
    "plan",
]

HORIZON = timedelta(hours=1)
RESERVED_RUNS = 100  # of the pending runs that the database allows: for runs made besides the rule
REPLAN = timedelta(minutes=5)  # when there is no room for more runs now
WAS_PAUSED = "missed: the schedule was paused"
BEFORE_PAUSE = "missed: due before the pause"
TOO_MANY = f"missed: more than {MAX_MISSED_RUNS} later ones have come"
INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True)
class Planning:
    """A schedule that is to be planned, as it was when it was held."""

    job_id: int
    rule: str
    zone: str  # of the person
    first_run_at: datetime
    advance_minutes: int
    planned_until: datetime | None
    paused_at: datetime | None
    skip_before: datetime | None
    now: datetime
    pending: int = 0  # runs that it has and nobody was reminded of


@dataclass(frozen=True)
class MissedRange:
    """Every firing of a rule from an instant to before another, none of which has a run."""

    job_id: int
    from_at: datetime
    until_at: datetime
    rule: str
    zone: str  # of the person, as it was
    first_run_at: datetime
    reason: str


@dataclass(frozen=True)
class Firing:
    """A run to be made."""

    job_id: int
    period_key: str
    scheduled_at: datetime
    remind_at: datetime | None
    skipped: str | None = None  # why nobody is reminded, if nobody is

    @property
    def own_key(self) -> str:
        """A period key that no other firing has, for one whose period has the run of another."""
        return Grain.INSTANT.key(self.scheduled_at, self.scheduled_at.date())


@dataclass(frozen=True)
class Plan:
    """The runs to be made, and when to look again."""

    firings: Sequence[Firing]
    planned_until: datetime | None
    next_at: datetime | None
    plan_at: datetime | None
    missed: Sequence[MissedRange] = ()


def plan(asked: Planning, horizon: timedelta = HORIZON, max_missed: int = MAX_MISSED_RUNS) -> Plan:
    """Every firing that comes within the horizon of its reminder, and when the one after them is to be planned."""
    rule, zone = read_rule(asked.rule), parse_zone("user.zone", asked.zone)
    advance = timedelta(minutes=asked.advance_minutes)
    until = asked.now + advance + horizon
    grain = grain_of(asked.rule, zone.key, first_day(asked.first_run_at, rule, zone))
    room = max(0, MAX_PENDING_RUNS - RESERVED_RUNS - asked.pending)
    missed, after = missed_ranges(asked, rule, zone, min(max_missed, room))
    firings: list[Firing] = []
    planned_until, next_at, ahead = after, None, 0
    for at in rule.occurrences(asked.first_run_at, zone, after=after):
        is_coming = at > asked.now
        if at > until or (is_coming and (ahead == MAX_AHEAD_RUNS or len(firings) >= room)):
            next_at = at
            break
        skipped = reason_to_skip(asked, at)
        period = rule.period(at, grain, zone)
        firings.append(Firing(asked.job_id, period, at, None if skipped else at - advance, skipped))
        planned_until = at
        ahead += is_coming
    plan_at = (
        max(next_at - advance - horizon, asked.now + (REPLAN if next_at <= until else timedelta())) if next_at else None
    )
    return Plan(firings, planned_until, next_at, plan_at, missed)


def fires_at(asked: Planning, at: datetime) -> bool:
    """Does the schedule, as it is, fire at this instant?"""
    rule, zone = read_rule(asked.rule), parse_zone("user.zone", asked.zone)
    return next(rule.occurrences(asked.first_run_at, zone, after=at - INSTANT), None) == at


def reason_to_skip(asked: Planning, at: datetime) -> str | None:
    """Why nobody is reminded of a firing; None when somebody is."""
    if asked.skip_before is None or at >= asked.skip_before:
        return None
    return BEFORE_PAUSE if asked.paused_at and at < asked.paused_at else WAS_PAUSED


def missed_ranges(
    asked: Planning, rule: Rule, zone: ZoneInfo, max_missed: int
) -> tuple[Sequence[MissedRange], datetime | None]:
    """Missed firings except the latest, as ranges; and the instant after which firings get runs."""
    after = asked.planned_until
    cut = find_cut(asked, rule, zone, max_missed)
    if cut is None:
        return (), after
    from_at = next(rule.occurrences(asked.first_run_at, zone, after=after))
    until_at = next(rule.occurrences(asked.first_run_at, zone, after=cut), cut + INSTANT)

    def first_from(limit: datetime | None) -> datetime:
        """The first firing of the range that is not before a limit."""
        least = max(limit or from_at, from_at) - INSTANT
        return min(next(rule.occurrences(asked.first_run_at, zone, after=least), until_at), until_at)

    again_at = first_from(asked.skip_before)
    paused_at = min(first_from(asked.paused_at), again_at)
    ranges = [(from_at, paused_at, BEFORE_PAUSE), (paused_at, again_at, WAS_PAUSED), (again_at, until_at, TOO_MANY)]
    kept = (asked.rule, asked.zone, asked.first_run_at)
    return [MissedRange(asked.job_id, begin, end, *kept, why) for begin, end, why in ranges if begin < end], cut


def find_cut(asked: Planning, rule: Rule, zone: ZoneInfo, max_missed: int) -> datetime | None:
    """The instant after which no more than so many firings were missed; None when that is so from the beginning.

    Found by halving, so that the firings before it are never counted: there may be millions.
    """

    def fits(after: datetime | None) -> bool:
        for number, at in enumerate(rule.occurrences(asked.first_run_at, zone, after=after)):
            if at > asked.now:
                return True
            if number == max_missed:
                return False
        return True

    if fits(asked.planned_until):
        return None
    low, high = asked.planned_until or asked.first_run_at, asked.now
    while high - low > timedelta(seconds=1):  # firings lie on whole minutes
        middle = low + (high - low) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def missed_periods(missed: MissedRange, after: datetime | None = None) -> Iterator[Firing]:
    """The firings of a range, or those after an instant, each in its period."""
    rule, zone = read_rule(missed.rule), parse_zone("zone", missed.zone)
    grain = grain_of(missed.rule, zone.key, first_day(missed.first_run_at, rule, zone))
    begin = max(missed.from_at - INSTANT, after or missed.from_at - INSTANT)
    for at in rule.occurrences(missed.first_run_at, zone, after=begin):
        if at >= missed.until_at:
            return
        yield Firing(missed.job_id, rule.period(at, grain, zone), at, None)


def next_firings(rule: str, first_run_at: datetime, zone: str, after: datetime, limit: int) -> list[datetime]:
    """The next firings after an instant."""
    found: list[datetime] = []
    for at in read_rule(rule).occurrences(first_run_at, parse_zone("zone", zone), after=after):
        if len(found) == limit:
            break
        found.append(at)
    return found


def first_day(first_run_at: datetime, rule: Rule, zone: ZoneInfo) -> date:
    """The day that a rule with an interval counts from."""
    return first_run_at.astimezone(rule.zone_for(zone)).date()


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
