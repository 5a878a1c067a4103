"""Compute which runs a schedule gets next: every firing of its rule up to a horizon, each with its period.

    rule --- fires at ---> instant --- lies in ---> period --- gets at most one ---> run

Runs are created far enough ahead for reminders that are sent before their run. Of the firings that were missed, the
latest get runs like any other, and whether a reminder is sent is decided when they are due; earlier ones are stored as
ranges, from which each can be computed. So the cost of planning does not depend on how long a schedule was not planned.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

from duly.apps.scheduler.limits import MAX_AHEAD_RUNS, MAX_MISSED_RUNS, MAX_PENDING_RUNS
from duly.apps.scheduler.model import Schedule, ScheduleStatus
from duly.apps.scheduler.reasons import ClosingReason
from duly.apps.scheduler.rule import PeriodUnit, Rule, parse_rule
from duly.apps.scheduler.wallclock import parse_zone
from duly.errors import InvalidArgument

HORIZON = timedelta(hours=1)
RESERVED_RUNS = 100  # of the allowed pending runs: for runs created outside of the rule
REPLAN_DELAY = timedelta(minutes=5)  # when a limit of runs is reached
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class PlanningInput:
    """A schedule to plan, as it was when its plan (its row in `scheduler.job_plans`) was claimed."""

    schedule_id: int
    rule: str
    zone: str  # of the user
    not_before: datetime  # the rule does not fire before this; `first_run_at` in the table
    advance_minutes: int
    planned_until: datetime | None  # every firing up to this instant has its run, or lies in a missed range
    paused_at: datetime | None  # for the last time
    resumed_at: datetime | None  # for the last time: earlier firings were missed; `resumed_at` in the table
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
    not_before: datetime
    reason: ClosingReason


@dataclass(frozen=True)
class Firing:
    """An instant at which the rule of a schedule fires, with its period; when planned, the run to create."""

    schedule_id: int
    period_key: str
    scheduled_at: datetime
    remind_at: datetime | None = None
    missed_reason: ClosingReason | None = None  # why no reminder is sent; None when one is

    @property
    def unique_period_key(self) -> str:
        """A period key that no other firing has, for when another run has the key of its period."""
        return PeriodUnit.INSTANT.key(self.scheduled_at, self.scheduled_at.date())


@dataclass(frozen=True)
class RuleDescription:
    """A rule as a sentence, the zone that it follows, and its next firings."""

    sentence: str
    zone: ZoneInfo
    next_firings: Sequence[Firing]


@dataclass(frozen=True)
class PlannedRuns:
    """What a plan becomes: the runs to create, and when to plan again."""

    firings: Sequence[Firing]
    planned_until: datetime | None
    next_at: datetime | None
    plan_at: datetime | None
    missed: Sequence[MissedRange] = ()


def plan_runs(schedule: PlanningInput, horizon: timedelta = HORIZON, max_missed: int = MAX_MISSED_RUNS) -> PlannedRuns:
    """Return every firing within the horizon of its reminder, and when to plan the next one."""
    rule, zone = parse_rule_cached(schedule.rule), parse_zone("user.zone", schedule.zone)
    advance = timedelta(minutes=schedule.advance_minutes)
    until = schedule.now + advance + horizon
    capacity = max(0, MAX_PENDING_RUNS - RESERVED_RUNS - schedule.pending_runs)
    missed, after = missed_ranges(schedule, rule, zone, min(max_missed, capacity))
    firings: list[Firing] = []
    planned_until, next_at, ahead = after, None, 0
    for firing in rule_firings(schedule.schedule_id, schedule.rule, schedule.zone, schedule.not_before, after):
        at = firing.scheduled_at
        is_future = at > schedule.now
        if at > until or (is_future and (ahead == MAX_AHEAD_RUNS or len(firings) >= capacity)):
            next_at = at
            break
        firings.append(replace(firing, remind_at=at - advance, missed_reason=find_missed_reason(schedule, at)))
        planned_until = at
        ahead += is_future
    plan_at = None
    if next_at and next_at > until:
        plan_at = next_at - advance - horizon
    elif next_at:  # at a limit: try again soon, and not later than the next firing, because due runs wait for that
        plan_at = min(next_at, schedule.now + REPLAN_DELAY)
    return PlannedRuns(firings, planned_until, next_at, plan_at, missed)


def schedule_firings(schedule: Schedule, after: datetime) -> Iterator[Firing]:
    """Yield the firings of a schedule after an instant; InvalidArgument when its rule is invalid."""
    return rule_firings(schedule.id, schedule.rule, schedule.zone, schedule.first_run_at, after)


def describe_rule(schedule: Schedule, now: datetime, count: int) -> RuleDescription:
    """Describe the rule of a schedule, with its next firings if it is active; InvalidArgument when it is invalid."""
    rule, user_zone = parse_rule_cached(schedule.rule), parse_zone("user.zone", schedule.zone)
    firings = schedule_firings(schedule, now) if schedule.status is ScheduleStatus.ACTIVE else iter(())
    sentence = rule.sentence(schedule.first_run_at, user_zone)
    return RuleDescription(sentence, rule.zone_for(user_zone), list(islice(firings, count)))


def rule_firings(
    schedule_id: int, rule_text: str, zone_name: str, not_before: datetime, after: datetime | None
) -> Iterator[Firing]:
    """Yield the firings of a rule, or those after an instant; InvalidArgument for an invalid rule."""
    rule, zone = parse_rule_cached(rule_text), parse_zone("user.zone", zone_name)
    anchor = not_before.astimezone(rule.zone_for(zone)).date()
    unit = cached_period_unit(rule_text, zone.key, anchor)
    for at in rule.firing_times(not_before, zone, after=after):
        yield Firing(schedule_id, rule.period_key(at, unit, zone), at)


def fires_at(schedule: PlanningInput, at: datetime) -> bool:
    """Return whether the schedule, with its current rule, fires at this instant."""
    rule, zone = parse_rule_cached(schedule.rule), parse_zone("user.zone", schedule.zone)
    return next(rule.firing_times(schedule.not_before, zone, after=at - MICROSECOND), None) == at


def find_missed_reason(schedule: PlanningInput, at: datetime) -> ClosingReason | None:
    """Return why no reminder is sent for a firing; None when one is sent."""
    if schedule.resumed_at is None or at >= schedule.resumed_at:
        return None
    is_before_pause = schedule.paused_at and at < schedule.paused_at
    return ClosingReason.DUE_BEFORE_PAUSE if is_before_pause else ClosingReason.PAUSED


def missed_ranges(
    schedule: PlanningInput, rule: Rule, zone: ZoneInfo, max_missed: int
) -> tuple[Sequence[MissedRange], datetime | None]:
    """Return missed firings except the latest, as ranges; and the instant after which firings get runs.

    A rule fires every hour. It is planned until 00:00, was paused at 03:30 and resumed at 07:30; it is 20:30, and the
    latest four, from 17:00 on, get runs. The ranges: from 01:00 to before 04:00 DUE_BEFORE_PAUSE, from there to before
    08:00 PAUSED, from there to before 17:00 TOO_MANY.
    """
    after = schedule.planned_until
    cutoff = find_cutoff(schedule, rule, zone, max_missed)
    if cutoff is None:
        return (), after
    from_at = next(rule.firing_times(schedule.not_before, zone, after=after))
    until_at = next(rule.firing_times(schedule.not_before, zone, after=cutoff), cutoff + MICROSECOND)

    def first_from(bound: datetime | None) -> datetime:
        """Return the first firing of the range that is not before an instant."""
        just_before = max(bound or from_at, from_at) - MICROSECOND
        return min(next(rule.firing_times(schedule.not_before, zone, after=just_before), until_at), until_at)

    resumed_at = first_from(schedule.resumed_at)
    paused_at = min(first_from(schedule.paused_at), resumed_at)
    ranges = [
        (from_at, paused_at, ClosingReason.DUE_BEFORE_PAUSE),
        (paused_at, resumed_at, ClosingReason.PAUSED),
        (resumed_at, until_at, ClosingReason.TOO_MANY),
    ]
    rule_fields = (schedule.rule, schedule.zone, schedule.not_before)
    return [
        MissedRange(schedule.schedule_id, begin, end, *rule_fields, reason)
        for begin, end, reason in ranges
        if begin < end
    ], cutoff


def find_cutoff(schedule: PlanningInput, rule: Rule, zone: ZoneInfo, max_missed: int) -> datetime | None:
    """Return the instant after which at most `max_missed` firings were missed; None when no more were missed at all.

    Found by bisection, so that the firings before it are never enumerated: there may be millions.
    """

    def fits(after: datetime | None) -> bool:
        """Were at most `max_missed` firings missed after this instant?"""
        for number, at in enumerate(rule.firing_times(schedule.not_before, zone, after=after)):
            if at > schedule.now:
                return True
            if number == max_missed:
                return False
        return True

    if fits(schedule.planned_until):
        return None
    low, high = schedule.planned_until or schedule.not_before, schedule.now
    while high - low > timedelta(seconds=1):  # firings are on whole minutes
        middle = low + (high - low) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def missed_firings(missed: MissedRange, after: datetime | None = None) -> Iterator[Firing]:
    """Yield the firings of a range, or those after an instant."""
    begin = max(missed.from_at - MICROSECOND, after or missed.from_at - MICROSECOND)
    found = rule_firings(missed.schedule_id, missed.rule, missed.zone, missed.not_before, begin)
    try:
        yield from takewhile(lambda firing: firing.scheduled_at < missed.until_at, found)
    except InvalidArgument:
        return  # another program wrote a rule that was never valid


@lru_cache(maxsize=10_000)
def parse_rule_cached(text: str) -> Rule:
    """Parse a rule, with a cache."""
    return parse_rule(text)


@lru_cache(maxsize=10_000)
def cached_period_unit(text: str, zone: str, anchor: date) -> PeriodUnit:
    """Return the unit of the periods of a rule, with a cache."""
    rule = parse_rule_cached(text)
    noon = datetime(anchor.year, anchor.month, anchor.day, 12, tzinfo=rule.zone_for(ZoneInfo(zone)))
    return rule.period_unit(noon.astimezone(UTC), ZoneInfo(zone))
