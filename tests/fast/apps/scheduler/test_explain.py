"""Why a run is where it is: each cause, and its one true sentence."""

from collections.abc import Callable
from datetime import UTC, datetime, time

import pytest

from duly.apps.scheduler import service
from duly.apps.scheduler.explain import CAUSES, Reason, explain
from duly.apps.scheduler.model import Status
from duly.errors import NotFound
from duly.outbox.repository import claim_messages
from duly.outbox.states import OUTBOX
from tests.support.scheduler.actions import ScheduleActions

TEN = datetime(2026, 11, 16, 10, tzinfo=UTC)
WORKER = (
    "insert into duly.workers (id, worker_id, host, pid, version, kinds, slots)"
    " values (gen_random_uuid(), 'w', 'h', 1, '1', %s, '{\"outbox\": 2, \"scheduler\": 2}')"
)
TRIED = "status = 'sending', starts = 1, lease_owner = 'x/1', lease_expires_at = duly.clock() + interval '1 min'"
FREED = "lease_owner = null, lease_expires_at = null"


async def told(schedules: ScheduleActions) -> tuple[Reason, str]:
    """The reason and the sentence about the first run."""
    found = await explain(schedules.api, None, schedules.runs("id")[0])
    return found.reason, found.sentence


async def written(schedules: ScheduleActions, **person: object) -> None:
    """A run whose message is written."""
    schedules.set_clock("2026-11-16T10:00:01+00:00")
    schedules.add_user("anna", **person)
    await schedules.create(rule="cron: 0 10 * * *", first_run_at=TEN)
    await schedules.plan()
    await schedules.remind()


