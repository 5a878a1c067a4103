"""Random states of runs and their messages."""

from datetime import UTC, datetime, time
from random import Random

from duly.apps.scheduler import repository
from duly.apps.scheduler.explain import RunReason, explain
from duly.outbox.repository import claim_messages
from duly.outbox.states import OUTBOX
from tests.support.explain.registered_workers import (
    NAMES,
    RegisteredWorker,
    delete_all_rows,
    lock_some_rows,
    register_workers,
    workers_with_free_slot,
)
from tests.support.scheduler.actions import ScheduleActions

CHANNELS = ("telegram", "console")
LEASE = 60.0
RULES = ("cron: 0 10 * * *", "cron: */20 * * * *", "cron: 0 12 * * *")
RUNNING = "select lease_owner from duly.outbox where status = 'sending' and lease_expires_at >= duly.clock()"
RUNS_EXPLAINED = "select id, message_id from scheduler.job_runs order by scheduled_at, id limit 8"


async def check_runs(seed: int, schedules: ScheduleActions) -> set[RunReason]:
    """Compare the explanation of the first runs with what workers and senders claim; return the reasons."""
    random = Random(seed)  # noqa: S311 (no secret)
    delete_all_rows(schedules.admin)
    schedules.set_clock("2026-11-16T09:50:00+00:00")
    await make_runs(random, schedules, seed)
    registered = register_workers(random, schedules.admin, "outbox", "scheduler")
    with (
        lock_some_rows(random, schedules.admin, "scheduler.job_runs") as locked_runs,
        lock_some_rows(random, schedules.admin, "duly.outbox") as locked,
    ):
        reminds = any("scheduler" in each.job_types and is_up(schedules, each.name) for each in registered)
        due = await due_runs(schedules) if reminds else {}
        sent = await next_messages(schedules, registered)
        found = {
            (run, message): await explain(schedules.api, None, run) for run, message in schedules.rows(RUNS_EXPLAINED)
        }
    for (run, message), each in found.items():
        about = f"seed {seed}: {each.sentence}"
        assert (each.reason in (RunReason.DUE, RunReason.TO_BE_SKIPPED)) == (run in due), about
        assert each.reason is not RunReason.TO_BE_SKIPPED or due[run], about
        assert each.reason is not RunReason.DUE or not due[run], about
        assert (each.reason is RunReason.TO_BE_SENT) == (message in sent), about
        assert each.reason is not RunReason.LOCKED or run in locked_runs, about
        assert each.reason is not RunReason.MESSAGE_LOCKED or message in locked, about
    return {each.reason for each in found.values()}


async def make_runs(random: Random, schedules: ScheduleActions, seed: int) -> None:
    """Create schedules of random people in random states."""
    for nth in range(random.randint(1, 4)):
        uid = f"{seed}-{random.randint(1, 3)}"
        if random.random() < 0.2:
            schedules.add_user(uid, quiet_from=time(9), quiet_until=time(11))
        await schedules.create(
            rule=random.choice(RULES),
            uid=uid,
            name=f"N{nth}",
            channel=random.choice(CHANNELS),
            catch_up=random.choice(["none", "latest", "all"]),
            first_run_at=datetime(2026, 11, 16, 9, tzinfo=UTC),
        )
    for _ in range(random.randint(1, 3)):
        await schedules.plan()
        schedules.advance_clock(minutes=random.choice([1, 10, 30]))
        if random.random() < 0.8:
            await schedules.remind()
        if random.random() < 0.6:
            await move_messages(random, schedules)
        for run in schedules.values("select id from scheduler.job_runs where status = 'sent' limit 1"):
            action = random.choice(["complete", "snooze", "skip", None])
            if action:
                await answer(schedules, run, action)
    schedules.advance_clock(minutes=random.choice([0, 0, 1, 30, 2000]))


async def answer(schedules: ScheduleActions, run: int, action: str) -> None:
    """Answer a run as its user."""
    uid = schedules.one(
        "select p.uid from scheduler.job_runs as r join scheduler.jobs as j on j.id = r.job_id join duly.person as p"
        " on p.user_id = j.user_id where r.id = %s",
        run,
    )
    await schedules.answer(run, action, key=f"{run}-{action}-{schedules.now()}", uid=uid)


async def move_messages(random: Random, schedules: ScheduleActions) -> None:
    """Send some messages, claim some, release some."""
    held = await claim_messages(
        schedules.worker,
        OUTBOX,
        random.choice(NAMES),
        CHANNELS,
        lease_seconds=random.choice([LEASE, 10_000.0]),
        limit=random.randint(1, 2),
    )
    for lease in held:
        if (fate := random.choice(["sent", "again", "held"])) == "sent":
            schedules.admin.execute(
                "update duly.outbox set status = 'sent', lease_owner = null, lease_expires_at = null where id = %s",
                [lease.key],
            )
        elif fate == "again":
            schedules.admin.execute(
                "update duly.outbox set status = 'pending', lease_owner = null, lease_expires_at = null,"
                " last_error = 'busy', due_at = duly.clock() + make_interval(secs => %s) where id = %s",
                [random.choice([1, 3000]), lease.key],
            )


async def due_runs(schedules: ScheduleActions) -> dict[int, str | None]:
    """Return the runs that the next reminders are written for, and why some are skipped; it is rolled back."""
    async with schedules.worker.transaction(force_rollback=True):
        return {run.id: run.missed_reason for run in await repository.find_due(schedules.worker, 500)}


async def next_messages(schedules: ScheduleActions, registered: list[RegisteredWorker]) -> set[object]:
    """Return what the next claim of a live sender with a free slot returns; it is rolled back."""
    if not workers_with_free_slot(registered, schedules.values(RUNNING)):
        return set()
    async with schedules.worker.transaction(force_rollback=True):
        held = await claim_messages(schedules.worker, OUTBOX, "x", CHANNELS, lease_seconds=LEASE, limit=1)
    return {lease.key for lease in held}


def is_up(schedules: ScheduleActions, name: str) -> bool:
    """Check whether a worker of this name is alive and claims new work."""
    return schedules.one(
        "select exists (select from duly.workers where worker_id = %s and stopped_at is null and stopping_at is null"
        " and seen_at > duly.clock() - interval '30 s')",
        name,
    )
