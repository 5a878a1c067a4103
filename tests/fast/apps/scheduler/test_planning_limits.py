"""Limits: runs per schedule, schedules per user, and how far in the past a schedule may start."""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import LiteralString

import psycopg
import pytest

from duly.apps.scheduler import service
from duly.apps.scheduler.limits import (
    MAX_AHEAD_RUNS,
    MAX_MISSED_RUNS,
    MAX_PENDING_RUNS,
)
from duly.apps.scheduler.model import CatchUp, NewSchedule, RunStatus, ScheduleStatus
from duly.apps.scheduler.planning import PlanningInput, missed_firings, plan_runs
from duly.apps.scheduler.reasons import ClosingReason
from duly.apps.scheduler.repository import cancel_archived_runs
from duly.apps.scheduler.work import ScheduleWork
from duly.errors import InvalidArgument, LimitReached, RunClosed
from tests.support.scheduler.actions import MONTHLY, ScheduleActions

MAX_SCHEDULES_PER_USER = 200  # not archived
MAX_PAST_YEARS = 10  # between first_run_at and now
EVERY_MINUTE = "cron: * * * * *"
DAILY = "cron: 0 10 * * *"
MANY_RUNS: LiteralString = (
    "insert into scheduler.job_runs (job_id, period_key, scheduled_at)"
    " select %s, 'p' || n, duly.now() + make_interval(mins => n) from generate_series(%s::int, %s::int) as n"
)
MANY_SCHEDULES: LiteralString = (
    "insert into scheduler.jobs (user_id, name, rule, first_run_at)"
    " select %s, 'x' || n, %s, duly.now() from generate_series(1, %s) as n"
)


