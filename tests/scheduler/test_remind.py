"""Reminders: when they are due, what they say, what is missed, and when nobody is written to."""

from datetime import UTC, datetime, time
from typing import Any

import pytest

from duly.scheduler import service
from duly.scheduler.model import CatchUp, DueRun, Status
from duly.scheduler.reminder import payload_of
from tests.scheduler.hands import MONTHLY, Hands

HOURLY = "cron: 0 * * * *"
DAILY = "cron: 0 10 * * *"
TEN = datetime(2026, 11, 16, 10, tzinfo=UTC)


def messages(hands: Hands, columns: str = "status") -> list[Any]:
    """What is in the outbox, in the order it came."""
    return hands.all(f"select {columns} from duly.outbox where kind = 'reminder.due' order by created_at, id")


async def test_a_reminder_comes_when_it_is_due_and_not_before(hands: Hands) -> None:
    hands.set_clock("2026-11-16T09:30:00+00:00")
    await hands.add(rule=DAILY, advance_minutes=15, description="for the flat")
    await hands.turn()
    hands.set_clock("2026-11-16T09:44:50+00:00")
    await hands.turn()
    assert (hands.runs(), messages(hands)) == (["pending"], [])
    hands.set_clock("2026-11-16T09:45:00+00:00")
    await hands.turn()
    assert (hands.runs(), messages(hands)) == (["sent"], ["sent"])
    await hands.turn()
    assert messages(hands) == ["sent"]
    (payload,) = messages(hands, "payload")
    assert payload["text"] == "Rent\nfor the flat\nDue 2026-11-16 10:00 (UTC)"
    assert [button["action"] for button in payload["buttons"]] == ["complete", "skip", "snooze", "snooze", "cancel"]
    assert messages(hands, "channel, recipient") == [("telegram", "anna")]


async def test_what_was_sent_is_noted_with_its_run(hands: Hands) -> None:
    hands.set_clock("2026-11-16T10:00:01+00:00")
    schedule = await hands.add(rule=DAILY, first_run_at=TEN)
    await hands.plan()
    await hands.remind()
    assert hands.runs("status, sent_at is null, remind_at is null, reminder_id is not null") == [
        ("pending", True, True, True)
    ]
    hands.send()
    run = await service.get_run(hands.api, schedule.user_id, hands.run())
    assert run.sent_at is not None
    (reminder,) = await service.list_reminders(hands.api, schedule.user_id, run.id)
    assert reminder.payload["channel"] == "telegram"
    assert reminder.payload["message_id"] == str(messages(hands, "id")[0])
    assert reminder.payload["text"].startswith("Rent\n")
    assert len(reminder.payload["buttons"]) == 5
    assert hands.path(run.id) == ["pending", "sent"]


@pytest.mark.parametrize(
    ("catch_up", "statuses"),
    [
        (CatchUp.LATEST, ["skipped", "skipped", "skipped", "sent"]),
        (CatchUp.ALL, ["sent", "sent", "sent", "sent"]),
        (CatchUp.NONE, ["skipped", "skipped", "skipped", "skipped"]),
    ],
)
@pytest.mark.parametrize("was_planned", [True, False])
async def test_what_was_missed_is_caught_up_or_accounted_for(
    catch_up: CatchUp, statuses: list[str], was_planned: bool, hands: Hands
) -> None:
    hands.set_clock("2026-11-16T09:30:00+00:00")
    await hands.add(rule=HOURLY, catch_up=catch_up, advance_minutes=240 if was_planned else 0)
    if was_planned:
        await hands.plan()  # and then everything stood still
    hands.set_clock("2026-11-16T13:30:00+00:00")
    await hands.turn()
    found = hands.runs("status, reason, scheduled_at <= duly.now()")
    past = [(status, reason) for status, reason, is_past in found if is_past]
    assert [status for status, _ in past] == statuses
    assert all((reason or "").startswith("missed: ") == (status == "skipped") for status, reason in past)


async def test_missed_periods_of_a_year_are_accounted_for_one_by_one(hands: Hands) -> None:
    hands.set_clock("2026-11-16T09:30:00+00:00")
    await hands.add(rule=DAILY)
    hands.set_clock("2027-11-16T10:30:00+00:00")
    await hands.turn()
    assert hands.one("select count(*) from scheduler.job_runs where status = 'skipped'") == 365
    assert hands.one("select count(*) from scheduler.job_runs where status = 'sent'") == 1
    assert len(messages(hands)) == 1


async def test_catching_up_with_all_has_an_end(hands: Hands) -> None:
    hands.set_clock("2026-11-16T09:59:30+00:00")
    await hands.add(rule="cron: * * * * *", catch_up=CatchUp.ALL)
    hands.set_clock("2026-11-16T12:59:30+00:00")
    await hands.turn()
    assert hands.runs().count("sent") == 100
    assert hands.runs().count("skipped") == 80


