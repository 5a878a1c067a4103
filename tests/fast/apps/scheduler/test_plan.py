"""Runs are created ahead of time: one per period, with any number of planners and changes of the schedule."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from duly.apps.scheduler import service
from duly.apps.scheduler.model import MissedPeriod, NewSchedule, Schedule, ScheduleStatus
from duly.apps.scheduler.planning import PlanningInput, plan_runs
from duly.apps.scheduler.reasons import ClosingReason
from duly.apps.scheduler.work import ScheduleWork
from duly.db.migrations import Names
from duly.db.pool import connect
from duly.errors import IllegalTransition, InvalidArgument, KeyReused, NotFound
from duly.lease.work import LeaseOutcome, StopSignal, Tuning
from duly.outcomes import Created, Existing
from tests.support.scheduler.actions import MONTHLY, ScheduleActions

DAILY = "cron: 0 10 * * *"
HOURLY = "cron: 0 * * * *"
START = "2026-11-16T09:00:00+00:00"


def make_input(rule: str, **changes: object) -> PlanningInput:
    """Return the input for planning a schedule."""
    at = datetime(2026, 11, 16, 9, tzinfo=UTC)
    given = {
        "schedule_id": 1,
        "rule": rule,
        "zone": "UTC",
        "not_before": at,
        "advance_minutes": 0,
        "planned_until": None,
        "paused_at": None,
        "resumed_at": None,
        "now": at,
    }
    return PlanningInput(**given | changes)  # type: ignore[arg-type]


def test_a_plan_has_the_firings_within_the_horizon_and_the_time_of_the_next_plan() -> None:
    result = plan_runs(make_input(DAILY, advance_minutes=1440))
    assert [(each.period_key, str(each.scheduled_at)[:16]) for each in result.firings] == [
        ("2026-11-16", "2026-11-16 10:00"),
        ("2026-11-17", "2026-11-17 10:00"),
    ]
    assert [str(each.remind_at)[:16] for each in result.firings] == ["2026-11-15 10:00", "2026-11-16 10:00"]
    assert str(result.next_at)[:16] == "2026-11-18 10:00"
    assert str(result.plan_at)[:16] == "2026-11-17 09:00"  # a day and an hour before


def test_runs_missed_during_a_pause_send_no_reminder() -> None:
    schedule_input = make_input(HOURLY, now=datetime(2026, 11, 16, 12, 30, tzinfo=UTC))
    result = plan_runs(make_input(HOURLY, now=schedule_input.now, resumed_at=schedule_input.now))
    assert [each.missed_reason for each in result.firings] == [ClosingReason.PAUSED] * 4 + [None]


async def test_first_run_is_the_first_firing_at_or_after_first_run_at(schedules: ScheduleActions) -> None:
    schedules.set_clock(START)
    await schedules.create(first_run_at=datetime(2026, 11, 20, 10, tzinfo=UTC), rule=DAILY)
    await schedules.plan()
    assert schedules.runs("id") == []
    schedules.set_clock("2026-11-20T09:30:00+00:00")
    await schedules.plan()
    assert schedules.run_times() == ["2026-11-20 10:00"]
    assert schedules.runs("period_key", "status") == [("2026-11-20", "pending")]


async def test_every_period_of_a_year_gets_one_run(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-12-31T23:00:00+00:00")
    await schedules.create(rule='{"every": "month", "day": 1, "at": "10:00", "tz": "Europe/Stockholm"}')
    for _ in range(40):
        schedules.advance_clock(days=10)
        await schedules.plan()
    months = [f"2027-{month:02}" for month in range(1, 13)] + ["2028-01", "2028-02"]
    assert schedules.runs("period_key") == months
    offsets = {at[11:] for at in schedules.run_times()}
    assert offsets == {"09:00", "08:00"}  # ten o'clock in Stockholm, winter and summer


async def test_eight_concurrent_planners_create_each_run_once(schedules: ScheduleActions) -> None:
    schedules.set_clock(START)
    for nth in range(40):
        await schedules.create(rule=HOURLY, uid=f"user{nth % 5}")
    schedules.advance_clock(hours=30)

    async def planner() -> int:
        work, settled = ScheduleWork(Tuning()), 0
        async with await connect(make_conninfo(schedules.admin.info.dsn, user=Names().worker)) as connection:
            while leases := await work.claim(connection, "planner", 3):
                calls = [work.build_call(lease, StopSignal()) for lease in leases]
                finished = [
                    LeaseOutcome(lease, await call.function(*call.arguments))
                    for lease, call in zip(leases, calls, strict=True)
                ]
                async with connection.transaction():
                    settled += len(await work.settle(connection, finished))
        return settled

    assert sum(await asyncio.gather(*(planner() for _ in range(8)))) == 40
    assert schedules.one("select count(*) from scheduler.job_runs") == 40 * 31
    assert schedules.one("select count(distinct (job_id, period_key)) from scheduler.job_runs") == 40 * 31


async def test_plan_of_a_schedule_changed_meanwhile_is_discarded(schedules: ScheduleActions) -> None:
    schedules.set_clock(START)
    schedule = await schedules.create(rule=DAILY)
    leases = await schedules.work.claim(schedules.worker, "planner", 10)
    call = schedules.work.build_call(leases[0], StopSignal())
    outcome = await call.function(*call.arguments)
    await service.change_schedule(schedules.api, schedule.user_id, schedule.id, {"rule": "cron: 0 11 * * *"})
    async with schedules.worker.transaction():
        assert await schedules.work.settle(schedules.worker, [LeaseOutcome(leases[0], outcome)]) == frozenset()
    assert schedules.runs("status") == []
    schedules.set_clock("2026-11-16T10:30:00+00:00")
    await schedules.plan()
    assert schedules.run_times() == ["2026-11-16 11:00"]


async def test_the_plan_of_a_dead_planner_is_claimed_by_another(schedules: ScheduleActions) -> None:
    schedules.set_clock(START)
    await schedules.create(rule=DAILY)
    assert len(await schedules.work.claim(schedules.worker, "dead", 10)) == 1
    assert await schedules.plan() == 0
    schedules.advance_clock(seconds=61)
    (lease,) = await schedules.work.claim_expired(schedules.worker, "heir", 10)
    call = schedules.work.build_call(lease, StopSignal())
    async with schedules.worker.transaction():
        await schedules.work.settle(schedules.worker, [LeaseOutcome(lease, await call.function(*call.arguments))])
    assert schedules.run_times() == ["2026-11-16 10:00"]


async def test_a_schedule_with_an_invalid_rule_is_stuck_with_the_error(schedules: ScheduleActions) -> None:
    user = schedules.add_user()
    schedules.admin.execute(
        "insert into scheduler.jobs (user_id, name, rule, first_run_at) values (%s, 'bad', 'whenever', duly.now())",
        [user],
    )
    good = await schedules.create(rule=DAILY, first_run_at=schedules.now() - timedelta(days=1))
    await schedules.plan()
    (schedule, _) = (await service.list_schedules(schedules.api, user)).items
    assert schedule.plan_error
    assert schedule.plan_error.startswith("rule: must begin with `cron:`")
    assert set(schedules.runs("job_id")) == {good.id}
    await service.change_schedule(schedules.api, user, schedule.id, {"rule": DAILY})
    await schedules.plan()
    assert (await service.get_schedule(schedules.api, user, schedule.id)).plan_error is None


async def test_a_stuck_schedule_is_planned_again_when_it_is_resumed(schedules: ScheduleActions) -> None:
    schedules.set_clock(START)
    schedule = await schedules.create(rule=DAILY)
    schedules.admin.execute("update scheduler.job_plans set state = 'stuck', last_error = 'the worker died'")
    schedules.set_clock("2026-11-16T10:05:00+00:00")
    await schedules.plan()
    assert schedules.run_times() == []
    resumed = await service.set_schedule_status(schedules.api, schedule.user_id, schedule.id, ScheduleStatus.ACTIVE)
    assert resumed.plan_error is None
    await schedules.run_cycle()
    assert schedules.runs("status", "reason") == [("sent", None)]  # no pause: its missed period is caught up on


# Changes of a schedule ------------------------------------------------------------------------------------------------


async def test_a_changed_rule_applies_from_its_next_firing(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:30:00+00:00")
    schedule = await schedules.create(rule=DAILY)
    await schedules.run_cycle()
    assert schedules.run_times() == ["2026-11-16 10:00"]
    (first,) = schedules.runs("id")
    await service.change_schedule(schedules.api, schedule.user_id, schedule.id, {"rule": "cron: 15 10 * * *"})
    await schedules.run_cycle()
    assert schedules.run_times() == ["2026-11-16 10:15"]  # the other had no reminder yet
    assert schedules.path(first) == ["pending", "cancelled"]
    schedules.set_clock("2026-11-16T10:15:01+00:00")
    await schedules.run_cycle()
    assert schedules.runs("status") == ["sent"]
    await service.change_schedule(schedules.api, schedule.user_id, schedule.id, {"rule": "cron: 30 10 * * *"})
    schedules.set_clock("2026-11-17T10:30:01+00:00")
    await schedules.run_cycle()
    assert schedules.run_times() == ["2026-11-16 10:15", "2026-11-17 10:30"]  # one in every period


async def list_missed(schedules: ScheduleActions, schedule: Schedule, limit: int = 100) -> list[tuple[str, str]]:
    """Return every missed period without a run, with its reason."""
    found: list[MissedPeriod] = []
    cursor = None
    while True:
        page = await service.list_missed(schedules.api, None, schedule.id, cursor=cursor, limit=limit)
        found += page.items
        cursor = page.next
        if cursor is None:
            return [(each.scheduled_at.strftime("%H:%M"), each.reason) for each in found]


async def test_periods_missed_before_the_rule_was_changed_are_recorded(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:30:00+00:00")
    schedule = await schedules.create(rule=HOURLY)
    await schedules.plan()
    schedules.set_clock("2026-11-16T12:30:00+00:00")  # no worker plans
    await service.change_schedule(schedules.api, None, schedule.id, {"rule": "cron: 20 * * * *"})
    schedules.set_clock("2026-11-16T14:30:00+00:00")
    await service.change_schedule(schedules.api, None, schedule.id, {"rule": "cron: 40 * * * *"})
    schedules.set_clock("2026-11-16T15:30:00+00:00")
    await schedules.run_cycle()
    assert schedules.runs("to_char(scheduled_at, 'HH24:MI')", "status") == [
        ("10:00", "skipped"),
        ("14:40", "sent"),
        ("15:40", "pending"),
    ]
    expected = [(at, "RULE_CHANGED") for at in ("11:00", "12:00", "13:20", "14:20")]
    assert await list_missed(schedules, schedule) == expected
    assert await list_missed(schedules, schedule, limit=1) == expected


async def test_periods_missed_before_a_change_during_a_pause_have_the_reason_of_the_pause(
    schedules: ScheduleActions,
) -> None:
    schedules.set_clock("2026-11-16T09:30:00+00:00")
    schedule = await schedules.create(rule=HOURLY)  # never planned
    schedules.set_clock("2026-11-16T11:30:00+00:00")
    await service.set_schedule_status(schedules.api, None, schedule.id, ScheduleStatus.PAUSED)
    schedules.set_clock("2026-11-16T12:30:00+00:00")
    await service.change_schedule(schedules.api, None, schedule.id, {"rule": "cron: 20 * * * *"})
    schedules.set_clock("2026-11-16T13:30:00+00:00")
    await service.set_schedule_status(schedules.api, None, schedule.id, ScheduleStatus.ACTIVE)
    await schedules.plan()
    assert await list_missed(schedules, schedule) == [
        ("10:00", "DUE_BEFORE_PAUSE"),
        ("11:00", "DUE_BEFORE_PAUSE"),
        ("12:00", "PAUSED"),
    ]
    assert schedules.runs("to_char(scheduled_at, 'HH24:MI')", "reason") == [("13:20", "PAUSED"), ("14:20", None)]


async def test_one_statement_may_pause_a_schedule_and_change_its_rule(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:30:00+00:00")
    schedule = await schedules.create(rule=HOURLY)
    await schedules.plan()
    schedules.set_clock("2026-11-16T11:30:00+00:00")
    schedules.admin.execute("update scheduler.jobs set status = 'paused', rule = 'cron: 20 * * * *'")
    schedules.admin.execute("update scheduler.jobs set status = 'active'")
    await schedules.run_cycle()
    assert await list_missed(schedules, schedule) == [("11:00", "DUE_BEFORE_PAUSE")]
    assert schedules.runs("to_char(scheduled_at, 'HH24:MI')", "status") == [("10:00", "sent"), ("12:20", "pending")]


async def test_a_change_of_the_rule_by_a_planned_schedule_records_no_missed_range(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T10:30:00+00:00")
    schedule = await schedules.create(rule=DAILY)
    await schedules.plan()
    await service.change_schedule(schedules.api, None, schedule.id, {"rule": "cron: 0 11 * * *"})
    await schedules.plan()
    await service.set_schedule_status(schedules.api, None, schedule.id, ScheduleStatus.PAUSED)
    await service.change_schedule(schedules.api, None, schedule.id, {"rule": DAILY})
    assert schedules.rows("select from_at, until_at from scheduler.missed_ranges") == []


async def test_a_changed_advance_moves_reminders_that_are_not_sent(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:30:00+00:00")
    schedule = await schedules.create(rule=DAILY)
    await schedules.plan()
    await service.change_schedule(schedules.api, schedule.user_id, schedule.id, {"advance_minutes": 45})
    assert str(schedules.runs("remind_at")[0])[:16] == "2026-11-16 09:15"
    await schedules.run_cycle()
    assert schedules.runs("status") == ["sent"]


async def test_pausing_removes_runs_without_a_reminder_and_resuming_skips_the_missed(
    schedules: ScheduleActions,
) -> None:
    schedules.set_clock("2026-11-16T09:30:00+00:00")
    schedule = await schedules.create(rule=HOURLY)
    await schedules.run_cycle()
    assert schedules.run_times() == ["2026-11-16 10:00"]
    await service.set_schedule_status(schedules.api, schedule.user_id, schedule.id, ScheduleStatus.PAUSED)
    assert schedules.runs("status") == []
    schedules.set_clock("2026-11-16T12:30:00+00:00")
    await schedules.run_cycle()
    assert schedules.runs("status") == []
    await service.set_schedule_status(schedules.api, schedule.user_id, schedule.id, ScheduleStatus.ACTIVE)
    await schedules.run_cycle()
    assert schedules.runs("to_char(scheduled_at, 'HH24:MI')", "status", "reason") == [
        ("10:00", "skipped", "PAUSED"),
        ("11:00", "skipped", "PAUSED"),
        ("12:00", "skipped", "PAUSED"),
        ("13:00", "pending", None),
    ]


async def test_runs_due_before_a_pause_are_skipped_with_that_reason(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:30:00+00:00")
    schedule = await schedules.create(rule=HOURLY)  # not planned yet
    schedules.set_clock("2026-11-16T11:30:00+00:00")
    await service.set_schedule_status(schedules.api, schedule.user_id, schedule.id, ScheduleStatus.PAUSED)
    schedules.set_clock("2026-11-16T12:30:00+00:00")
    await service.set_schedule_status(schedules.api, schedule.user_id, schedule.id, ScheduleStatus.ACTIVE)
    await schedules.run_cycle()
    assert schedules.runs("to_char(scheduled_at, 'HH24:MI')", "reason") == [
        ("10:00", "DUE_BEFORE_PAUSE"),
        ("11:00", "DUE_BEFORE_PAUSE"),
        ("12:00", "PAUSED"),
        ("13:00", None),
    ]


async def test_pausing_leaves_sent_runs_open(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T10:00:01+00:00")
    schedule = await schedules.create(rule=HOURLY, first_run_at=datetime(2026, 11, 16, 10, tzinfo=UTC))
    await schedules.run_cycle()
    await service.set_schedule_status(schedules.api, schedule.user_id, schedule.id, ScheduleStatus.PAUSED)
    assert schedules.runs("status") == ["sent"]
    await schedules.answer(schedules.run_id())
    assert schedules.runs("status") == ["confirmed"]


async def test_archiving_cancels_open_runs_and_withdraws_their_messages(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T10:00:01+00:00")
    schedule = await schedules.create(rule="cron: */30 * * * *", first_run_at=datetime(2026, 11, 16, 10, tzinfo=UTC))
    await schedules.run_cycle()
    schedules.set_clock("2026-11-16T10:30:01+00:00")
    await schedules.plan()
    await schedules.remind()
    assert schedules.runs("status") == ["sent", "pending", "pending", "pending"]  # the second waits in the outbox
    await service.set_schedule_status(schedules.api, schedule.user_id, schedule.id, ScheduleStatus.ARCHIVED)
    assert set(schedules.runs("status || ': ' || reason")) == {"cancelled: ARCHIVED"}
    assert schedules.rows("select status, last_error from duly.outbox order by created_at") == [
        ("sent", None),
        ("failed", "ARCHIVED"),
    ]
    schedules.advance_clock(days=1)
    await schedules.run_cycle()
    assert len(schedules.runs("status")) == 4
    with pytest.raises(IllegalTransition):
        await service.set_schedule_status(schedules.api, schedule.user_id, schedule.id, ScheduleStatus.ACTIVE)
    with pytest.raises(IllegalTransition):
        await service.fire_schedule(schedules.api, schedule.user_id, schedule.id)


async def test_schedules_follow_the_users_new_zone(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T12:00:00+00:00")
    schedule = await schedules.create(rule=DAILY)
    await schedules.plan()
    schedules.admin.execute("""update duly.person set zone = 'Asia/Tokyo'""")
    schedules.set_clock("2026-11-17T00:30:00+00:00")
    await schedules.plan()
    assert schedules.run_times() == ["2026-11-17 01:00"]
    assert schedule.zone == "UTC"


async def test_a_plan_computed_in_the_old_zone_is_refused(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T12:00:00+00:00")
    await schedules.create(rule=DAILY)
    (lease,) = await schedules.work.claim(schedules.worker, "slow", 10)
    call = schedules.work.build_call(lease, StopSignal())
    planned = LeaseOutcome(lease, await call.function(*call.arguments))
    schedules.admin.execute("""update duly.person set zone = 'Asia/Tokyo'""")
    async with schedules.worker.transaction():
        assert await schedules.work.settle(schedules.worker, [planned]) == frozenset()
    schedules.set_clock("2026-11-17T00:30:00+00:00")
    await schedules.plan()
    assert schedules.run_times() == ["2026-11-17 01:00"]


async def test_a_manual_run_is_created_once_a_minute(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:00:10+00:00")
    schedule = await schedules.create(rule=MONTHLY)
    first = await service.fire_schedule(schedules.api, schedule.user_id, schedule.id)
    again = await service.fire_schedule(schedules.api, schedule.user_id, schedule.id)
    assert isinstance(first, Created)
    assert again == Existing(first.row)
    assert first.row.period_key == "fired-2026-11-16T09:00Z"
    await schedules.run_cycle()
    assert schedules.runs("status") == ["sent"]
    schedules.advance_clock(minutes=1)
    assert isinstance(await service.fire_schedule(schedules.api, schedule.user_id, schedule.id), Created)


# Requests -------------------------------------------------------------------------------------------------------------


async def test_repeated_request_creates_one_schedule(schedules: ScheduleActions) -> None:
    user = schedules.add_user()
    options = NewSchedule(name="Rent", rule=MONTHLY, first_run_at=schedules.now())
    first = await service.create_schedule(schedules.api, user, options, "key")
    again = await service.create_schedule(schedules.api, user, options, "key")
    assert isinstance(first, Created)
    assert isinstance(again, Existing)
    assert again.row.id == first.row.id
    other = NewSchedule(name="Gym", rule=MONTHLY, first_run_at=options.first_run_at)
    with pytest.raises(KeyReused):
        await service.create_schedule(schedules.api, user, other, "key")
    assert isinstance(await service.create_schedule(schedules.api, schedules.add_user("bo"), other, "key"), Created)


async def test_repeated_request_without_a_first_run_at_is_the_same_after_an_edit(schedules: ScheduleActions) -> None:
    user = schedules.add_user()
    options = NewSchedule(name="Rent", rule=MONTHLY)
    first = await service.create_schedule(schedules.api, user, options, "key")
    schedules.advance_clock(minutes=1)
    changes = {"first_run_at": schedules.now()}
    changed = await service.change_schedule(schedules.api, user, first.row.id, changes)
    again = await service.create_schedule(schedules.api, user, options, "key")
    assert again == Existing(changed)
    other = NewSchedule(name="Rent", rule=MONTHLY, first_run_at=schedules.now())
    with pytest.raises(KeyReused):
        await service.create_schedule(schedules.api, user, other, "key")


async def test_another_users_schedule_is_not_found(schedules: ScheduleActions) -> None:
    mine, other = await schedules.create(), schedules.add_user("bo")
    for question in (
        service.get_schedule(schedules.api, other, mine.id),
        service.change_schedule(schedules.api, other, mine.id, {"name": "x"}),
        service.set_schedule_status(schedules.api, other, mine.id, ScheduleStatus.PAUSED),
        service.fire_schedule(schedules.api, other, mine.id),
    ):
        with pytest.raises(NotFound):
            await question
    assert (await service.list_schedules(schedules.api, other)).items == []
    assert schedules.rows("select name, status from scheduler.jobs") == [("Rent", "active")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rule": "cron: 61 * * * *"}, "rule"),
        ({"name": ""}, "name: is required"),
        ({"name": "x" * 121}, "name: must be a text of 1 to 120"),
        ({"name": "a\0b"}, "name: must be a text"),
        ({"channel": "Tele gram"}, "channel: must be a name"),
        ({"advance_minutes": -5}, "advance_minutes: must be between"),
        ({"first_run_at": datetime(2026, 1, 1)}, "first_run_at: must have a UTC offset"),  # noqa: DTZ001
        ({"first_run_at": datetime(1999, 1, 1, tzinfo=UTC)}, "first_run_at: must be in the years"),
    ],
)
async def test_an_invalid_schedule_is_refused_with_the_name_of_the_field(
    options: dict[str, Any], message: str, schedules: ScheduleActions
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        await schedules.create(**options)


def test_runs_cannot_be_moved_to_another_time(admin: psycopg.Connection[tuple[object, ...]]) -> None:
    admin.execute("""insert into duly.person (uid) values ('anna')""")
    admin.execute(
        "insert into scheduler.jobs (user_id, name, rule, first_run_at)"
        """ select user_id, 'x', 'cron: 0 10 1 * *', duly.now() from duly.person"""
    )
    admin.execute(
        "insert into scheduler.job_runs (job_id, period_key, scheduled_at, remind_at)"
        " select user_id, 'x', duly.now(), duly.now() from scheduler.jobs"
    )
    for change in ("scheduled_at = scheduled_at + interval '1 min'", "period_key = 'y'", "job_id = job_id + 1"):
        with pytest.raises(psycopg.DatabaseError, match="stay as they are"):
            admin.execute(f"update scheduler.job_runs set {change}".encode())
