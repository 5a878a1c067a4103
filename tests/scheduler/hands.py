"""What tests of the scheduler do all the time: make schedules, let time pass, plan, remind, send, answer, look."""

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg import AsyncConnection

from duly.db.pool import Pool
from duly.kernel.outcome import Creation, Failed, failure_of
from duly.kernel.work import Finished, Pace, StopSign
from duly.scheduler import service
from duly.scheduler.model import Action, Answer, ExpenseTemplate, NewSchedule, Receipt, Schedule
from duly.scheduler.work import ScheduleWork, remind
from duly.testing import move_clock

__all__ = ["MONTHLY", "Admin", "Hands"]

Admin = psycopg.Connection[Any]
MONTHLY = "cron: 0 10 1 * *"


class Hands:
    """A test's own hand, the API's, and a worker's."""

    def __init__(self, admin: Admin, api: Pool, worker: AsyncConnection[Any]) -> None:
        self.admin = admin
        self.api = api
        self.worker = worker
        self.work = ScheduleWork(Pace(slots=1000))

    # Time -------------------------------------------------------------------------------------------------------------

    def now(self) -> datetime:
        """The database's time."""
        return self.one("select duly.clock()")

    def set_clock(self, at: str | datetime) -> None:
        """Make it this time now."""
        wanted = datetime.fromisoformat(at) if isinstance(at, str) else at
        move_clock(self.admin, (wanted - self.now()).total_seconds())
        self.admin.execute("select scheduler.ensure_partitions()")

    def pass_time(self, **length: float) -> None:
        """Let time pass."""
        self.set_clock(self.now() + timedelta(**length))

    # People and schedules ---------------------------------------------------------------------------------------------

    def know(self, uid: str = "anna", **columns: object) -> int:
        """A person, made or there."""
        names = ["uid", *columns]
        self.admin.execute(
            f'insert into "user".users ({", ".join(names)}) values ({", ".join(["%s"] * len(names))})'
            " on conflict do nothing".encode(),
            [uid, *columns.values()],
        )
        return self.one('select id from "user".users where uid = %s', uid)

    async def add(self, rule: str = MONTHLY, uid: str = "anna", **wanted: Any) -> Schedule:
        """A schedule of somebody's."""
        first = wanted.pop("first_run_at", self.now())
        new = NewSchedule(name=wanted.pop("name", "Rent"), rule=rule, first_run_at=first, **wanted)
        return (await service.add_schedule(self.api, self.know(uid), new)).row

    async def add_with_expense(self, amount: str = "9.99", **wanted: Any) -> Schedule:
        """One that books something."""
        return await self.add(expense=ExpenseTemplate(amount=amount, currency="EUR", category="tv"), **wanted)  # type: ignore[arg-type]

    # What a worker does -----------------------------------------------------------------------------------------------

    async def plan(self) -> int:
        """Plan until nothing is due; how many plans there were."""
        several = 0
        while leases := await self.work.claim(self.worker, "planner", 100):
            finished: list[Finished] = []
            for lease in leases:
                call = self.work.call(lease, StopSign())
                try:
                    outcome: object = await call.function(*call.arguments)
                except Exception as error:
                    outcome = failure_of(error)
                    assert isinstance(outcome, Failed)
                finished.append(Finished(lease, outcome))
            async with self.worker.transaction():
                settled = await self.work.settle(self.worker, finished)
            assert settled == {lease.key for lease in leases}
            several += len(leases)
        return several

    async def remind(self) -> int:
        """Write the reminders that are due; how many runs there were."""
        several = 0
        while True:
            async with self.worker.transaction():
                rows = await remind(self.worker)
            if not rows:
                return several
            several += rows

    async def turn(self) -> None:
        """Plan, remind, and send what is due."""
        await self.plan()
        await self.remind()
        self.send()

    def send(self) -> int:
        """Send every message that is due, as a sender does that never fails."""
        held = self.admin.execute(
            "update duly.outbox set status = 'sending', lease_owner = 'test/1', starts = starts + 1,"
            " lease_expires_at = duly.clock() + interval '1 min', called_at = duly.clock()"
            " where status = 'pending' and due_at <= duly.clock()"
        ).rowcount
        self.admin.execute(
            "update duly.outbox set status = 'sent', settled_by = lease_owner, lease_owner = null,"
            " lease_expires_at = null where status = 'sending'"
        )
        return held

    # Answers ----------------------------------------------------------------------------------------------------------

    async def answer(
        self, run: int, action: str = "complete", key: str = "tap", uid: str = "anna", **given: Any
    ) -> Creation[Receipt]:
        """Answer a run, as the API does."""
        return await service.answer_run(self.api, self.know(uid), run, Answer(Action(action), key, given))

    # Looking ----------------------------------------------------------------------------------------------------------

    def one(self, asked: str, *values: object) -> Any:
        """The one value there is."""
        row = self.admin.execute(asked.encode(), list(values)).fetchone()
        assert row is not None
        return row[0]

    def all(self, asked: str, *values: object) -> list[Any]:
        """Every row; of one column, its values."""
        rows = self.admin.execute(asked.encode(), list(values)).fetchall()
        return [row[0] if len(row) == 1 else row for row in rows]

    def runs(self, columns: str = "status") -> list[Any]:
        """Every run, the earliest first."""
        return self.all(f"select {columns} from scheduler.job_runs order by scheduled_at, id")

    def run(self) -> int:
        """The only run."""
        (key,) = self.runs("id")
        return key

    def path(self, run: int) -> list[str]:
        """Where a run has been."""
        return self.all(
            "select next_status from duly.transition where machine = 'run' and key = %s order by seq", str(run)
        )

    def times(self) -> list[str]:
        """When the runs are, in UTC."""
        return [at.astimezone(UTC).strftime("%Y-%m-%d %H:%M") for at in self.runs("scheduled_at")]
