"""Two firings of a schedule with the same period key: the second gets a run too, and explain says so."""

from datetime import UTC, datetime

import pytest

from duly.apps.scheduler import service
from duly.apps.scheduler.explain import explain
from duly.apps.scheduler.model import ScheduleStatus
from duly.apps.scheduler.rule import PeriodUnit
from tests.support.scheduler.actions import ScheduleActions

DAILY = "cron: 0 10 * * *"
SIXTEENTH = datetime(2026, 11, 16, 10, tzinfo=UTC)


@pytest.fixture
def too_coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make periods longer than they are, like a bug in the calendar would."""

    def month(*_: object) -> PeriodUnit:
        return PeriodUnit.MONTH

    monkeypatch.setattr("duly.apps.scheduler.planning.cached_period_unit", month)


async def sentence_about(schedules: ScheduleActions, run: int) -> str:
    """Return the sentence of explain about a run."""
    return (await explain(schedules.api, None, run)).sentence


@pytest.mark.usefixtures("too_coarse")
async def test_second_firing_of_a_period_gets_a_run_with_a_note(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:30:00+00:00")
    await schedules.create(rule=DAILY)
    await schedules.run_cycle()
    schedules.advance_clock(days=1)
    await schedules.run_cycle()
    first, second = schedules.runs("id")
    note = f"period key 2026-11 belongs to run {first} of 2026-11-16T10:00Z, so this run has its own key"
    assert schedules.runs("period_key", "reason") == [("2026-11", None), ("2026-11-17T10:00Z", note)]
    assert "Note" not in await sentence_about(schedules, first)
    assert (await sentence_about(schedules, second)).endswith(f". Note: {note}.")
    schedules.advance_clock(hours=1)
    await schedules.run_cycle()
    assert schedules.runs("status") == ["sent", "sent"]  # the person is reminded of it
    assert (await sentence_about(schedules, second)).endswith(f". Note: {note}.")


@pytest.mark.usefixtures("too_coarse")
async def test_firings_of_one_plan_in_the_same_period_get_separate_runs(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:30:00+00:00")
    await schedules.create(rule=DAILY, advance_minutes=2 * 1440)
    await schedules.plan()
    assert schedules.runs("period_key") == ["2026-11", "2026-11-17T10:00Z", "2026-11-18T10:00Z"]


@pytest.mark.usefixtures("too_coarse")
async def test_a_missed_run_has_its_reason_before_its_note(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-18T10:30:00+00:00")
    await schedules.create(rule=DAILY, first_run_at=SIXTEENTH, catch_up="latest")
    await schedules.run_cycle()
    _, (status, reason), _ = schedules.runs("status", "reason")
    assert status == "skipped"
    assert reason.startswith("SUPERSEDED; period key 2026-11 belongs to run ")


@pytest.mark.usefixtures("too_coarse")
async def test_planning_again_creates_no_new_run(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:30:00+00:00")
    schedule = await schedules.create(rule=DAILY)
    await schedules.run_cycle()
    schedules.advance_clock(hours=25)
    await schedules.run_cycle()
    before = schedules.runs("id", "period_key", "reason")
    schedules.admin.execute("update scheduler.job_plans set planned_until = null, plan_at = duly.now()")
    await schedules.plan()
    assert schedules.runs("id", "period_key", "reason") == before
    await service.set_schedule_status(schedules.api, schedule.user_id, schedule.id, ScheduleStatus.PAUSED)
    await service.set_schedule_status(schedules.api, schedule.user_id, schedule.id, ScheduleStatus.ACTIVE)
    await schedules.plan()
    assert schedules.runs("id", "period_key", "reason") == before


async def test_crossing_the_date_line_repeats_a_day_and_its_reminder(
    schedules: ScheduleActions,
) -> None:
    """10:00 occurs again a day later, and both days are the 17th."""
    schedules.set_clock("2026-11-16T20:30:00+00:00")
    schedules.add_user("anna", zone="Pacific/Apia")
    await schedules.create(rule=DAILY)
    await schedules.run_cycle()
    schedules.advance_clock(hours=1)
    await schedules.run_cycle()
    schedules.admin.execute("update duly.person set zone = 'Pacific/Pago_Pago'")
    schedules.advance_clock(hours=24)
    await schedules.run_cycle()
    assert schedules.run_times() == ["2026-11-16 21:00", "2026-11-17 21:00"]
    assert schedules.runs("period_key") == ["2026-11-17", "2026-11-17T21:00Z"]
    _, second = schedules.runs("id")
    assert "period key 2026-11-17 belongs to run" in await sentence_about(schedules, second)


async def test_a_rule_that_is_changed_within_a_period_has_one_run_in_it(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:30:00+00:00")
    schedule = await schedules.create(rule="cron: 0 10 16 * *")
    await schedules.run_cycle()
    schedules.advance_clock(hours=1)
    await schedules.run_cycle()
    await service.change_schedule(schedules.api, schedule.user_id, schedule.id, {"rule": "cron: 0 10 20 * *"})
    schedules.set_clock("2026-11-20T10:30:00+00:00")
    await schedules.run_cycle()
    assert schedules.runs("period_key", "reason") == [("2026-11", None)]
    schedules.set_clock("2026-12-20T10:30:00+00:00")
    await schedules.run_cycle()
    assert schedules.runs("period_key", "reason") == [("2026-11", None), ("2026-12", None)]


async def test_a_user_who_changes_zone_is_reminded_once_a_day(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T08:30:00+00:00")
    schedules.add_user("anna", zone="Europe/Stockholm")
    await schedules.create(rule=DAILY)
    await schedules.run_cycle()
    schedules.advance_clock(hours=1)
    await schedules.run_cycle()
    schedules.admin.execute("update duly.person set zone = 'America/New_York'")
    schedules.advance_clock(hours=6)
    await schedules.run_cycle()
    assert schedules.runs("period_key", "reason") == [("2026-11-16", None)]


async def test_manually_inserted_run_is_the_run_of_its_period(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:30:00+00:00")
    schedule = await schedules.create(rule=DAILY)
    schedules.one("select job_run_id from scheduler.ensure_run(%s, '2026-11-16', '2026-11-16 08:00+00')", schedule.id)
    await schedules.run_cycle()
    assert schedules.runs("period_key", "reason") == [("2026-11-16", None)]
