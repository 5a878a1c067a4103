"""Compute which runs a schedule gets next: every firing up to a horizon, each with its period.

Runs are created far enough ahead for reminders that are sent before their run. Of the firings that were missed, the
latest get runs like any other, and whether a reminder is sent is decided when they are due; earlier ones are stored as
ranges, from which each can be computed. So the cost of a plan does not depend on how long a schedule was not planned.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from duly.apps.scheduler.limits import MAX_AHEAD_RUNS, MAX_MISSED_RUNS, MAX_PENDING_RUNS
from duly.apps.scheduler.reasons import ClosingReason
from duly.apps.scheduler.rule import Grain, Rule, parse_rule
from duly.apps.scheduler.wallclock import parse_zone

HORIZON = timedelta(hours=1)
RESERVED_RUNS = 100  # of the allowed pending runs: for runs created outside of the rule
REPLAN_DELAY = timedelta(minutes=5)  # when the limit of pending runs is reached
WAS_PAUSED = ClosingReason.PAUSED.stored_text
BEFORE_PAUSE = ClosingReason.DUE_BEFORE_PAUSE.stored_text
TOO_MANY = f"missed: more than {MAX_MISSED_RUNS} later ones have come"
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class PlanInput:
    """A schedule to plan, as it was when its plan was claimed."""

    schedule_id: int
    rule: str
    zone: str  # of the user
    first_run_at: datetime
    advance_minutes: int
    planned_until: datetime | None
    paused_at: datetime | None
    skip_before: datetime | None
    now: datetime
    pending_runs: int = 0


@dataclass(frozen=True)
class MissedRange:
    """Every firing of a rule from an instant until another, none of which has a run."""

    schedule_id: int
    from_at: datetime
    until_at: datetime
    rule: str
    zone: str  # of the user, when they were missed
    first_run_at: datetime
    reason: str


@dataclass(frozen=True)
class Firing:
    """A run to create."""

    schedule_id: int
    period_key: str
    scheduled_at: datetime
    remind_at: datetime | None
    skip_reason: str | None = None  # why no reminder is sent, if none is

    @property
    def unique_period_key(self) -> str:
        """A period key that no other firing has, used when the run of another firing has its period key."""
        return Grain.INSTANT.key(self.scheduled_at, self.scheduled_at.date())


@dataclass(frozen=True)
class SchedulePlan:
    """The runs to create, and when to plan again."""

    firings: Sequence[Firing]
    planned_until: datetime | None
    next_at: datetime | None
    plan_at: datetime | None
    missed: Sequence[MissedRange] = ()


def plan(schedule: PlanInput, horizon: timedelta = HORIZON, max_missed: int = MAX_MISSED_RUNS) -> SchedulePlan:
    """Return every firing within the horizon of its reminder, and when to plan the next one."""
    rule, zone = parse_rule_cached(schedule.rule), parse_zone("user.zone", schedule.zone)
    advance = timedelta(minutes=schedule.advance_minutes)
    until = schedule.now + advance + horizon
    grain = period_grain(schedule.rule, zone.key, anchor_date(schedule.first_run_at, rule, zone))
    capacity = max(0, MAX_PENDING_RUNS - RESERVED_RUNS - schedule.pending_runs)
    missed, after = missed_ranges(schedule, rule, zone, min(max_missed, capacity))
    firings: list[Firing] = []
    planned_until, next_at, ahead = after, None, 0
    for at in rule.occurrences(schedule.first_run_at, zone, after=after):
        is_future = at > schedule.now
        if at > until or (is_future and (ahead == MAX_AHEAD_RUNS or len(firings) >= capacity)):
            next_at = at
            break
        skip_reason = find_skip_reason(schedule, at)
        period = rule.period(at, grain, zone)
        firings.append(Firing(schedule.schedule_id, period, at, None if skip_reason else at - advance, skip_reason))
        planned_until = at
        ahead += is_future
    plan_at = (
        max(next_at - advance - horizon, schedule.now + (REPLAN_DELAY if next_at <= until else timedelta()))
        if next_at
        else None
    )
    return SchedulePlan(firings, planned_until, next_at, plan_at, missed)


def fires_at(schedule: PlanInput, at: datetime) -> bool:
    """Does the schedule, with its current rule, fire at this instant?"""
    rule, zone = parse_rule_cached(schedule.rule), parse_zone("user.zone", schedule.zone)
    return next(rule.occurrences(schedule.first_run_at, zone, after=at - MICROSECOND), None) == at


def find_skip_reason(schedule: PlanInput, at: datetime) -> str | None:
    """Return why no reminder is sent for a firing; None when one is sent."""
    if schedule.skip_before is None or at >= schedule.skip_before:
        return None
    return BEFORE_PAUSE if schedule.paused_at and at < schedule.paused_at else WAS_PAUSED


def missed_ranges(
    schedule: PlanInput, rule: Rule, zone: ZoneInfo, max_missed: int
) -> tuple[Sequence[MissedRange], datetime | None]:
    """Return missed firings except the latest, as ranges; and the instant after which firings get runs."""
    after = schedule.planned_until
    cutoff = find_cutoff(schedule, rule, zone, max_missed)
    if cutoff is None:
        return (), after
    from_at = next(rule.occurrences(schedule.first_run_at, zone, after=after))
    until_at = next(rule.occurrences(schedule.first_run_at, zone, after=cutoff), cutoff + MICROSECOND)

    def first_from(bound: datetime | None) -> datetime:
        """Return the first firing of the range that is not before an instant."""
        just_before = max(bound or from_at, from_at) - MICROSECOND
        return min(next(rule.occurrences(schedule.first_run_at, zone, after=just_before), until_at), until_at)

    resumed_at = first_from(schedule.skip_before)
    paused_at = min(first_from(schedule.paused_at), resumed_at)
    ranges = [(from_at, paused_at, BEFORE_PAUSE), (paused_at, resumed_at, WAS_PAUSED), (resumed_at, until_at, TOO_MANY)]
    rule_fields = (schedule.rule, schedule.zone, schedule.first_run_at)
    return [
        MissedRange(schedule.schedule_id, begin, end, *rule_fields, reason)
        for begin, end, reason in ranges
        if begin < end
    ], cutoff


def find_cutoff(schedule: PlanInput, rule: Rule, zone: ZoneInfo, max_missed: int) -> datetime | None:
    """Return the instant after which at most `max_missed` firings were missed; None when no more were missed at all.

    Found by bisection, so that the firings before it are never enumerated: there may be millions.
    """

    def fits(after: datetime | None) -> bool:
        for number, at in enumerate(rule.occurrences(schedule.first_run_at, zone, after=after)):
            if at > schedule.now:
                return True
            if number == max_missed:
                return False
        return True

    if fits(schedule.planned_until):
        return None
    low, high = schedule.planned_until or schedule.first_run_at, schedule.now
    while high - low > timedelta(seconds=1):  # firings are on whole minutes
        middle = low + (high - low) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def missed_periods(missed: MissedRange, after: datetime | None = None) -> Iterator[Firing]:
    """Yield the firings of a range, or those after an instant, each with its period."""
    rule, zone = parse_rule_cached(missed.rule), parse_zone("zone", missed.zone)
    grain = period_grain(missed.rule, zone.key, anchor_date(missed.first_run_at, rule, zone))
    begin = max(missed.from_at - MICROSECOND, after or missed.from_at - MICROSECOND)
    for at in rule.occurrences(missed.first_run_at, zone, after=begin):
        if at >= missed.until_at:
            return
        yield Firing(missed.schedule_id, rule.period(at, grain, zone), at, None)


def next_firings(rule: str, first_run_at: datetime, zone: str, after: datetime, limit: int) -> list[datetime]:
    """Return the next firings after an instant."""
    found: list[datetime] = []
    for at in parse_rule_cached(rule).occurrences(first_run_at, parse_zone("zone", zone), after=after):
        if len(found) == limit:
            break
        found.append(at)
    return found


def anchor_date(first_run_at: datetime, rule: Rule, zone: ZoneInfo) -> date:
    """Return the day that the intervals of a rule count from."""
    return first_run_at.astimezone(rule.zone_for(zone)).date()


@lru_cache(maxsize=10_000)
def parse_rule_cached(text: str) -> Rule:
    """Parse a rule, with a cache."""
    return parse_rule(text)


@lru_cache(maxsize=10_000)
def period_grain(text: str, zone: str, anchor: date) -> Grain:
    """Return the length of the periods of a rule, with a cache."""
    rule = parse_rule_cached(text)
    noon = datetime(anchor.year, anchor.month, anchor.day, 12, tzinfo=rule.zone_for(ZoneInfo(zone)))
    return rule.grain(noon.astimezone(UTC), ZoneInfo(zone))