async def test_a_run_that_waits_for_its_time(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:30:00+00:00")
    await schedules.create(rule="cron: 0 10 * * *")
    await schedules.plan()
    assert (await told(schedules))[0] is Reason.WAITS
    assert "The person is reminded at 2026-11-16 10:00" in (await told(schedules))[1]


async def test_a_run_that_is_due_and_nobody_is_there(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T10:00:01+00:00")
    await schedules.create(rule="cron: 0 10 * * *", first_run_at=TEN)
    await schedules.plan()
    reason, sentence = await told(schedules)
    assert (reason, "duly worker --only scheduler,outbox" in sentence) == (Reason.NO_WORKER, True)
    schedules.admin.execute(WORKER, [["scheduler"]])
    assert (await told(schedules))[0] is Reason.DUE


async def test_a_message_that_nobody_sends(schedules: ScheduleActions) -> None:
    await written(schedules)
    assert (await told(schedules))[0] is Reason.NO_SENDER
    schedules.admin.execute(WORKER, [["outbox"]])
    assert (await told(schedules))[0] is Reason.TO_BE_SENT


@pytest.mark.lawless
@pytest.mark.parametrize(
    ("move", "reason", "words"),
    [
        ([TRIED], Reason.BEING_SENT, "x/1 is sending its message this moment"),
        ([TRIED, f"status = 'failed', last_error = 'blocked', {FREED}"], Reason.MESSAGE_FAILED, "blocked; when that"),
        (
            [TRIED, f"status = 'uncertain', called_at = now(), last_error = 'lost', {FREED}"],
            Reason.MESSAGE_UNCERTAIN,
            "nobody knows: lost",
        ),
        (
            [TRIED, f"status = 'pending', last_error = 'busy', due_at = duly.clock() + interval '1 h', {FREED}"],
            Reason.TRIED_AGAIN,
            "tried 1 time, the last time: busy",
        ),
        (
            ["is_in_line = true, due_at = duly.clock() + interval '1 min'"],
            Reason.IN_LINE,
            "waited behind an earlier one to the same person, which is out of the way: it is sent at 2026-11-16 10:01",
        ),
        (
            ["last_error = 'CHANNEL_NOT_CONFIGURED: TELEGRAM_BOT_TOKEN is not set'"],
            Reason.NOT_CONFIGURED,
            "TELEGRAM_BOT_TOKEN is not set; it is sent when that is set, and fails at 2026-11-23 10:00",
        ),
    ],
)
async def test_what_became_of_its_message(
    move: list[str], reason: Reason, words: str, schedules: ScheduleActions
) -> None:
    await written(schedules)
    schedules.admin.execute(WORKER, [["outbox"]])
    for each in move:
        schedules.admin.execute(f"update duly.outbox set {each}".encode())
    found, sentence = await told(schedules)
    assert found is reason
    assert words in sentence


async def test_quiet_hours(schedules: ScheduleActions) -> None:
    await written(schedules, quiet_from=time(9), quiet_until=time(12))
    schedules.admin.execute(WORKER, [["outbox"]])
    assert (await told(schedules))[0] is Reason.QUIET
    assert "quiet hours, and is sent at 2026-11-16 12:00" in (await told(schedules))[1]


async def answered(schedules: ScheduleActions) -> None:
    """It was answered."""
    await schedules.answer(schedules.run_id(), "skip")


async def archived(schedules: ScheduleActions) -> None:
    """Its schedule is archived."""
    (schedule,) = (await service.list_schedules(schedules.api, None)).items
    await service.move_schedule(schedules.api, None, schedule.id, Status.ARCHIVED)


async def snoozed(schedules: ScheduleActions) -> None:
    """It was snoozed."""
    await schedules.answer(schedules.run_id(), "snooze")


async def nothing(_: ScheduleActions) -> None:
    """Nothing more happened."""


@pytest.mark.parametrize(
    ("act", "reason", "words"),
    [
        (nothing, Reason.WAITS_FOR_ANSWER, "was told at 2026-11-16 10:00"),
        (answered, Reason.ANSWERED, "answered with skip at"),
        (archived, Reason.CLOSED, "without an answer: the schedule was archived"),
        (snoozed, Reason.WAITS, "It was snoozed: the person is reminded at"),
    ],
)
async def test_a_run_that_was_sent(
    act: Callable[[ScheduleActions], object], reason: Reason, words: str, schedules: ScheduleActions
) -> None:
    await written(schedules)
    schedules.send()
    await act(schedules)  # type: ignore[misc]
    found, sentence = await told(schedules)
    assert found is reason
    assert words in sentence


async def test_somebody_elses_run_is_not_there(schedules: ScheduleActions) -> None:
    await written(schedules)
    with pytest.raises(NotFound):
        await explain(schedules.api, schedules.add_user("bo"), schedules.run_id())


# What was once told wrongly -------------------------------------------------------------------------------------------


async def test_a_locked_run_is_told_as_locked(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T10:00:01+00:00")
    await schedules.create(rule="cron: 0 10 * * *", first_run_at=TEN)
    await schedules.plan()
    schedules.admin.execute(WORKER, [["scheduler"]])
    with schedules.admin.transaction():
        schedules.admin.execute("select from scheduler.job_runs for share")
        reason, sentence = await told(schedules)
        assert (reason, "another transaction has its row locked" in sentence) == (Reason.LOCKED, True)
        assert await schedules.remind() == 0
    assert (await told(schedules))[0] is Reason.DUE
    assert await schedules.remind() == 1


async def test_a_locked_message_is_told_as_locked(schedules: ScheduleActions) -> None:
    await written(schedules)
    schedules.admin.execute(WORKER, [["outbox"]])
    with schedules.admin.transaction():
        schedules.admin.execute("select from duly.outbox for share")
        reason, sentence = await told(schedules)
        assert (reason, "another transaction has its row locked" in sentence) == (Reason.MESSAGE_LOCKED, True)
        assert await take_message(schedules) is None
    assert (await told(schedules))[0] is Reason.TO_BE_SENT
    assert await take_message(schedules) is not None


async def take_message(schedules: ScheduleActions) -> object:
    """Claim as a sender with one free slot does; the id of the message."""
    held = await claim_messages(schedules.worker, OUTBOX, "w", ["telegram", "console"], lease_seconds=60, limit=1)
    return held[0].key if held else None


async def test_a_message_whose_sender_is_dead_is_not_being_sent(schedules: ScheduleActions) -> None:
    await written(schedules)
    await take_message(schedules)
    schedules.admin.execute(WORKER, [["outbox"]])
    assert (await told(schedules))[0] is Reason.BEING_SENT
    schedules.advance_clock(hours=1)
    reason, sentence = await told(schedules)
    assert reason is Reason.SENDER_EXPIRED
    assert sentence.startswith("w was sending its message, and its lease ended at 2026-11-16 10:01")
    assert sentence.endswith("; no worker is alive that sends; start one: duly worker --only outbox.")
    schedules.admin.execute(WORKER, [["outbox"]])
    assert "it waits again" in (await told(schedules))[1]
    schedules.admin.execute("update duly.outbox set called_at = duly.clock()")
    assert "it is uncertain whether it arrived" in (await told(schedules))[1]


async def test_a_message_whose_sender_said_goodbye_is_not_being_sent(schedules: ScheduleActions) -> None:
    await written(schedules)
    schedules.admin.execute(WORKER, [["outbox"]])
    await take_message(schedules)
    schedules.admin.execute("update duly.workers set stopped_at = duly.clock()")
    reason, sentence = await told(schedules)
    assert (reason, sentence.startswith("Its message: w holds it until")) == (Reason.SENDER_GONE, True)


async def test_who_was_told_again_after_a_snooze_was_told_at_the_later_time(schedules: ScheduleActions) -> None:
    await written(schedules)
    schedules.send()
    await schedules.answer(schedules.run_id(), "snooze", minutes=120)
    schedules.set_clock("2026-11-16T12:00:05+00:00")
    await schedules.remind()
    schedules.send()
    reason, sentence = await told(schedules)
    assert reason is Reason.WAITS_FOR_ANSWER
    assert sentence.startswith("The person was told again at 2026-11-16 12:00:0")
    assert ", after snooze at 2026-11-16 10:00:0" in sentence
    assert sentence.endswith(", and has not answered since.")


async def test_a_run_that_was_snoozed_and_then_archived_ended_without_an_answer(schedules: ScheduleActions) -> None:
    await written(schedules)
    schedules.send()
    await snoozed(schedules)
    await archived(schedules)
    reason, sentence = await told(schedules)
    assert (reason, "without an answer since it was snoozed at" in sentence) == (Reason.CLOSED, True)


async def test_a_run_that_waits_says_when_nobody_is_there_to_remind(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:30:00+00:00")
    await schedules.create(rule="cron: 0 10 * * *")
    await schedules.plan()
    assert "; so far no worker is alive that writes reminders; start one" in (await told(schedules))[1]
    schedules.admin.execute(WORKER, [["scheduler"]])
    assert "no worker" not in (await told(schedules))[1]


async def test_what_was_confirmed_and_undone_is_told_as_undone(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T10:00:01+00:00")
    await schedules.create_with_expense(rule="cron: 0 10 * * *", first_run_at=TEN)
    await schedules.run_cycle()
    await schedules.answer(schedules.run_id(), "complete")
    assert (await told(schedules))[1].endswith("and is confirmed.")
    await service.undo_answer(schedules.api, None, schedules.run_id())
    reason, sentence = await told(schedules)
    assert reason is Reason.ANSWERED
    assert "and is confirmed; what was booked was taken back at 2026-11-16 10:00" in sentence


async def test_a_run_that_was_missed_is_skipped_and_not_reminded_of(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:00:00+00:00")
    await schedules.create(rule="cron: 0 10 * * *", first_run_at=TEN, catch_up="none")
    await schedules.plan()
    schedules.set_clock("2026-11-16T11:00:00+00:00")
    schedules.admin.execute(WORKER, [["scheduler"]])
    reason, sentence = await told(schedules)
    assert reason in (Reason.TO_BE_SKIPPED, Reason.BEING_PLANNED)
    await schedules.plan()
    reason, sentence = await told(schedules)
    assert (reason, sentence.endswith("skips it any moment: missed: nobody was there to remind of it.")) == (
        Reason.TO_BE_SKIPPED,
        True,
    )
    await schedules.remind()
    assert schedules.runs("status")[0] == "skipped"


async def test_a_schedule_that_is_not_planned_up_to_now_is_planned_first(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:00:00+00:00")
    await schedules.create(rule="cron: 0 10 * * *", first_run_at=TEN)
    await schedules.plan()
    schedules.advance_clock(days=40)
    schedules.admin.execute(WORKER, [["scheduler"]])
    assert (await told(schedules))[0] is Reason.BEING_PLANNED
    assert await schedules.remind() == 0
    await schedules.plan()
    assert (await told(schedules))[0] is not Reason.BEING_PLANNED


async def test_messages_go_in_their_order(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T10:00:01+00:00")
    for uid, name in (("anna", "Rent"), ("bo", "Gas"), ("anna", "Power")):
        await schedules.create(uid=uid, name=name, rule="cron: 0 10 * * *", first_run_at=TEN)
    await schedules.plan()
    await schedules.remind()
    schedules.admin.execute(WORKER, [["outbox"]])
    runs = {run: (await explain(schedules.api, None, run)).reason for run in schedules.runs("id")}
    assert sorted(runs.values()) == [Reason.BEHIND_MESSAGES, Reason.IN_LINE, Reason.TO_BE_SENT]
    (first,) = (run for run, reason in runs.items() if reason is Reason.TO_BE_SENT)
    taken = await take_message(schedules)
    assert schedules.one("select id from scheduler.job_runs where reminder_id = %s", taken) == first


def test_every_reason_has_its_cause() -> None:
    assert [cause.reason for cause in CAUSES] == list(Reason)
