"""Why a run is in its state: each cause and its sentence."""

from collections.abc import Callable
from datetime import UTC, datetime, time

import pytest

from duly.apps.scheduler import service
from duly.apps.scheduler.explain import CAUSES, RunReason, explain
from duly.apps.scheduler.model import ScheduleStatus
from duly.errors import NotFound
from duly.outbox.repository import claim_messages
from duly.outbox.states import OUTBOX
from tests.support.scheduler.actions import ScheduleActions

TEN = datetime(2026, 11, 16, 10, tzinfo=UTC)
WORKER = (
    "insert into duly.workers (id, worker_id, host, pid, version, work_types, slots)"
    " values (gen_random_uuid(), 'w', 'h', 1, '1', %s, '{\"outbox\": 2, \"scheduler\": 2}')"
)
TRIED = "status = 'sending', starts = 1, lease_owner = 'x/1', lease_expires_at = duly.clock() + interval '1 min'"
FREED = "lease_owner = null, lease_expires_at = null"


async def explain_first(schedules: ScheduleActions) -> tuple[RunReason, str]:
    """Return the reason and the sentence of the first run."""
    found = await explain(schedules.api, None, schedules.runs("id")[0])
    return found.reason, found.sentence


async def queue_message(schedules: ScheduleActions, **person: object) -> None:
    """Create a run whose message is in the outbox."""
    schedules.set_clock("2026-11-16T10:00:01+00:00")
    schedules.add_user("anna", **person)
    await schedules.create(rule="cron: 0 10 * * *", first_run_at=TEN)
    await schedules.plan()
    await schedules.remind()


