"""What a worker does for schedules: makes their runs ahead of time, and writes the reminders that are due.

Planning is leased: one planner at a time works out the firings of a schedule, outside of any transaction, and writes
runs only while the plan is still its own. Reminding needs no lease: rows are locked for one short transaction that
writes the messages, and notes that they are written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, timedelta
from typing import Any

from duly.apps.scheduler import repository
from duly.apps.scheduler.plan import HORIZON, Firing, Plan, Planning, fires_at, plan
from duly.apps.scheduler.reminder import payload_of
from duly.apps.scheduler.states import PLAN
from duly.db.rows import Connection, Row
from duly.executors.call import Call
from duly.lease.operations import Lease, settle_many
from duly.lease.work import Finished, StopSign, Tuning, Work
from duly.logging import get_log
from duly.outcomes import Failed, GiveUp

__all__ = ["ScheduleWork", "finish_archived", "remind"]

REMINDED_AT_ONCE = 500
PLAN_SECONDS = 20.0

log = get_log("duly.scheduler")


class ScheduleWork(Work):
    """Schedules as a kind of work: those whose next runs are to be made, and runs whose reminder is due."""

    name = "scheduler"
    table = PLAN

    def __init__(self, tuning: Tuning, *, horizon: timedelta = HORIZON) -> None:
        self.tuning = tuning
        self.horizon = horizon

    async def claim(
        self, connection: Connection, worker_id: str, limit: int, keys: Sequence[Any] | None = None
    ) -> list[Lease]:
        """Hold plans that are due, with all there is to know of their schedules."""
        return await with_schedules(connection, await super().claim(connection, worker_id, limit, keys))

    async def claim_expired(
        self, connection: Connection, worker_id: str, limit: int, keys: Sequence[Any] | None = None
    ) -> list[Lease]:
        """Take over plans of planners that are gone."""
        return await with_schedules(connection, await super().claim_expired(connection, worker_id, limit, keys))

    def call(self, lease: Lease, sign: StopSign) -> Call:  # noqa: ARG002
        """Work out which runs come next."""
        return Call(self.plan, (lease.row["planning"],), timeout_seconds=PLAN_SECONDS)

    async def plan(self, asked: Planning) -> Plan:
        """The next runs of a schedule."""
        return plan(asked, self.horizon)

    async def settle(self, connection: Connection, finished: Sequence[Finished]) -> frozenset[Any]:
        """Write the runs of schedules that are still as they were when we looked; set aside what has no plan."""
        planned = [(lease, outcome) for lease, outcome in finished if isinstance(outcome, Plan)]
        failed = [(lease, outcome) for lease, outcome in finished if not isinstance(outcome, Plan)]
        ours = await self.settle_planned(connection, planned) if planned else frozenset[Any]()
        if failed:
            reasons = [reason_of(outcome) for _, outcome in failed]
            columns = {"last_error": ("text", reasons)}
            ours |= await settle_many(connection, [lease for lease, _ in failed], "stuck", columns)
            for (lease, _), reason in zip(failed, reasons, strict=True):
                log.warning("a schedule cannot be planned", key=str(lease.key), why=reason)
        return ours

    async def settle_planned(self, connection: Connection, planned: Sequence[tuple[Lease, Plan]]) -> frozenset[Any]:
        """The plan first, which proves that it is ours; then its runs."""
        columns = {
            "plan_at": ("timestamptz", [each.plan_at for _, each in planned]),
            "next_at": ("timestamptz", [each.next_at for _, each in planned]),
            "planned_until": ("timestamptz", [each.planned_until for _, each in planned]),
            "starts": ("bigint", [0 for _ in planned]),
            "last_error": ("text", [None for _ in planned]),
        }
        ours = await settle_many(connection, [lease for lease, _ in planned], "waiting", columns)
        if missed := [one for lease, each in planned if lease.key in ours for one in each.missed]:
            await repository.add_missed(connection, missed)
        firings = [firing for lease, each in planned if lease.key in ours for firing in each.firings]
        if firings:
            plannings = {lease.key: lease.row["planning"] for lease, _ in planned}
            made = await add_runs(connection, firings, plannings)
            skipped = {(each.job_id, each.scheduled_at): each.skipped for each in firings if each.skipped}
            found = [(row, skipped.get((row["job_id"], row["scheduled_at"]))) for row in made]
            if missed := [(row["id"], row["scheduled_at"], reason) for row, reason in found if reason]:
                await repository.skip_runs(connection, missed)
        return ours

    async def tend(self, connection: Connection) -> int:
        """Write the reminders that are due, and cancel what is still open of archived schedules."""
        return await remind(connection) + await finish_archived(connection)

    async def tidy(self, connection: Connection) -> int:
        """Make the months to come; nothing leaves here by itself."""
        await repository.ensure_partitions(connection)
        return 0


async def add_runs(
    connection: Connection, firings: Sequence[Firing], plannings: Mapping[int, Planning]
) -> Sequence[Row]:
    """Make the runs of firings; where the period of one has the run of another firing, with a key and a note."""
    made = await repository.add_runs(connection, firings)
    has_run = {(row["job_id"], row["scheduled_at"]) for row in made}
    left = [each for each in firings if (each.job_id, each.scheduled_at) not in has_run]
    if not left:
        return made
    # A run at an instant at which the schedule does not fire is of a rule or zone that was changed, or made by hand:
    # then the period has its run. A schedule that fires at both instants is to have both runs.
    taken = {
        (row["job_id"], row["scheduled_at"]): row
        for row in await repository.find_taken(connection, left)
        if fires_at(plannings[row["job_id"]], row["taken_at"])
    }
    collided = [each for each in left if (each.job_id, each.scheduled_at) in taken]
    if not collided:
        return made
    noted = await repository.add_runs(connection, [replace(each, period_key=each.own_key) for each in collided])
    notes = [(row["id"], row["scheduled_at"], note_of(taken[row["job_id"], row["scheduled_at"]])) for row in noted]
    for row, (run, _, note) in zip(noted, notes, strict=True):
        log.warning("two firings of a schedule share a period key", key=str(row["job_id"]), run=run, why=note)
    await repository.note_runs(connection, notes)
    return [*made, *noted]


def note_of(taken: Row) -> str:
    """Why a run has not the key of its period."""
    at = taken["taken_at"].astimezone(UTC).strftime("%Y-%m-%dT%H:%MZ")
    return (
        f"period key {taken['period_key']} belongs to run {taken['taken_by']} of {at}, so this run has a key of its own"
    )


async def remind(connection: Connection, limit: int = REMINDED_AT_ONCE) -> int:
    """Write the messages of runs that are due, and account for those that were missed; how many runs there were."""
    due = await repository.find_due(connection, limit)
    if missed := [(run.id, run.scheduled_at, run.skipped) for run in due if run.skipped]:
        await repository.skip_runs(connection, missed)
    if told := [run for run in due if not run.skipped]:
        await repository.supersede_reminders(connection, told)
        await repository.queue_reminders(connection, told, [payload_of(run) for run in told])
    return len(due)


async def finish_archived(connection: Connection) -> int:
    """Cancel the next open runs of a schedule that was archived with very many; 0 when there is none."""
    return await repository.finish_archived(connection)


async def with_schedules(connection: Connection, held: Sequence[Lease]) -> list[Lease]:
    """Leases of plans, each with its schedule."""
    if not held:
        return []
    found = await repository.find_plannings(connection, [lease.key for lease in held])
    return [replace(lease, row={**lease.row, "planning": found[lease.key]}) for lease in held]


def reason_of(outcome: object) -> str:
    """Why there is no plan."""
    return outcome.message if isinstance(outcome, Failed | GiveUp) and outcome.message else "it could not be worked out"
