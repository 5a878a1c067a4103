"""One small function per statement: connection in, value out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from psycopg.types.json import Jsonb

from duly.apps.scheduler.model import (
    Action,
    Answer,
    CatchUp,
    DueRun,
    Expense,
    ExpenseTemplate,
    NewSchedule,
    Receipt,
    Reminder,
    Run,
    RunStatus,
    Schedule,
    Status,
    Upcoming,
)
from duly.apps.scheduler.plan import Firing, MissedRange, Planning
from duly.db.queries import load_queries
from duly.db.rows import Connection, Row, change, find_row, find_value, get_row, get_rows, get_value

__all__ = [
    "ALREADY_ANSWERED",
    "BEGINNING",
    "END",
    "KEY_REUSED",
    "LIMIT_REACHED",
    "NOTHING_TO_UNDO",
    "NO_SUCH_RUN",
    "RUN_CLOSED",
    "SQL",
    "add_fired",
    "add_missed",
    "add_runs",
    "answer",
    "change_schedule",
    "create_schedule",
    "drop_template",
    "ensure_partitions",
    "find_by_request",
    "find_due",
    "find_expense",
    "find_fired",
    "find_plannings",
    "find_run",
    "find_schedule",
    "find_taken",
    "finish_archived",
    "list_expenses",
    "list_missed",
    "list_receipts",
    "list_reminders",
    "list_runs",
    "list_schedules",
    "list_upcoming",
    "move_schedule",
    "note_runs",
    "put_template",
    "queue_reminders",
    "receipt_of",
    "skip_runs",
    "supersede_reminders",
    "undo",
]

SQL = load_queries(__file__)
KEY_REUSED, NO_SUCH_RUN, ALREADY_ANSWERED, RUN_CLOSED, NOTHING_TO_UNDO = "DU002", "DU005", "DU006", "DU007", "DU008"
LIMIT_REACHED = "DU010"
BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
END = datetime(2200, 1, 1, tzinfo=UTC)
Owner = int | None  # a person's id; None: an operator asks, who sees everybody's


# Schedules ------------------------------------------------------------------------------------------------------------


async def create_schedule(
    connection: Connection, user_id: int, wanted: NewSchedule, key: str | None = None
) -> int | None:
    """Make a schedule; None when a request with this key made one before."""
    return await find_value(
        connection,
        SQL.create_schedule,
        user_id=user_id,
        name=wanted.name,
        description=wanted.description,
        rule=wanted.rule,
        first_run_at=wanted.first_run_at,
        advance_minutes=wanted.advance_minutes,
        channel=wanted.channel,
        catch_up=wanted.catch_up,
        key=key,
        digest=wanted.digest if key is not None else None,
    )


async def put_template(connection: Connection, user_id: Owner, job_id: int, expense: ExpenseTemplate) -> None:
    """Say what is booked for its runs."""
    await change(
        connection,
        SQL.put_template,
        user_id=user_id,
        job_id=job_id,
        amount=expense.amount,
        currency=expense.currency,
        category=expense.category,
        merchant=expense.merchant,
        note=expense.note,
    )


async def drop_template(connection: Connection, user_id: Owner, job_id: int) -> None:
    """Book nothing any more."""
    await change(connection, SQL.drop_template, user_id=user_id, job_id=job_id)


async def find_by_request(connection: Connection, user_id: int, key: str) -> Row | None:
    """The schedule that a request made: its `id` and the `request_digest`."""
    return await find_row(connection, SQL.find_by_request, user_id=user_id, key=key)


async def change_schedule(
    connection: Connection, user_id: Owner, job_id: int, changes: Mapping[str, object]
) -> int | None:
    """Change what is given; None when there is no such schedule, or it is archived."""
    columns = ("name", "description", "rule", "first_run_at", "advance_minutes", "channel", "catch_up")
    values = {column: changes.get(column) for column in columns}
    return await find_value(connection, SQL.change_schedule, user_id=user_id, job_id=job_id, **values)


async def move_schedule(connection: Connection, user_id: Owner, job_id: int, to: Status) -> int | None:
    """Pause, resume or archive; None when it is so already, or there is none."""
    return await find_value(connection, SQL.move_schedule, user_id=user_id, job_id=job_id, to=to)


async def find_schedule(connection: Connection, user_id: Owner, job_id: int) -> Schedule | None:
    """A schedule of this person's."""
    row = await find_row(connection, SQL.find_schedule, user_id=user_id, job_id=job_id)
    return schedule_of(row) if row else None