def make_input(rule: str, now: datetime, not_before: datetime, **changes: object) -> PlanningInput:
    """Return the input for planning a schedule."""
    given = {
        "schedule_id": 1,
        "rule": rule,
        "zone": "UTC",
        "not_before": not_before,
        "advance_minutes": 0,
        "planned_until": None,
        "paused_at": None,
        "resumed_at": None,
        "now": now,
        "pending_runs": 0,
    }
    return PlanningInput(**given | changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("catch_up", list(CatchUp))
async def test_minutely_rule_starting_years_ago_creates_at_most_the_limit_of_rows(
    catch_up: CatchUp, schedules: ScheduleActions
) -> None:
    schedules.set_clock("2026-11-16T09:00:30+00:00")
    begin = datetime(2019, 1, 1, tzinfo=UTC)
    schedule = await schedules.create(rule=EVERY_MINUTE, first_run_at=begin, catch_up=catch_up, channel="console")
    await schedules.plan()
    rows = schedules.one("select count(*) from scheduler.job_runs")
    assert rows == MAX_MISSED_RUNS + 60  # those within the horizon of an hour
    assert schedules.one("select count(*) from duly.transition where machine = 'run'") == rows
    ranges = schedules.rows("select job_id, from_at, until_at, reason from scheduler.missed_ranges")
    cutoff = datetime(2026, 11, 16, 9, 1, tzinfo=UTC) - timedelta(minutes=MAX_MISSED_RUNS)
    assert ranges == [(schedule.id, begin, cutoff, ClosingReason.TOO_MANY)]
    await schedules.run_cycle()
    messages = schedules.one("select count(*) from duly.outbox")
    assert messages == {CatchUp.ALL: MAX_MISSED_RUNS, CatchUp.LATEST: 1, CatchUp.NONE: 10}[catch_up]


async def test_each_missed_period_of_a_range_is_listed(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:00:30+00:00")
    begin = datetime(2025, 11, 16, tzinfo=UTC)
    schedule = await schedules.create(rule=DAILY, first_run_at=begin)
    await schedules.plan()
    rows = schedules.runs("period_key")
    named: list[str] = []
    cursor = None
    while True:
        page = await service.list_missed(schedules.api, schedule.user_id, schedule.id, cursor=cursor, limit=100)
        named += [each.period_key for each in page.items]
        cursor = page.next
        if cursor is None:
            break
    every_day = [(begin + timedelta(days=nth)).date().isoformat() for nth in range(366)]
    assert named + rows == every_day
    assert len(rows) == MAX_MISSED_RUNS + 1  # and the one within the horizon
    first = (await service.list_missed(schedules.api, schedule.user_id, schedule.id)).items[0]
    assert first.reason is ClosingReason.TOO_MANY


async def test_periods_missed_during_a_long_pause_are_stored_as_a_range(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:30:00+00:00")
    schedule = await schedules.create(rule="cron: 0 * * * *")
    await schedules.run_cycle()
    await service.set_schedule_status(schedules.api, schedule.user_id, schedule.id, ScheduleStatus.PAUSED)
    schedules.set_clock("2027-02-16T09:30:00+00:00")
    await service.set_schedule_status(schedules.api, schedule.user_id, schedule.id, ScheduleStatus.ACTIVE)
    await schedules.plan()
    assert len(schedules.runs("id")) <= MAX_MISSED_RUNS + 2
    assert schedules.rows("select distinct reason from scheduler.missed_ranges") == [(ClosingReason.PAUSED,)]


def test_missed_ranges_are_split_at_the_pause_with_their_reasons() -> None:
    now = datetime(2026, 11, 16, 9, 30, tzinfo=UTC)
    schedule_input = make_input("cron: 0 * * * *", now, now - timedelta(days=100))
    paused_at, resumed_at = now - timedelta(days=60), now - timedelta(days=20)
    made = plan_runs(replace(schedule_input, paused_at=paused_at, resumed_at=resumed_at))
    reasons = [ClosingReason.DUE_BEFORE_PAUSE, ClosingReason.PAUSED, ClosingReason.TOO_MANY]
    assert [each.reason for each in made.missed] == reasons
    assert made.missed[0].until_at == made.missed[1].from_at == paused_at + timedelta(minutes=30)
    assert made.missed[1].until_at == made.missed[2].from_at == resumed_at + timedelta(minutes=30)


def test_a_plan_over_decades_is_computed_quickly() -> None:
    now = datetime(2026, 11, 16, 9, tzinfo=UTC)
    for rule in (EVERY_MINUTE, "cron: * * * 1-6 *", "cron: 0 0 29 2 *", '{"every": "day", "at": ["08:00", "17:30"]}'):
        schedule_input = make_input(rule, now, now - timedelta(days=3652))
        before = time.process_time()
        made = plan_runs(schedule_input)
        assert time.process_time() - before < 0.5
        assert len([each for each in made.firings if each.scheduled_at <= now]) <= MAX_MISSED_RUNS
        assert made.next_at is not None
        assert made.next_at > now


def test_runs_and_ranges_together_cover_every_firing() -> None:
    now = datetime(2026, 11, 16, 9, 0, 30, tzinfo=UTC)
    for rule in (
        "cron: 0 */7 * * *",
        "cron: 15 3 * * MON-FRI",
        '{"every": "week", "weekdays": ["mon", "thu"], "at": "09:00"}',
    ):
        schedule_input = make_input(rule, now, now - timedelta(days=1200))
        made = plan_runs(schedule_input)
        named = [each.scheduled_at for one in made.missed for each in missed_firings(one)]
        all_of_them = plan_runs(replace(schedule_input, pending_runs=-(10**7)), max_missed=10**6).firings
        assert named + [each.scheduled_at for each in made.firings] == [each.scheduled_at for each in all_of_them]
        assert len(named) > 0


def test_week_of_a_minutely_rule_is_planned_in_parts() -> None:
    now = datetime(2026, 11, 16, 9, tzinfo=UTC)
    made = plan_runs(make_input(EVERY_MINUTE, now, now + timedelta(seconds=1), advance_minutes=10_080))
    assert len(made.firings) == MAX_AHEAD_RUNS
    assert made.plan_at is not None
    assert made.plan_at > now  # not at once again
    further = make_input(EVERY_MINUTE, now, now, advance_minutes=10_080, planned_until=made.planned_until)
    assert len(plan_runs(further).firings) == MAX_AHEAD_RUNS
    assert plan_runs(replace(further, pending_runs=MAX_PENDING_RUNS)).firings == []
    nearly_full = replace(further, pending_runs=MAX_PENDING_RUNS - 300)
    assert len(plan_runs(nearly_full).firings) == 200  # a hundred are left for runs made besides the rule


def test_a_schedule_at_its_limit_gets_no_runs_for_missed_periods_either() -> None:
    now = datetime(2026, 11, 16, 9, tzinfo=UTC)
    made = plan_runs(make_input(EVERY_MINUTE, now, now - timedelta(days=1), pending_runs=MAX_PENDING_RUNS))
    assert made.firings == []
    (missed,) = made.missed
    assert len(list(missed_firings(missed))) == 24 * 60 + 1


async def test_a_schedule_at_its_limit_is_planned_later_and_not_stuck(schedules: ScheduleActions) -> None:
    schedule = await schedules.create(rule=EVERY_MINUTE, advance_minutes=10_080)
    schedules.admin.execute(MANY_RUNS, [schedule.id, 1, MAX_PENDING_RUNS - 50])
    await schedules.plan()
    assert schedules.one("select count(*) from scheduler.job_runs") == MAX_PENDING_RUNS - 50
    assert schedules.rows("select state, last_error, plan_at > duly.now() from scheduler.job_plans") == [
        ("waiting", None, True)
    ]


async def test_due_runs_of_a_schedule_at_its_limit_are_reminded_of_at_once(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:00:30+00:00")
    schedule = await schedules.create(rule=EVERY_MINUTE, catch_up=CatchUp.ALL)
    schedules.admin.execute(MANY_RUNS, [schedule.id, 1, MAX_PENDING_RUNS - 50])
    await schedules.plan()
    schedules.advance_clock(minutes=2)  # the next firing is due, and has no run
    await schedules.plan()
    assert await schedules.remind() == 2


async def test_the_database_refuses_more_open_runs_of_a_schedule_than_the_limit(schedules: ScheduleActions) -> None:
    schedule = await schedules.create()
    schedules.admin.execute(MANY_RUNS, [schedule.id, 1, MAX_PENDING_RUNS])
    with pytest.raises(psycopg.DatabaseError, match=f"has more than {MAX_PENDING_RUNS} pending runs"):
        schedules.admin.execute(MANY_RUNS, [schedule.id, MAX_PENDING_RUNS + 1, MAX_PENDING_RUNS + 1])
    part = schedules.one("select min(tableoid::regclass::text) from scheduler.job_runs")
    into_part = f"insert into {part} (job_id, period_key, scheduled_at) select job_id, 'q', scheduled_at from {part}"
    with pytest.raises(psycopg.DatabaseError, match=f"has more than {MAX_PENDING_RUNS} pending runs"):
        schedules.admin.execute(f"{into_part} limit 1".encode())
    with pytest.raises(LimitReached, match="pending runs"):
        await service.fire_schedule(schedules.api, schedule.user_id, schedule.id)


async def test_schedules_per_user_are_limited(schedules: ScheduleActions) -> None:
    user = schedules.add_user()
    schedules.admin.execute(MANY_SCHEDULES, [user, MONTHLY, MAX_SCHEDULES_PER_USER])
    with pytest.raises(LimitReached, match=f"has {MAX_SCHEDULES_PER_USER} schedules"):
        await schedules.create()
    await schedules.create(uid="bo")
    (first, *_) = (await service.list_schedules(schedules.api, user)).items
    await service.set_schedule_status(schedules.api, user, first.id, ScheduleStatus.ARCHIVED)
    await schedules.create()


def test_two_concurrent_requests_do_not_both_pass_the_limit(schedules: ScheduleActions) -> None:
    user = schedules.add_user()
    schedules.admin.execute(MANY_SCHEDULES, [user, MONTHLY, MAX_SCHEDULES_PER_USER - 1])
    address = schedules.admin.info.dsn
    with psycopg.connect(address) as first, psycopg.connect(address) as second:
        first.execute(MANY_SCHEDULES, [user, MONTHLY, 1])
        second.execute("set local lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            second.execute(MANY_SCHEDULES, [user, MONTHLY, 1])
        second.rollback()
        first.commit()
        with pytest.raises(psycopg.DatabaseError, match=f"has {MAX_SCHEDULES_PER_USER} schedules"):
            second.execute(MANY_SCHEDULES, [user, MONTHLY, 1])
        second.rollback()


async def test_a_first_run_before_the_limit_is_refused_by_the_service_and_by_the_database(
    schedules: ScheduleActions,
) -> None:
    schedules.set_clock("2026-11-16T09:00:00+00:00")
    too_early = datetime(2026 - MAX_PAST_YEARS, 11, 16, 8, tzinfo=UTC)
    with pytest.raises(InvalidArgument, match=f"first_run_at: .* at most {MAX_PAST_YEARS} years"):
        await schedules.create(first_run_at=too_early)
    schedule = await schedules.create(first_run_at=too_early + timedelta(days=1))
    with pytest.raises(InvalidArgument, match="first_run_at"):
        await service.change_schedule(schedules.api, schedule.user_id, schedule.id, {"first_run_at": too_early})
    with pytest.raises(psycopg.errors.CheckViolation, match="first_run_at"):
        schedules.admin.execute("update scheduler.jobs set first_run_at = %s", [too_early])
    # Years later it may still be changed otherwise.
    schedules.set_clock("2030-11-16T09:00:00+00:00")
    changed = await service.change_schedule(schedules.api, schedule.user_id, schedule.id, {"name": "Other"})
    assert changed.name == "Other"


async def test_archiving_returns_after_one_batch_and_a_worker_cancels_the_rest(schedules: ScheduleActions) -> None:
    schedule = await schedules.create()
    other = await schedules.create(uid="bo")
    for job in (schedule.id, other.id):
        schedules.admin.execute(
            "insert into scheduler.job_runs (job_id, period_key, scheduled_at, remind_at)"
            " select %s, 'p' || n, duly.now() + make_interval(mins => n), duly.now()"
            " from generate_series(1, 1300) as n",
            [job],
        )
    await service.set_schedule_status(schedules.api, schedule.user_id, schedule.id, ScheduleStatus.ARCHIVED)
    pending_count = "select count(*) from scheduler.job_runs where status = 'pending' and job_id = %s"
    assert schedules.one(pending_count, schedule.id) == 1300 - 500
    # What is left is neither reminded of nor answered any more.
    (run,) = schedules.rows(
        "select min(id) from scheduler.job_runs where status = 'pending' and job_id = %s", schedule.id
    )[0]
    with pytest.raises(RunClosed, match="archived"):
        await schedules.answer(run)
    async with schedules.worker.transaction():
        assert await cancel_archived_runs(schedules.worker) == 500
    assert schedules.one(pending_count, schedule.id) == 300
    await schedules.remind()
    assert schedules.one("select count(*) from duly.outbox where recipient = 'anna'") == 0
    assert isinstance(schedules.work, ScheduleWork)
    more = 1
    while more:
        async with schedules.worker.transaction():
            more = await schedules.work.run_unleased(schedules.worker)
    assert schedules.one(pending_count, schedule.id) == 0
    reasons = schedules.rows("select distinct status, reason from scheduler.job_runs where job_id = %s", schedule.id)
    assert reasons == [(RunStatus.CANCELLED, "ARCHIVED")]


def test_limits_of_the_database_equal_those_of_the_code(schedules: ScheduleActions) -> None:
    assert schedules.rows("select max_pending_runs, max_schedules, max_past_years from scheduler.limits()") == [
        (MAX_PENDING_RUNS, MAX_SCHEDULES_PER_USER, MAX_PAST_YEARS)
    ]


async def test_a_request_over_a_limit_names_the_limit(schedules: ScheduleActions) -> None:
    user = schedules.add_user()
    new = NewSchedule(name="x", rule=MONTHLY, first_run_at=schedules.now())
    schedules.admin.execute(MANY_SCHEDULES, [user, MONTHLY, MAX_SCHEDULES_PER_USER - 1])
    made = (await service.create_schedule(schedules.api, user, new, "key")).row
    again = (await service.create_schedule(schedules.api, user, new, "key")).row
    assert again.id == made.id  # the same request is still answered at the limit
    with pytest.raises(LimitReached, match=f"has {MAX_SCHEDULES_PER_USER} schedules, .*; archive one"):
        await service.create_schedule(schedules.api, user, new, "another key")
