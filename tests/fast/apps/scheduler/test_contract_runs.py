"""Runs that other programs insert, as in sections 3 and 4 of the contract: reminded of, unique, deleted completely."""

import threading
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg import errors

from duly.apps.scheduler import service
from duly.apps.scheduler.explain import RunReason, explain
from duly.apps.scheduler.model import ScheduleStatus
from tests.support.scheduler.actions import MONTHLY, ScheduleActions

SEED = (
    "insert into scheduler.jobs (user_id, name, rule, first_run_at)"
    " values (%s, 'YouTube 订阅', 'cron: 0 10 1 * *', now()) on conflict do nothing",
    "insert into scheduler.job_runs (job_id, period_key, scheduled_at)"
    " select j.id, to_char(now(), 'YYYY-MM'), date_trunc('month', now()) from scheduler.jobs j limit 1",
)
INSERT = "insert into scheduler.job_runs (job_id, period_key, scheduled_at) values (%s, %s, %s) returning id"
ENSURE = "select job_run_id, is_new from scheduler.ensure_run(%s, %s, %s)"
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


# 拉取到期未发送的 job_runs: a run inserted by plain SQL is reminded of like any other (R29) ------------------------


async def test_run_inserted_by_the_contracts_seed_sends_a_reminder(schedules: ScheduleActions) -> None:
    user = schedules.add_user()
    schedules.admin.execute(SEED[0].encode(), [user])
    schedules.admin.execute(SEED[1].encode())
    await schedules.run_cycle()
    assert schedules.runs("status") == ["sent"]
    due = "select id from scheduler.job_runs where status = 'pending' and scheduled_at <= now()"
    assert schedules.values(due) == []


@pytest.mark.parametrize("minutes", [0, 90])
async def test_run_inserted_by_sql_sends_its_reminder_advance_minutes_early(
    minutes: int, schedules: ScheduleActions
) -> None:
    schedules.set_clock(NOON)
    schedule = await schedules.create(advance_minutes=minutes)
    schedules.one(INSERT, schedule.id, "2026-11", NOON + timedelta(hours=3))
    assert schedules.runs("remind_at") == [NOON + timedelta(hours=3) - timedelta(minutes=minutes)]
    await schedules.run_cycle()
    assert schedules.runs("status") == ["pending"]
    schedules.set_clock(NOON + timedelta(hours=3))
    await schedules.run_cycle()
    assert schedules.runs("status") == ["sent"]


async def test_a_given_remind_at_is_kept(schedules: ScheduleActions) -> None:
    schedule = await schedules.create(advance_minutes=60)
    schedules.admin.execute(
        "insert into scheduler.job_runs (job_id, period_key, scheduled_at, remind_at) values (%s, 'x', %s, %s)",
        [schedule.id, NOON, NOON - timedelta(minutes=5)],
    )
    assert schedules.runs("remind_at") == [NOON - timedelta(minutes=5)]


async def test_run_inserted_for_an_archived_schedule_sends_no_reminder(schedules: ScheduleActions) -> None:
    schedule = await schedules.create()
    await service.set_schedule_status(schedules.api, schedule.user_id, schedule.id, ScheduleStatus.ARCHIVED)
    run = schedules.one(INSERT, schedule.id, "2026-11", NOON)
    assert schedules.runs("remind_at") == [None]
    explanation = await explain(schedules.api, schedule.user_id, run)
    assert explanation.reason is RunReason.NOT_REMINDED
    assert "archived" in explanation.sentence