async def list_schedules(
    connection: Connection, user_id: Owner, status: Status | None = None, after: int = 0, limit: int = 100
) -> Sequence[Schedule]:
    """A page of this person's schedules."""
    rows = await get_rows(connection, SQL.list_schedules, user_id=user_id, status=status, after=after, limit=limit)
    return [schedule_of(row) for row in rows]


async def add_fired(connection: Connection, user_id: Owner, job_id: int) -> int | None:
    """Make a run besides the rule; None when this minute has one, or there is no such schedule."""
    return await find_value(connection, SQL.add_fired, user_id=user_id, job_id=job_id)


async def find_fired(connection: Connection, user_id: Owner, job_id: int) -> int | None:
    """The run besides the rule that this minute has."""
    return await find_value(connection, SQL.find_fired, user_id=user_id, job_id=job_id)


# Runs -----------------------------------------------------------------------------------------------------------------


async def find_run(connection: Connection, user_id: Owner, run_id: int) -> Run | None:
    """A run of this person's."""
    row = await find_row(connection, SQL.find_run, user_id=user_id, run_id=run_id)
    return run_of(row) if row else None


async def list_runs(
    connection: Connection,
    user_id: Owner,
    *,
    job_id: int | None = None,
    status: RunStatus | None = None,
    between: tuple[datetime, datetime] = (BEGINNING, END),
    before: tuple[datetime, int] = (END, 2**63 - 1),
    limit: int = 100,
) -> Sequence[Run]:
    """A page of this person's runs."""
    rows = await get_rows(
        connection,
        SQL.list_runs,
        user_id=user_id,
        job_id=job_id,
        status=status,
        from_at=between[0],
        to_at=between[1],
        before_at=before[0],
        before_id=before[1],
        limit=limit,
    )
    return [run_of(row) for row in rows]


async def list_upcoming(connection: Connection, user_id: Owner, limit: int = 100) -> Sequence[Upcoming]:
    """What is coming for this person."""
    rows = await get_rows(connection, SQL.list_upcoming, user_id=user_id, limit=limit)
    return [Upcoming(**row) for row in rows]


async def list_reminders(connection: Connection, user_id: Owner, run_id: int, limit: int = 100) -> Sequence[Reminder]:
    """What was sent about a run."""
    rows = await get_rows(connection, SQL.list_reminders, user_id=user_id, run_id=run_id, limit=limit)
    return [Reminder(**row) for row in rows]


# Answers --------------------------------------------------------------------------------------------------------------


async def answer(connection: Connection, user_id: Owner, run_id: int, given: Answer) -> Row:
    """Answer a run: whether it `is_new`, and the `receipt`."""
    return await get_row(
        connection,
        SQL.answer,
        user_id=user_id,
        run_id=run_id,
        action=given.action,
        key=given.key,
        given=Jsonb(dict(given.given)) if given.given else None,
    )


async def list_receipts(connection: Connection, user_id: Owner, run_id: int, limit: int = 100) -> Sequence[Receipt]:
    """What was answered to a run."""
    rows = await get_rows(connection, SQL.list_receipts, user_id=user_id, run_id=run_id, limit=limit)
    return [receipt_of(row["receipt"]) for row in rows]


async def undo(connection: Connection, user_id: Owner, run_id: int, seconds: float) -> Row:
    """Take back what was booked: whether that `is_new`, and which `entry` does it."""
    return await get_row(connection, SQL.undo, user_id=user_id, run_id=run_id, seconds=seconds)


async def list_expenses(
    connection: Connection,
    user_id: Owner,
    *,
    between: tuple[datetime, datetime] = (BEGINNING, END),
    after: int = 0,
    limit: int = 100,
) -> Sequence[Expense]:
    """A page of this person's entries."""
    rows = await get_rows(
        connection,
        SQL.list_expenses,
        user_id=user_id,
        from_at=between[0],
        to_at=between[1],
        after=after,
        limit=limit,
    )
    return [Expense(**row) for row in rows]


async def find_expense(connection: Connection, user_id: Owner, entry: int) -> Expense | None:
    """An entry of this person's."""
    row = await find_row(connection, SQL.find_expense, user_id=user_id, entry=entry)
    return Expense(**row) if row else None


# Planning and reminding -----------------------------------------------------------------------------------------------


async def find_plannings(connection: Connection, keys: Sequence[int]) -> Mapping[int, Planning]:
    """What there is to know of schedules that are to be planned."""
    rows = await get_rows(connection, SQL.find_plannings, keys=list(keys))
    return {row["job_id"]: Planning(**row) for row in rows}


