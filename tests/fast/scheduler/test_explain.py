"""Why a run is where it is: each cause, and its one true sentence."""

from collections.abc import Callable
from datetime import UTC, datetime, time

import pytest

from duly.errors import NotFound
from duly.scheduler import service
from duly.scheduler.explain import Reason, explain
from duly.scheduler.model import Status
from tests.support.scheduler.actions import ScheduleActions

TEN = datetime(2026, 11, 16, 10, tzinfo=UTC)
WORKER = (
    "insert into duly.workers (id, worker_id, host, pid, version, kinds, slots)"
    " values (gen_random_uuid(), 'w', 'h', 1, '1', %s, '{}')"
)
TRIED = "status = 'sending', starts = 1, lease_owner = 'x/1', lease_expires_at = duly.clock()"
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
        ([TRIED], Reason.BEING_SENT, "being sent"),
        ([TRIED, f"status = 'failed', last_error = 'blocked', {FREED}"], Reason.MESSAGE_FAILED, "blocked; when that"),
        (
            [TRIED, f"status = 'uncertain', called_at = now(), last_error = 'lost', {FREED}"],
            Reason.MESSAGE_UNCERTAIN,
            "nobody knows: lost",
        ),
        (
            [TRIED, f"status = 'pending', last_error = 'busy', due_at = duly.clock() + interval '1 h', {FREED}"],
            Reason.TRIED_AGAIN,
            "tried 1 times, the last time: busy",
        ),
        (["is_in_line = true"], Reason.IN_LINE, "behind an earlier one"),
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