async def test_nobody_is_written_to_in_their_quiet_hours(hands: Hands) -> None:
    hands.set_clock("2026-11-16T22:00:01+00:00")
    hands.know("anna", zone="Europe/Stockholm", quiet_from=time(22), quiet_until=time(7))
    await hands.add(rule="cron: CRON_TZ=UTC 0 22 * * *", first_run_at=datetime(2026, 11, 16, 22, tzinfo=UTC))
    await hands.turn()
    assert (hands.runs(), messages(hands)) == (["pending"], ["pending"])
    assert str(messages(hands, "due_at")[0]) == "2026-11-17 06:00:00+00:00"  # seven in Stockholm
    hands.set_clock("2026-11-17T06:00:01+00:00")
    hands.send()
    assert hands.runs() == ["sent"]


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
def test_quiet_hours_end_in_the_persons_own_time(
    quiet: tuple[str, str], at: str, until: str | None, hands: Hands
) -> None:
    asked = """select "user".after_quiet(%s::timestamptz, 'Europe/Stockholm', %s, %s)"""
    told = hands.one(asked, at, *quiet)
    assert told == hands.one("select %s::timestamptz", until or at)


async def test_a_snoozed_run_comes_back(hands: Hands) -> None:
    hands.set_clock("2026-11-16T10:00:01+00:00")
    await hands.add(rule=MONTHLY.replace(" 1 ", " 16 "), first_run_at=TEN)
    await hands.turn()
    run = hands.run()
    await hands.answer(run, "snooze", "a")
    assert hands.runs() == ["snoozed"]
    hands.pass_time(minutes=59)
    await hands.turn()
    assert hands.runs() == ["snoozed"]
    hands.pass_time(minutes=2)
    await hands.turn()
    assert hands.runs() == ["sent"]
    await hands.answer(run, "snooze", "b", minutes=1440)
    hands.pass_time(hours=23)
    await hands.turn()
    assert hands.runs() == ["snoozed"]
    hands.pass_time(hours=2)
    await hands.turn()
    assert hands.path(run) == ["pending", "sent", "snoozed", "sent", "snoozed", "sent"]
    assert messages(hands) == ["sent"] * 3


async def test_an_answer_withdraws_the_message_that_waits(hands: Hands) -> None:
    hands.set_clock("2026-11-16T10:00:01+00:00")
    await hands.add(rule=DAILY, first_run_at=TEN)
    await hands.plan()
    await hands.remind()
    await hands.answer(hands.run())
    assert messages(hands, "status, last_error") == [("failed", "it was answered before it was sent")]
    assert (hands.send(), hands.runs()) == (0, ["confirmed"])


async def test_a_message_that_goes_out_after_the_answer_moves_nothing(hands: Hands) -> None:
    hands.set_clock("2026-11-16T10:00:01+00:00")
    await hands.add(rule=DAILY, first_run_at=TEN)
    await hands.plan()
    await hands.remind()
    with hands.admin.transaction():
        hands.admin.execute(
            "update duly.outbox set status = 'sending', starts = 1, lease_owner = 'x/1',"
            " lease_expires_at = duly.clock()"
        )
    await hands.answer(hands.run(), "skip")
    hands.send()
    assert hands.runs() == ["skipped"]
    assert hands.one("select count(*) from scheduler.reminders") == 1


async def test_a_paused_schedules_snoozed_run_still_comes_back(hands: Hands) -> None:
    hands.set_clock("2026-11-16T10:00:01+00:00")
    schedule = await hands.add(rule=DAILY, first_run_at=TEN)
    await hands.turn()
    await hands.answer(hands.run(), "snooze")
    await service.move_schedule(hands.api, schedule.user_id, schedule.id, Status.PAUSED)
    hands.pass_time(hours=1, seconds=1)
    await hands.turn()
    assert hands.runs() == ["sent"]


@pytest.mark.parametrize(
    ("language", "words"), [("en", "Due "), ("zh", "计划时间"), ("sv", "Ska göras"), ("xx", "Due ")]
)
def test_a_reminder_speaks_the_persons_language(language: str, words: str) -> None:
    run = DueRun(
        id=7,
        job_id=3,
        scheduled_at=TEN,
        remind_at=TEN,
        period_key="2026-11",
        name="YouTube",
        description=None,
        channel="console",
        uid="anna",
        zone="Asia/Shanghai",
        language=language,
        tell_at=TEN,
        skipped=None,
        expense={"amount": "9.99", "currency": "EUR"},
    )
    payload = payload_of(run)
    assert words in payload["text"]
    assert "2026-11-16 18:00 (Asia/Shanghai)" in payload["text"]
    assert "9.99 EUR" in payload["text"]
    assert payload["buttons"][2] == {
        "action": "snooze",
        "label": payload["buttons"][2]["label"],
        "key": f"7:{int(TEN.timestamp())}:snooze:60",
        "payload": {"minutes": 60},
    }