async def add_runs(connection: Connection, firings: Sequence[Firing]) -> Sequence[Row]:
    """Make the runs of periods that have none; each with its `id`, `job_id`, `period_key` and `scheduled_at`."""
    return await get_rows(
        connection,
        SQL.add_runs,
        jobs=[each.job_id for each in firings],
        periods=[each.period_key for each in firings],
        scheduled=[each.scheduled_at for each in firings],
        reminds=[each.remind_at for each in firings],
    )


async def find_taken(connection: Connection, firings: Sequence[Firing]) -> Sequence[Row]:
    """Of these firings those whose period has a run at another instant: `taken_by` its id, `taken_at` its time."""
    return await get_rows(
        connection,
        SQL.find_taken,
        jobs=[each.job_id for each in firings],
        periods=[each.period_key for each in firings],
        scheduled=[each.scheduled_at for each in firings],
    )


async def note_runs(connection: Connection, notes: Sequence[tuple[int, datetime, str]]) -> int:
    """Write a note on runs that nobody was reminded of: run, its time, and the note."""
    return await change(
        connection,
        SQL.note_runs,
        ids=[run for run, _, _ in notes],
        scheduled=[at for _, at, _ in notes],
        notes=[note for _, _, note in notes],
    )


async def add_missed(connection: Connection, missed: Sequence[MissedRange]) -> int:
    """Keep missed firings as ranges."""
    return await change(
        connection,
        SQL.add_missed,
        jobs=[each.job_id for each in missed],
        from_at=[each.from_at for each in missed],
        until_at=[each.until_at for each in missed],
        rules=[each.rule for each in missed],
        zones=[each.zone for each in missed],
        first_run_at=[each.first_run_at for each in missed],
        reasons=[each.reason for each in missed],
    )


async def list_missed(
    connection: Connection, user_id: Owner, job_id: int, after: datetime, limit: int
) -> Sequence[MissedRange]:
    """Missed ranges of a schedule of this person that end after an instant, the earliest first."""
    rows = await get_rows(connection, SQL.list_missed, user_id=user_id, job_id=job_id, after=after, limit=limit)
    return [MissedRange(**row) for row in rows]


async def finish_archived(connection: Connection) -> int:
    """Cancel the next open runs of a schedule that was archived with very many; 0 when there is none."""
    return await get_value(connection, SQL.finish_archived)


async def skip_runs(connection: Connection, skipped: Sequence[tuple[int, datetime, str]]) -> int:
    """Account for periods that were missed: run, its time, and the reason."""
    return await change(
        connection,
        SQL.skip_runs,
        ids=[run for run, _, _ in skipped],
        scheduled=[at for _, at, _ in skipped],
        reasons=[reason for _, _, reason in skipped],
    )


async def find_due(connection: Connection, limit: int) -> Sequence[DueRun]:
    """Hold, for this transaction, runs whose reminder is due."""
    return [DueRun(**row) for row in await get_rows(connection, SQL.find_due, limit=limit)]


async def supersede_reminders(connection: Connection, due: Sequence[DueRun]) -> int:
    """Withdraw waiting messages of earlier runs of these schedules, and skip those runs; how many there were."""
    return await change(
        connection,
        SQL.supersede_reminders,
        jobs=[each.job_id for each in due],
        channels=[each.channel for each in due],
        recipients=[each.uid for each in due],
    )


async def queue_reminders(connection: Connection, due: Sequence[DueRun], payloads: Sequence[Mapping[str, Any]]) -> int:
    """Write the messages about runs, and that they are written."""
    return await change(
        connection,
        SQL.queue_reminders,
        runs=[each.id for each in due],
        scheduled=[each.scheduled_at for each in due],
        channels=[each.channel for each in due],
        recipients=[each.uid for each in due],
        payloads=[Jsonb(dict(payload)) for payload in payloads],
        keys=[f"reminder:{each.id}:{each.remind_at.astimezone(UTC).isoformat()}" for each in due],
        due=[each.tell_at for each in due],
    )


async def ensure_partitions(connection: Connection) -> int:
    """Make the partitions of the months to come; how many were missing."""
    return await get_value(connection, SQL.ensure_partitions)


# Within ---------------------------------------------------------------------------------------------------------------


def schedule_of(row: Row) -> Schedule:
    """A row as a schedule."""
    return replace(Schedule(**row), status=Status(row["status"]), catch_up=CatchUp(row["catch_up"]))


def run_of(row: Row) -> Run:
    """A row as a run."""
    return replace(Run(**row), status=RunStatus(row["status"]))


def receipt_of(receipt: Mapping[str, Any]) -> Receipt:
    """A receipt as the database writes it."""
    times = {name: datetime.fromisoformat(receipt[name]) for name in ("confirmed_at", "remind_at") if name in receipt}
    return replace(Receipt(**receipt), action=Action(receipt["action"]), **times)
