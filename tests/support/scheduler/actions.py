"""Actions for tests of schedules: create, plan, remind, send, answer, read the runs."""

from datetime import UTC
from typing import Any

from duly.apps.scheduler import service
from duly.apps.scheduler.model import Action, Answer, ExpenseTemplate, NewSchedule, Receipt, Schedule
from duly.apps.scheduler.work import ScheduleWork, remind
from duly.db.pool import Pool
from duly.lease.work import LeaseOutcome, StopSignal, Tuning
from duly.outcomes import Creation, Failed, failure_from_exception
from tests.support.actions import Actions, Admin, Connection

__all__ = ["MONTHLY", "Admin", "ScheduleActions"]

MONTHLY = "cron: 0 10 1 * *"


class ScheduleActions(Actions):
    """Actions on schedules and their runs, as administrator, worker and API."""

    schemas = ("scheduler", "expense")
    table = "scheduler.job_runs"
    order = "scheduled_at, id"
    machine = "run"

    def __init__(self, admin: Admin, worker: Connection, api: Pool) -> None:
        super().__init__(admin, worker)
        self.api = api
        self.work = ScheduleWork(Tuning(slots=1000))

    def advance_clock(self, seconds: float = 0, **more: float) -> None:
        """Move the database's clock, and make the partitions of that time."""
        super().advance_clock(seconds, **more)
        self.admin.execute("select scheduler.ensure_partitions()")

    async def create(self, rule: str = MONTHLY, uid: str = "anna", **options: Any) -> Schedule:
        """Create a schedule of a user, who is made."""
        first = options.pop("first_run_at", self.now())
        new = NewSchedule(name=options.pop("name", "Rent"), rule=rule, first_run_at=first, **options)
        return (await service.create_schedule(self.api, self.add_user(uid), new)).row

    async def create_with_expense(self, amount: str = "9.99", **options: Any) -> Schedule:
        """Create a schedule that books an expense."""
        return await self.create(expense=ExpenseTemplate(amount=amount, currency="EUR", category="tv"), **options)  # type: ignore[arg-type]

    # What workers do --------------------------------------------------------------------------------------------------

    async def plan(self) -> int:
        """Plan until nothing is due; return how many plans there were."""
        total = 0
        while leases := await self.work.claim(self.worker, "planner", 100):
            finished: list[LeaseOutcome] = []
            for lease in leases:
                call = self.work.build_call(lease, StopSignal())
                try:
                    outcome: object = await call.function(*call.arguments)
                except Exception as error:
                    outcome = failure_from_exception(error)
                    assert isinstance(outcome, Failed)
                finished.append(LeaseOutcome(lease, outcome))
            async with self.worker.transaction():
                settled = await self.work.settle(self.worker, finished)
            assert settled == {lease.key for lease in leases}
            total += len(leases)
        return total

    async def remind(self) -> int:
        """Write the reminders that are due; return of how many runs."""
        total = 0
        while True:
            async with self.worker.transaction():
                rows = await remind(self.worker)
            if not rows:
                return total
            total += rows

    def send(self) -> int:
        """Send every message that is due, as a sender does that never fails; return how many."""
        claimed = self.start_sending()
        self.finish_sending()
        return claimed

    def start_sending(self) -> int:
        """Claim every message that is due, as a sender does; return how many."""
        return self.admin.execute(
            "update duly.outbox set status = 'sending', lease_owner = 'test/1', starts = starts + 1,"
            " lease_expires_at = duly.clock() + interval '1 min', called_at = duly.clock()"
            " where status = 'pending' and due_at <= duly.clock()"
        ).rowcount

    def finish_sending(self) -> None:
        """Mark every claimed message as sent, as a sender does."""
        self.admin.execute(
            "update duly.outbox set status = 'sent', settled_by = lease_owner, lease_owner = null,"
            " lease_expires_at = null where status = 'sending'"
        )

    async def run_cycle(self, *, send: bool = True) -> None:
        """Plan, remind, and send what is due."""
        await self.plan()
        await self.remind()
        if send:
            self.send()

    # Runs -------------------------------------------------------------------------------------------------------------

    async def answer(
        self, run: int, action: str = "complete", key: str = "tap", uid: str = "anna", **payload: Any
    ) -> Creation[Receipt]:
        """Answer a run, as the API does."""
        return await service.answer_run(self.api, self.add_user(uid), run, Answer(Action(action), key, payload))

    def runs(self, *columns: str) -> list[Any]:
        """Return these columns of every run, the earliest first; of one column, its values."""
        return self.columns(*columns)

    def run_id(self) -> int:
        """Return the id of the only run."""
        (key,) = self.runs("id")
        return key

    def run_times(self) -> list[str]:
        """Return when the runs are, in UTC."""
        return [at.astimezone(UTC).strftime("%Y-%m-%d %H:%M") for at in self.runs("scheduled_at")]
