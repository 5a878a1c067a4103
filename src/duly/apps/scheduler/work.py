"""The scheduler's work in a worker: create runs ahead of time, and write the messages of reminders that are due.

    claim a plan ---> plan_runs ---> settle: the plan first, then its runs        leased, one worker at a time
    find_due ---> queue_reminders: messages and runs in one transaction           not leased: rows are locked

A plan is the row of a schedule in `scheduler.job_plans`: up to when its runs were created, and who is creating more.
The lease on it lets a worker compute firings outside of any transaction, and write them only while it owns the plan.
What follows is not seen here: `outbox/sender.py` sends the messages, and triggers of the database make runs `sent`, and
withdraw runs whose schedule is changed, paused or archived.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg.errors import LockNotAvailable

from duly.apps.scheduler import repository
from duly.apps.scheduler.limits import REMINDER_BATCH_SIZE
from duly.apps.scheduler.planning import HORIZON, Firing, PlannedRuns, PlanningInput, fires_at, plan_runs
from duly.apps.scheduler.reasons import ClosingReason
from duly.apps.scheduler.reminder import reminder_payload
from duly.apps.scheduler.states import PLAN_TABLE
from duly.db.rows import Connection, Row
from duly.executors.call import Call
from duly.lease.operations import Lease, claim_expired_rows, claim_rows, settle_rows
from duly.lease.work import LeaseOutcome, StopSignal, Tuning, Work
from duly.logging import get_log
from duly.outcomes import Failed, GiveUp

log = get_log("duly.scheduler")


class ScheduleWork(Work):
    """Creates the next runs of schedules, and writes the messages of reminders that are due."""

    name = "scheduler"
    table = PLAN_TABLE
    has_unleased_work = True

    def __init__(self, tuning: Tuning, *, horizon: timedelta = HORIZON) -> None:
        self.tuning = tuning
        self.horizon = horizon

    async def claim(
        self, connection: Connection, worker_id: str, limit: int, keys: Sequence[Any] | None = None
    ) -> list[Lease]:
        """Claim plans that are due, with the inputs for planning."""
        leases = await claim_rows(
            connection, PLAN_TABLE, worker_id, lease_seconds=self.tuning.lease_seconds, limit=limit, keys=keys
        )
        inputs = await repository.find_planning_inputs(connection, [lease.key for lease in leases])
        return with_planning_inputs(leases, inputs)

    async def claim_expired(
        self, connection: Connection, worker_id: str, limit: int, keys: Sequence[Any] | None = None
    ) -> list[Lease]:
        """Claim plans whose lease expired."""
        leases = await claim_expired_rows(
            connection,
            PLAN_TABLE,
            worker_id,
            lease_seconds=self.tuning.lease_seconds,
            max_starts=self.tuning.max_starts,
            limit=limit,
            keys=keys,
        )
        inputs = await repository.find_planning_inputs(connection, [lease.key for lease in leases])
        return with_planning_inputs(leases, inputs)

    def build_call(self, lease: Lease, stop_signal: StopSignal) -> Call:  # noqa: ARG002
        """Return the call that computes the next runs, on the loop of the handlers: one plan after the other.

        Nearly every plan takes less than a millisecond; the first one after years takes a fraction of a second. Threads
        would compete with the control loop for the interpreter.
        """
        return Call(self.compute_runs, (lease.row["planning_input"],))

    async def compute_runs(self, schedule: PlanningInput) -> PlannedRuns:
        """Compute the next runs of a schedule."""
        return plan_runs(schedule, self.horizon)

    async def settle(self, connection: Connection, finished: Sequence[LeaseOutcome]) -> frozenset[Any]:
        """Write the runs of plans that are still ours; mark plans that failed as stuck."""
        planned = [(lease, outcome) for lease, outcome in finished if isinstance(outcome, PlannedRuns)]
        failed = [(lease, outcome) for lease, outcome in finished if not isinstance(outcome, PlannedRuns)]
        ours = await self.settle_planned(connection, planned) if planned else frozenset[Any]()
        if failed:
            reasons = [failure_reason(outcome) for _, outcome in failed]
            statement = PLAN_TABLE.statements.settle_stuck
            ours |= await settle_rows(connection, [lease for lease, _ in failed], statement, last_error=reasons)
            for (lease, _), reason in zip(failed, reasons, strict=True):
                log.warning("schedule.plan_failed", schedule_id=lease.key, reason=reason)
        return ours

    async def settle_planned(
        self, connection: Connection, planned: Sequence[tuple[Lease, PlannedRuns]]
    ) -> frozenset[Any]:
        """Settle the plans first, which proves that they are ours; then write their runs."""
        ours = await settle_rows(
            connection,
            [lease for lease, _ in planned],
            PLAN_TABLE.statements.settle_waiting,
            plan_at=[each.plan_at for _, each in planned],
            next_at=[each.next_at for _, each in planned],
            planned_until=[each.planned_until for _, each in planned],
        )
        if missed := [missed_range for lease, each in planned if lease.key in ours for missed_range in each.missed]:
            await repository.add_missed(connection, missed)
        firings = [firing for lease, each in planned if lease.key in ours for firing in each.firings]
        if firings:
            inputs = {lease.key: lease.row["planning_input"] for lease, _ in planned}
            created = await add_runs(connection, firings, inputs)
            reasons = {(each.schedule_id, each.scheduled_at): each.missed_reason for each in firings}
            found = [(row, reasons.get((row["schedule_id"], row["scheduled_at"]))) for row in created]
            await close_missed_runs(connection, [(row["id"], row["scheduled_at"], reason) for row, reason in found])
        return ours

    async def run_unleased(self, connection: Connection) -> int:
        """Write the messages of reminders that are due, and cancel open runs of archived schedules."""
        return await remind(connection) + await repository.cancel_archived_runs(connection)

    async def maintain(self, connection: Connection) -> int:
        """Create the partitions of the coming months; nothing is deleted automatically."""
        try:
            async with connection.transaction():
                await repository.ensure_partitions(connection)
        except LockNotAvailable:  # a dump, say: runs lie in the future partition until a later round creates the month
            log.info("partitions.locked", table="scheduler.job_runs")
        return 0


async def add_runs(
    connection: Connection, firings: Sequence[Firing], inputs: Mapping[int, PlanningInput]
) -> Sequence[Row]:
    """Create the runs of firings; one whose period has the run of another firing gets a key of its own and a note."""
    created = await repository.add_runs(connection, firings)
    has_run = {(row["schedule_id"], row["scheduled_at"]) for row in created}
    without_run = [each for each in firings if (each.schedule_id, each.scheduled_at) not in has_run]
    if not without_run:
        return created
    # A run at an instant at which the schedule does not fire belongs to a former rule or zone, or was created by hand:
    # then the period has its run. A schedule that fires at both instants gets both runs.
    existing = {
        (row["schedule_id"], row["scheduled_at"]): row
        for row in await repository.find_existing_runs(connection, without_run)
        if fires_at(inputs[row["schedule_id"]], row["existing_at"])
    }
    collided = [each for each in without_run if (each.schedule_id, each.scheduled_at) in existing]
    if not collided:
        return created
    noted = await repository.add_runs(
        connection, [replace(each, period_key=each.unique_period_key) for each in collided]
    )
    notes = [
        (row["id"], row["scheduled_at"], collision_note(existing[row["schedule_id"], row["scheduled_at"]]))
        for row in noted
    ]
    for row, (run_id, _, note) in zip(noted, notes, strict=True):
        log.warning("schedule.period_key_taken", schedule_id=row["schedule_id"], run_id=run_id, reason=note)
    await repository.note_runs(connection, notes)
    return [*created, *noted]


def collision_note(existing: Row) -> str:
    """Return why a run does not have the key of its period."""
    at = existing["existing_at"].astimezone(UTC).strftime("%Y-%m-%dT%H:%MZ")
    run_id, period_key = existing["existing_run_id"], existing["period_key"]
    return f"period key {period_key} belongs to run {run_id} of {at}, so this run has its own key"


async def remind(connection: Connection, limit: int = REMINDER_BATCH_SIZE) -> int:
    """Write the messages of due runs and close the runs that were missed; return how many runs there were."""
    due = await repository.find_due(connection, limit)
    await close_missed_runs(connection, [(run.id, run.scheduled_at, run.missed_reason) for run in due])
    if reminded := [run for run in due if not run.missed_reason]:
        await repository.supersede_reminders(connection, reminded)
        await repository.queue_reminders(connection, reminded, [reminder_payload(run) for run in reminded])
    return len(due)


async def close_missed_runs(connection: Connection, runs: Sequence[tuple[int, datetime, ClosingReason | None]]) -> None:
    """Close the runs that were missed: those that have a reason."""
    if missed := [(run_id, at, reason) for run_id, at, reason in runs if reason]:
        await repository.close_missed_runs(connection, missed)


def with_planning_inputs(leases: Sequence[Lease], inputs: Mapping[int, PlanningInput]) -> list[Lease]:
    """Return leases of plans, each with the inputs for planning."""
    return [replace(lease, row={**lease.row, "planning_input": inputs[lease.key]}) for lease in leases]


def failure_reason(outcome: object) -> str:
    """Return why no runs could be planned."""
    return (
        outcome.message
        if isinstance(outcome, Failed | GiveUp) and outcome.message
        else "the firings could not be computed"
    )
