"""Reminders: when they are due, their text, missed runs, quiet hours and unconfigured channels."""

from datetime import UTC, datetime, time
from typing import Any

import pytest

from duly.apps.scheduler import service
from duly.apps.scheduler.model import CatchUp, DueRun, ScheduleStatus
from duly.apps.scheduler.reasons import ClosingReason
from duly.apps.scheduler.reminder import reminder_payload
from duly.lease.work import Tuning
from duly.outbox.sender import SendWork
from duly.outbox.states import OUTBOX
from tests.support.scheduler.actions import MONTHLY, ScheduleActions

HOURLY = "cron: 0 * * * *"
DAILY = "cron: 0 10 * * *"
TEN = datetime(2026, 11, 16, 10, tzinfo=UTC)


def reminders(schedules: ScheduleActions, *columns: str) -> list[Any]:
    """Return these columns of every reminder in the outbox, in their order; of one column, its values."""
    source = "duly.outbox where kind = 'reminder.due' order by created_at, id"
    statement = f"select {', '.join(columns)} from {source}"
    return schedules.values(statement) if len(columns) == 1 else schedules.rows(statement)


async def test_reminder_is_sent_when_due_and_not_before(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:30:00+00:00")
    await schedules.create(rule=DAILY, advance_minutes=15, description="for the flat")
    await schedules.run_cycle()
    schedules.set_clock("2026-11-16T09:44:50+00:00")
    await schedules.run_cycle()
    assert (schedules.runs("status"), reminders(schedules, "status")) == (["pending"], [])
    schedules.set_clock("2026-11-16T09:45:00+00:00")
    await schedules.run_cycle()
    assert (schedules.runs("status"), reminders(schedules, "status")) == (["sent"], ["sent"])
    await schedules.run_cycle()
    assert reminders(schedules, "status") == ["sent"]
    (payload,) = reminders(schedules, "payload")
    assert payload["text"] == "Rent\nfor the flat\nDue 2026-11-16 10:00 (UTC)"
    assert [button["action"] for button in payload["buttons"]] == ["complete", "skip", "snooze", "snooze", "cancel"]
    assert reminders(schedules, "channel", "recipient") == [("telegram", "anna")]


async def test_a_sent_reminder_is_recorded_with_its_run(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T10:00:01+00:00")
    schedule = await schedules.create(rule=DAILY, first_run_at=TEN)
    await schedules.plan()
    await schedules.remind()
    assert schedules.runs("status", "sent_at is null", "remind_at is null", "message_id is not null") == [
        ("pending", True, True, True)
    ]
    schedules.send()
    run = await service.get_run(schedules.api, schedule.user_id, schedules.run_id())
    assert run.sent_at is not None
    (reminder,) = await service.list_reminders(schedules.api, schedule.user_id, run.id)
    assert reminder.payload["channel"] == "telegram"
    assert reminder.payload["message_id"] == str(reminders(schedules, "id")[0])
    assert reminder.payload["text"].startswith("Rent\n")
    assert len(reminder.payload["buttons"]) == 5
    assert schedules.path(run.id) == ["pending", "sent"]


@pytest.mark.parametrize(
    ("catch_up", "statuses"),
    [
        (CatchUp.LATEST, ["skipped", "skipped", "skipped", "sent"]),
        (CatchUp.ALL, ["sent", "sent", "sent", "sent"]),
        (CatchUp.NONE, ["skipped", "skipped", "skipped", "skipped"]),
    ],
)
@pytest.mark.parametrize("was_planned", [True, False])
async def test_missed_runs_are_caught_up_or_skipped(
    catch_up: CatchUp, statuses: list[str], was_planned: bool, schedules: ScheduleActions
) -> None:
    schedules.set_clock("2026-11-16T09:30:00+00:00")
    await schedules.create(rule=HOURLY, catch_up=catch_up, advance_minutes=240 if was_planned else 0)
    if was_planned:
        await schedules.plan()  # and then everything stood still
    schedules.set_clock("2026-11-16T13:30:00+00:00")
    await schedules.run_cycle()
    found = schedules.runs("status", "reason", "scheduled_at <= duly.now()")
    past = [(status, reason) for status, reason, is_past in found if is_past]
    assert [status for status, _ in past] == statuses
    assert all((reason in set(ClosingReason)) == (status == "skipped") for status, reason in past)


async def test_missed_periods_of_a_year_are_accounted_for_one_by_one(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:30:00+00:00")
    schedule = await schedules.create(rule=DAILY)
    schedules.set_clock("2027-11-16T10:30:00+00:00")
    await schedules.run_cycle()
    assert schedules.one("select count(*) from scheduler.job_runs where status = 'skipped'") == 99
    page = await service.list_missed(schedules.api, schedule.user_id, schedule.id, limit=1000)
    assert len(page.items) == 365 - 99  # of very many the earlier ones have no row, and are named all the same
    assert schedules.one("select count(*) from scheduler.job_runs where status = 'sent'") == 1
    assert len(reminders(schedules, "status")) == 1


async def test_catching_up_on_all_is_limited(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:59:30+00:00")
    schedule = await schedules.create(rule="cron: * * * * *", catch_up=CatchUp.ALL)
    schedules.set_clock("2026-11-16T12:59:30+00:00")
    await schedules.run_cycle()
    assert schedules.runs("status").count("sent") == 100
    assert schedules.runs("status").count("skipped") == 0
    page = await service.list_missed(schedules.api, schedule.user_id, schedule.id)
    assert len(page.items) == 80


async def test_no_reminder_is_sent_in_quiet_hours(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T22:00:01+00:00")
    schedules.add_user("anna", zone="Europe/Stockholm", quiet_from=time(22), quiet_until=time(7))
    await schedules.create(rule="cron: CRON_TZ=UTC 0 22 * * *", first_run_at=datetime(2026, 11, 16, 22, tzinfo=UTC))
    await schedules.run_cycle()
    assert (schedules.runs("status"), reminders(schedules, "status")) == (["pending"], ["pending"])
    assert str(reminders(schedules, "due_at")[0]) == "2026-11-17 06:00:00+00:00"  # seven in Stockholm
    schedules.set_clock("2026-11-17T06:00:01+00:00")
    schedules.send()
    assert schedules.runs("status") == ["sent"]


@pytest.mark.parametrize(
    ("quiet", "at", "until"),
    [
        (("22:00", "07:00"), "2026-11-16 20:59+01", None),
        (("22:00", "07:00"), "2026-11-16 22:00+01", "2026-11-17 07:00+01"),
        (("22:00", "07:00"), "2026-11-17 06:59+01", "2026-11-17 07:00+01"),
        (("22:00", "07:00"), "2026-11-17 07:00+01", None),
        (("12:00", "13:30"), "2026-11-17 12:10+01", "2026-11-17 13:30+01"),
        (("12:00", "13:30"), "2026-11-17 13:30+01", None),
        (("01:00", "02:30"), "2026-03-29 01:30+01", "2026-03-29 03:30+02"),  # there is no half past two that night
        (("22:00", "07:00"), "2026-10-24 23:00+02", "2026-10-25 07:00+01"),
    ],
)
def test_quiet_hours_end_in_the_users_time_zone(
    quiet: tuple[str, str], at: str, until: str | None, schedules: ScheduleActions
) -> None:
    query = """select duly.after_quiet(%s::timestamptz, 'Europe/Stockholm', %s, %s)"""
    found = schedules.one(query, at, *quiet)
    assert found == schedules.one("select %s::timestamptz", until or at)


async def test_snoozed_run_sends_another_reminder(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T10:00:01+00:00")
    await schedules.create(rule=MONTHLY.replace(" 1 ", " 16 "), first_run_at=TEN)
    await schedules.run_cycle()
    run = schedules.run_id()
    await schedules.answer(run, "snooze", "a")
    assert schedules.runs("status") == ["snoozed"]
    schedules.advance_clock(minutes=59)
    await schedules.run_cycle()
    assert schedules.runs("status") == ["snoozed"]
    schedules.advance_clock(minutes=2)
    await schedules.run_cycle()
    assert schedules.runs("status") == ["sent"]
    await schedules.answer(run, "snooze", "b", minutes=1440)
    schedules.advance_clock(hours=23)
    await schedules.run_cycle()
    assert schedules.runs("status") == ["snoozed"]
    schedules.advance_clock(hours=2)
    await schedules.run_cycle()
    assert schedules.path(run) == ["pending", "sent", "snoozed", "sent", "snoozed", "sent"]
    assert reminders(schedules, "status") == ["sent"] * 3


async def test_run_snoozed_while_its_message_is_being_sent_is_reminded_of_again(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T10:00:01+00:00")
    await schedules.create(rule=MONTHLY.replace(" 1 ", " 16 "), first_run_at=TEN)
    await schedules.run_cycle()
    run = schedules.run_id()
    await schedules.answer(run, "snooze", "a")
    schedules.advance_clock(hours=1, seconds=1)
    await schedules.remind()
    schedules.start_sending()
    await schedules.answer(run, "snooze", "b", minutes=1440)
    schedules.finish_sending()
    assert schedules.runs("status", "remind_at is not null") == [("snoozed", True)]
    assert schedules.one("select count(*) from scheduler.reminders") == 2
    schedules.advance_clock(days=1, seconds=1)
    await schedules.run_cycle()
    assert schedules.runs("status") == ["sent"]
    assert schedules.one("select count(*) from scheduler.reminders") == 3


async def test_answer_withdraws_the_unsent_message(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T10:00:01+00:00")
    await schedules.create(rule=DAILY, first_run_at=TEN)
    await schedules.plan()
    await schedules.remind()
    await schedules.answer(schedules.run_id())
    assert reminders(schedules, "status", "last_error") == [("failed", "it was answered before it was sent")]
    assert (schedules.send(), schedules.runs("status")) == (0, ["confirmed"])


async def test_a_message_sent_after_the_answer_changes_nothing(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T10:00:01+00:00")
    await schedules.create(rule=DAILY, first_run_at=TEN)
    await schedules.plan()
    await schedules.remind()
    schedules.start_sending()
    await schedules.answer(schedules.run_id(), "skip")
    schedules.finish_sending()
    assert schedules.runs("status") == ["skipped"]
    assert schedules.one("select count(*) from scheduler.reminders") == 1


async def test_snoozed_run_of_a_paused_schedule_sends_its_reminder(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T10:00:01+00:00")
    schedule = await schedules.create(rule=DAILY, first_run_at=TEN)
    await schedules.run_cycle()
    await schedules.answer(schedules.run_id(), "snooze")
    await service.set_schedule_status(schedules.api, schedule.user_id, schedule.id, ScheduleStatus.PAUSED)
    schedules.advance_clock(hours=1, seconds=1)
    await schedules.run_cycle()
    assert schedules.runs("status") == ["sent"]


async def test_run_fired_by_hand_is_reminded_of_although_its_schedule_is_paused(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:30:00+00:00")
    schedule = await schedules.create(rule=HOURLY)
    await schedules.plan()
    await service.set_schedule_status(schedules.api, schedule.user_id, schedule.id, ScheduleStatus.PAUSED)
    schedules.set_clock("2026-11-18T12:30:00+00:00")  # long after the firing that the plan has next
    await service.fire_schedule(schedules.api, schedule.user_id, schedule.id)
    await schedules.run_cycle()
    assert schedules.runs("status") == ["sent"]
    await schedules.answer(schedules.run_id())
    assert schedules.runs("status") == ["confirmed"]


async def test_run_that_was_due_before_a_pause_is_reminded_of_during_it(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:30:00+00:00")
    schedule = await schedules.create(rule=HOURLY)
    await schedules.plan()
    schedules.set_clock("2026-11-16T10:05:00+00:00")  # no worker reminds
    await service.set_schedule_status(schedules.api, schedule.user_id, schedule.id, ScheduleStatus.PAUSED)
    schedules.set_clock("2026-11-16T13:30:00+00:00")
    await schedules.run_cycle()
    assert schedules.runs("to_char(scheduled_at, 'HH24:MI')", "status") == [("10:00", "sent")]


@pytest.mark.parametrize(
    ("language", "expected"), [("en", "Due "), ("zh", "计划时间"), ("sv", "Ska göras"), ("xx", "Due ")]
)
def test_reminder_is_in_the_users_language(language: str, expected: str) -> None:
    run = DueRun(
        id=7,
        schedule_id=3,
        scheduled_at=TEN,
        remind_at=TEN,
        period_key="2026-11",
        name="YouTube",
        description=None,
        channel="console",
        uid="anna",
        zone="Asia/Shanghai",
        language=language,
        send_at=TEN,
        missed_reason=None,
        expense={"amount": "9.99", "currency": "EUR"},
    )
    payload = reminder_payload(run)
    assert expected in payload["text"]
    assert "2026-11-16 18:00 (Asia/Shanghai)" in payload["text"]
    assert "9.99 EUR" in payload["text"]
    assert payload["buttons"][2] == {
        "action": "snooze",
        "label": payload["buttons"][2]["label"],
        "key": f"7:{int(TEN.timestamp())}:snooze:60",
        "payload": {"minutes": 60},
    }


# A channel that is not configured -------------------------------------------------------------------------------------


async def remind_unconfigured(schedules: ScheduleActions) -> None:
    """Plan, remind, and sweep with a sender whose channels for people lack a setting."""
    await schedules.plan()
    await schedules.remind()
    unconfigured = {"telegram": "TELEGRAM_BOT_TOKEN is not set", "apprise": "its extra is not installed"}
    sender = SendWork("outbox", OUTBOX, {}, Tuning(), unconfigured=unconfigured)
    async with schedules.worker.transaction():
        await sender.sweep(schedules.worker)


@pytest.mark.parametrize(("channel", "other"), [("telegram", None), ("telegram", "console"), ("apprise", "console")])
async def test_a_waiting_message_fails_when_a_later_run_is_due(
    channel: str, other: str | None, schedules: ScheduleActions
) -> None:
    schedules.set_clock("2026-11-16T10:00:01+00:00")
    schedule = await schedules.create(rule=DAILY, first_run_at=TEN, channel=channel)
    await remind_unconfigured(schedules)
    if other:
        schedules.admin.execute("update scheduler.jobs set channel = %s", [other])
    schedules.set_clock("2026-11-17T10:00:01+00:00")
    await remind_unconfigured(schedules)
    assert schedules.runs("status", "reason") == [
        ("skipped", "SUPERSEDED"),
        ("pending", None),
    ]
    first, second = reminders(schedules, "status", "last_error")
    assert first == ("failed", "SUPERSEDED")
    assert second[0] == "pending"
    assert (await service.get_schedule(schedules.api, schedule.user_id, schedule.id)).status is ScheduleStatus.ACTIVE


async def test_a_waiting_message_fails_when_its_run_is_answered(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T10:00:01+00:00")
    await schedules.create(rule=DAILY, first_run_at=TEN)
    await remind_unconfigured(schedules)
    await schedules.answer(schedules.run_id(), "complete")
    assert reminders(schedules, "status", "last_error") == [("failed", "it was answered before it was sent")]


async def test_a_schedule_that_catches_up_on_all_keeps_its_waiting_messages(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T10:00:01+00:00")
    await schedules.create(rule=DAILY, first_run_at=TEN, catch_up=CatchUp.ALL)
    await remind_unconfigured(schedules)
    schedules.set_clock("2026-11-17T10:00:01+00:00")
    await remind_unconfigured(schedules)
    assert reminders(schedules, "status") == ["pending", "pending"]


async def test_a_message_that_waits_for_another_reason_is_not_superseded(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T10:00:01+00:00")
    await schedules.create(rule=DAILY, first_run_at=TEN)
    await schedules.plan()
    await schedules.remind()
    schedules.set_clock("2026-11-17T10:00:01+00:00")
    await schedules.plan()
    await schedules.remind()
    assert reminders(schedules, "status") == ["pending", "pending"]