async def test_firings_missed_while_paused_are_still_skipped(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:30:00+00:00")
    schedule = await schedules.create(rule="cron: 0 * * * *")
    await service.set_schedule_status(schedules.api, schedule.user_id, schedule.id, ScheduleStatus.PAUSED)
    schedules.set_clock("2026-11-16T12:30:00+00:00")
    await service.set_schedule_status(schedules.api, schedule.user_id, schedule.id, ScheduleStatus.ACTIVE)
    await schedules.run_cycle()
    assert schedules.runs("status", "reason", "remind_at is null")[:3] == [("skipped", "PAUSED", True)] * 3


# job_runs 唯一键 (job_id, period_key) 确保每周期仅一实例: made, or found (R1) -------------------------------------


async def test_ensure_run_creates_the_run_of_a_period_once_and_then_returns_it(schedules: ScheduleActions) -> None:
    schedule = await schedules.create(advance_minutes=30)
    ((made, is_new),) = schedules.rows(ENSURE, schedule.id, "2026-11", NOON)
    assert is_new
    assert schedules.runs("id", "remind_at") == [(made, NOON - timedelta(minutes=30))]
    for at in (NOON, NOON + timedelta(days=40)):  # in its own month and in another: the run stays as it is
        assert schedules.rows(ENSURE, schedule.id, "2026-11", at) == [(made, False)]
    assert schedules.runs("id", "scheduled_at") == [(made, NOON)]
    ((other, is_new),) = schedules.rows(ENSURE, schedule.id, "2026-12", NOON)
    assert is_new
    assert other != made


async def test_ensure_run_fails_for_an_unknown_schedule(schedules: ScheduleActions) -> None:
    with pytest.raises(errors.ForeignKeyViolation, match="job_id"):
        schedules.rows(ENSURE, 4711, "2026-11", NOON)


async def test_of_two_concurrent_ensure_run_calls_one_creates_the_run_and_both_return_it(
    schedules: ScheduleActions, dsn: str
) -> None:
    schedule = await schedules.create()
    found: list[tuple[int, bool]] = []

    def ensure(connection: psycopg.Connection[tuple[int, bool]]) -> None:
        row = connection.execute(ENSURE.encode(), [schedule.id, "2026-11", NOON]).fetchone()
        assert row
        found.append(row)

    with psycopg.connect(dsn) as first, psycopg.connect(dsn) as second:
        ensure(first)
        thread = threading.Thread(target=ensure, args=(second,))
        thread.start()
        waits = "select count(*) from pg_stat_activity where pid = %s and wait_event_type = 'Lock'"
        schedules.wait_until(lambda: schedules.one(waits, second.info.backend_pid) == 1)
        first.commit()
        thread.join(30)
    assert found[0][1]
    assert found[1] == (found[0][0], False)


# REFERENCES scheduler.job_runs(id) ON DELETE CASCADE (D11) -------------------------------------------------------


@pytest.mark.breaks_invariants  # by hand: no entry point deletes
async def test_deleting_a_run_deletes_its_reminders_confirmations_and_key(schedules: ScheduleActions) -> None:
    schedules.set_clock(NOON)
    schedule = await schedules.create_with_expense(first_run_at=NOON)
    run = schedules.one(INSERT, schedule.id, "2026-11", NOON)
    await schedules.run_cycle()
    await schedules.answer(run, "snooze", "k0")
    await schedules.answer(run, "complete", "k1")
    tables = ("job_runs", "job_run_keys", "reminders", "confirmations")
    assert [schedules.count(f"scheduler.{each}") for each in tables] == [1, 1, 1, 2]
    schedules.admin.execute("delete from scheduler.job_runs where id = %s", [run])
    assert [schedules.count(f"scheduler.{each}") for each in tables] == [0, 0, 0, 0]

    ((again, is_new),) = schedules.rows(ENSURE, schedule.id, "2026-11", NOON)
    assert is_new
    await schedules.answer(again, "complete", "k2")
    assert schedules.count("expense.expenses") == 1  # a period is booked once


@pytest.mark.breaks_invariants
async def test_deleting_a_run_withdraws_its_unsent_message(schedules: ScheduleActions) -> None:
    schedules.set_clock(NOON)
    schedule = await schedules.create()
    schedules.one(INSERT, schedule.id, "2026-11", NOON)
    await schedules.plan()
    await schedules.remind()
    schedules.admin.execute("delete from scheduler.job_runs")
    assert schedules.rows("select status, last_error from duly.outbox") == [
        ("failed", "its run was deleted before it was sent")
    ]


@pytest.mark.breaks_invariants
async def test_deleting_a_schedule_deletes_its_runs_and_their_dependent_rows(schedules: ScheduleActions) -> None:
    schedules.set_clock(NOON)
    schedule = await schedules.create(first_run_at=NOON)
    run = schedules.one(INSERT, schedule.id, "2026-11", NOON)
    await schedules.run_cycle()
    await schedules.answer(run, "skip", "k")
    schedules.admin.execute("delete from scheduler.jobs")
    tables = ("jobs", "job_plans", "job_runs", "job_run_keys", "reminders", "confirmations")
    assert [schedules.count(f"scheduler.{each}") for each in tables] == [0] * 6


async def test_user_with_schedules_cannot_be_deleted(schedules: ScheduleActions) -> None:
    await schedules.create(rule=MONTHLY)
    for table, constraint in (("duly.person", "fk_jobs_person_user_id"), ('"user".users', "fk_jobs_users_user_id")):
        with pytest.raises(psycopg.IntegrityError) as error:
            schedules.admin.execute(f"delete from {table}".encode())
        assert error.value.diag.constraint_name == constraint


async def test_runs_moved_to_their_month_partition_keep_key_and_reminders(schedules: ScheduleActions) -> None:
    schedule = await schedules.create()
    far = schedules.now() + timedelta(days=400)
    run = schedules.one(INSERT, schedule.id, "far", far)
    schedules.admin.execute("insert into scheduler.reminders (job_run_id, sent_at) values (%s, now())", [run])
    assert schedules.runs("tableoid::regclass::text") == ["scheduler.job_runs_future"]
    assert schedules.one("select scheduler.create_months(%s::date)", far)
    assert schedules.runs("tableoid::regclass::text") == [f"scheduler.job_runs_{far:%Y_%m}"]
    assert schedules.count("scheduler.job_run_keys") == 1
    assert schedules.count("scheduler.reminders") == 1
    schedules.admin.execute("delete from scheduler.job_runs")
    assert schedules.count("scheduler.job_run_keys") == 0