async def test_run_before_its_reminder_time_is_explained(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:30:00+00:00")
    await schedules.create(rule="cron: 0 10 * * *")
    await schedules.plan()
    assert (await explain_first(schedules))[0] is RunReason.WAITS
    assert "The person is reminded at 2026-11-16 10:00" in (await explain_first(schedules))[1]


async def test_due_run_without_a_worker_is_explained(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T10:00:01+00:00")
    await schedules.create(rule="cron: 0 10 * * *", first_run_at=TEN)
    await schedules.plan()
    reason, sentence = await explain_first(schedules)
    assert (reason, "duly worker --only scheduler,outbox" in sentence) == (RunReason.NO_WORKER, True)
    schedules.admin.execute(WORKER, [["scheduler"]])
    assert (await explain_first(schedules))[0] is RunReason.DUE


async def test_message_without_a_sender_is_explained(schedules: ScheduleActions) -> None:
    await queue_message(schedules)
    assert (await explain_first(schedules))[0] is RunReason.NO_SENDER
    schedules.admin.execute(WORKER, [["outbox"]])
    assert (await explain_first(schedules))[0] is RunReason.TO_BE_SENT


@pytest.mark.breaks_invariants
@pytest.mark.parametrize(
    ("updates", "reason", "text"),
    [
        ([TRIED], RunReason.BEING_SENT, "x/1 is sending its message now"),
        (
            [TRIED, f"status = 'failed', last_error = 'blocked', {FREED}"],
            RunReason.MESSAGE_FAILED,
            "blocked; when that is fixed",
        ),
        (
            [TRIED, f"status = 'uncertain', called_at = now(), last_error = 'lost', {FREED}"],
            RunReason.MESSAGE_UNCERTAIN,
            "may have arrived: lost",
        ),
        (
            [TRIED, f"status = 'pending', last_error = 'busy', due_at = duly.clock() + interval '1 h', {FREED}"],
            RunReason.TRIED_AGAIN,
            "tried 1 time, the last time: busy",
        ),
        (
            ["is_in_line = true, due_at = duly.clock() + interval '1 min'"],
            RunReason.IN_LINE,
            "waited behind an earlier one to the same person, which is done: it is sent at 2026-11-16 10:01",
        ),
        (
            ["last_error = 'CHANNEL_NOT_CONFIGURED: TELEGRAM_BOT_TOKEN is not set'"],
            RunReason.NOT_CONFIGURED,
            "TELEGRAM_BOT_TOKEN is not set; it is sent when that is set, and fails at 2026-11-23 10:00",
        ),
    ],
)
async def test_run_is_explained_by_the_state_of_its_message(
    updates: list[str], reason: RunReason, text: str, schedules: ScheduleActions
) -> None:
    await queue_message(schedules)
    schedules.admin.execute(WORKER, [["outbox"]])
    for each in updates:
        schedules.admin.execute(f"update duly.outbox set {each}".encode())
    found, sentence = await explain_first(schedules)
    assert found is reason
    assert text in sentence


async def test_run_in_quiet_hours_is_explained(schedules: ScheduleActions) -> None:
    await queue_message(schedules, quiet_from=time(9), quiet_until=time(12))
    schedules.admin.execute(WORKER, [["outbox"]])
    assert (await explain_first(schedules))[0] is RunReason.QUIET
    assert "quiet hours, and is sent at 2026-11-16 12:00" in (await explain_first(schedules))[1]


async def answered(schedules: ScheduleActions) -> None:
    """Answer it."""
    await schedules.answer(schedules.run_id(), "skip")


async def archived(schedules: ScheduleActions) -> None:
    """Archive its schedule."""
    (schedule,) = (await service.list_schedules(schedules.api, None)).items
    await service.set_schedule_status(schedules.api, None, schedule.id, ScheduleStatus.ARCHIVED)


async def snoozed(schedules: ScheduleActions) -> None:
    """Snooze it."""
    await schedules.answer(schedules.run_id(), "snooze")


async def nothing(_: ScheduleActions) -> None:
    """Do nothing more."""


@pytest.mark.parametrize(
    ("action", "reason", "text"),
    [
        (nothing, RunReason.WAITS_FOR_ANSWER, "was reminded at 2026-11-16 10:00"),
        (answered, RunReason.ANSWERED, "answered with skip at"),
        (archived, RunReason.CLOSED, "without an answer: the schedule was archived"),
        (snoozed, RunReason.WAITS, "It was snoozed: the person is reminded at"),
    ],
)
async def test_sent_run_is_explained(
    action: Callable[[ScheduleActions], object], reason: RunReason, text: str, schedules: ScheduleActions
) -> None:
    await queue_message(schedules)
    schedules.send()
    await action(schedules)  # type: ignore[misc]
    found, sentence = await explain_first(schedules)
    assert found is reason
    assert text in sentence


async def test_another_users_run_is_not_found(schedules: ScheduleActions) -> None:
    await queue_message(schedules)
    with pytest.raises(NotFound):
        await explain(schedules.api, schedules.add_user("bo"), schedules.run_id())


# Regressions ----------------------------------------------------------------------------------------------------------


async def test_a_locked_run_is_explained_as_locked(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T10:00:01+00:00")
    await schedules.create(rule="cron: 0 10 * * *", first_run_at=TEN)
    await schedules.plan()
    schedules.admin.execute(WORKER, [["scheduler"]])
    with schedules.admin.transaction():
        schedules.admin.execute("select from scheduler.job_runs for share")
        reason, sentence = await explain_first(schedules)
        assert (reason, "another transaction has its row locked" in sentence) == (RunReason.LOCKED, True)
        assert await schedules.remind() == 0
    assert (await explain_first(schedules))[0] is RunReason.DUE
    assert await schedules.remind() == 1


async def test_a_locked_message_is_explained_as_locked(schedules: ScheduleActions) -> None:
    await queue_message(schedules)
    schedules.admin.execute(WORKER, [["outbox"]])
    with schedules.admin.transaction():
        schedules.admin.execute("select from duly.outbox for share")
        reason, sentence = await explain_first(schedules)
        assert (reason, "another transaction has its row locked" in sentence) == (RunReason.MESSAGE_LOCKED, True)
        assert await claim_message(schedules) is None
    assert (await explain_first(schedules))[0] is RunReason.TO_BE_SENT
    assert await claim_message(schedules) is not None


async def claim_message(schedules: ScheduleActions) -> object:
    """Claim like a sender with one free slot; return the id of the message."""
    leases = await claim_messages(schedules.worker, OUTBOX, "w", ["telegram", "console"], lease_seconds=60, limit=1)
    return leases[0].key if leases else None


async def test_a_message_whose_sender_is_dead_is_not_being_sent(schedules: ScheduleActions) -> None:
    await queue_message(schedules)
    await claim_message(schedules)
    schedules.admin.execute(WORKER, [["outbox"]])
    assert (await explain_first(schedules))[0] is RunReason.BEING_SENT
    schedules.advance_clock(hours=1)
    reason, sentence = await explain_first(schedules)
    assert reason is RunReason.SENDER_EXPIRED
    assert sentence.startswith("w was sending its message, and its lease expired at 2026-11-16 10:01")
    assert sentence.endswith("; no worker is alive that sends; start one: duly worker --only outbox.")
    schedules.admin.execute(WORKER, [["outbox"]])
    assert "it waits again" in (await explain_first(schedules))[1]
    schedules.admin.execute("update duly.outbox set called_at = duly.clock()")
    assert "it becomes uncertain whether it arrived" in (await explain_first(schedules))[1]


async def test_a_message_whose_sender_has_stopped_is_not_being_sent(schedules: ScheduleActions) -> None:
    await queue_message(schedules)
    schedules.admin.execute(WORKER, [["outbox"]])
    await claim_message(schedules)
    schedules.admin.execute("update duly.workers set stopped_at = duly.clock()")
    reason, sentence = await explain_first(schedules)
    assert (reason, sentence.startswith("Its message: w holds the lease until")) == (RunReason.SENDER_GONE, True)


async def test_after_a_snooze_the_explanation_has_the_later_reminder(schedules: ScheduleActions) -> None:
    await queue_message(schedules)
    schedules.send()
    await schedules.answer(schedules.run_id(), "snooze", minutes=120)
    schedules.set_clock("2026-11-16T12:00:05+00:00")
    await schedules.remind()
    schedules.send()
    reason, sentence = await explain_first(schedules)
    assert reason is RunReason.WAITS_FOR_ANSWER
    assert sentence.startswith("The person was reminded again at 2026-11-16 12:00:0")
    assert ", after snooze at 2026-11-16 10:00:0" in sentence
    assert sentence.endswith(", and has not answered since.")


async def test_a_run_that_was_snoozed_and_then_archived_ended_without_an_answer(schedules: ScheduleActions) -> None:
    await queue_message(schedules)
    schedules.send()
    await snoozed(schedules)
    await archived(schedules)
    reason, sentence = await explain_first(schedules)
    assert (reason, "without an answer since it was snoozed at" in sentence) == (RunReason.CLOSED, True)


async def test_a_waiting_run_mentions_that_no_worker_is_alive(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:30:00+00:00")
    await schedules.create(rule="cron: 0 10 * * *")
    await schedules.plan()
    assert "; so far no worker is alive that writes reminders; start one" in (await explain_first(schedules))[1]
    schedules.admin.execute(WORKER, [["scheduler"]])
    assert "no worker" not in (await explain_first(schedules))[1]


async def test_a_confirmed_run_with_a_reversed_expense_is_explained(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T10:00:01+00:00")
    await schedules.create_with_expense(rule="cron: 0 10 * * *", first_run_at=TEN)
    await schedules.run_cycle()
    await schedules.answer(schedules.run_id(), "complete")
    assert (await explain_first(schedules))[1].endswith("and is confirmed.")
    await service.reverse_expense(schedules.api, None, schedules.run_id())
    reason, sentence = await explain_first(schedules)
    assert reason is RunReason.ANSWERED
    assert "and is confirmed; its expense was reversed at 2026-11-16 10:00" in sentence


async def test_missed_run_is_explained_as_skipped_and_sends_no_reminder(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:00:00+00:00")
    await schedules.create(rule="cron: 0 10 * * *", first_run_at=TEN, catch_up="none")
    await schedules.plan()
    schedules.set_clock("2026-11-16T11:00:00+00:00")
    schedules.admin.execute(WORKER, [["scheduler"]])
    reason, sentence = await explain_first(schedules)
    assert reason in (RunReason.TO_BE_SKIPPED, RunReason.BEING_PLANNED)
    await schedules.plan()
    reason, sentence = await explain_first(schedules)
    why = "about to skip it: missed: over 10 minutes late, and its schedule does not catch up."
    assert (reason, sentence.endswith(why)) == (
        RunReason.TO_BE_SKIPPED,
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
    assert (await explain_first(schedules))[0] is RunReason.BEING_PLANNED
    assert await schedules.remind() == 0
    await schedules.plan()
    assert (await explain_first(schedules))[0] is not RunReason.BEING_PLANNED


async def test_message_behind_an_earlier_one_is_explained(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T10:00:01+00:00")
    for uid, name in (("anna", "Rent"), ("bo", "Gas"), ("anna", "Power")):
        await schedules.create(uid=uid, name=name, rule="cron: 0 10 * * *", first_run_at=TEN)
    await schedules.plan()
    await schedules.remind()
    schedules.admin.execute(WORKER, [["outbox"]])
    runs = {run: (await explain(schedules.api, None, run)).reason for run in schedules.runs("id")}
    assert sorted(runs.values()) == [RunReason.BEHIND_MESSAGES, RunReason.IN_LINE, RunReason.TO_BE_SENT]
    (first,) = (run for run, reason in runs.items() if reason is RunReason.TO_BE_SENT)
    claimed = await claim_message(schedules)
    assert schedules.one("select id from scheduler.job_runs where message_id = %s", claimed) == first


def test_every_reason_has_a_cause() -> None:
    assert [cause.reason for cause in CAUSES] == list(RunReason)
