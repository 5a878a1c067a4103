"""Run one statement per function."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from psycopg.types.json import Jsonb

from duly.apps.scheduler.model import (
    BEGINNING,
    END,
    MAX_ID,
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
    ScheduleStatus,
    Upcoming,
    parse_receipt,
)
from duly.apps.scheduler.planning import Firing, MissedRange, PlanningInput
from duly.apps.scheduler.reasons import ClosingReason, parse_reason
from duly.db.queries import load_queries
from duly.db.rows import Connection, Row, execute, find_row, find_value, get_row, get_rows, get_value
from duly.outbox.channel import NOT_CONFIGURED

SQL = load_queries(__file__)
UserScope = int | None  # whose rows a statement sees: a user's, by id, or for an operator (None) every user's


# Schedules ------------------------------------------------------------------------------------------------------------


async def create_schedule(
    connection: Connection, user_id: int, new: NewSchedule, idempotency_key: str | None = None
) -> int | None:
    """Create a schedule; None when a request with this key created one before."""
    return await find_value(
        connection,
        SQL.create_schedule,
        user_id=user_id,
        name=new.name,
        description=new.description,
        rule=new.rule,
        first_run_at=new.first_run_at,
        advance_minutes=new.advance_minutes,
        channel=new.channel,
        catch_up=new.catch_up,
        idempotency_key=idempotency_key,
        digest=new.digest if idempotency_key is not None else None,
    )


async def put_expense_template(
    connection: Connection, user_id: UserScope, schedule_id: int, expense: ExpenseTemplate
) -> None:
    """Set the expense that its runs book."""
    await execute(
        connection,
        SQL.put_expense_template,
        user_id=user_id,
        schedule_id=schedule_id,
        amount=expense.amount,
        currency=expense.currency,
        category=expense.category,
        merchant=expense.merchant,
        note=expense.note,
    )


async def drop_expense_template(connection: Connection, user_id: UserScope, schedule_id: int) -> None:
    """Remove the expense that its runs book."""
    await execute(connection, SQL.drop_expense_template, user_id=user_id, schedule_id=schedule_id)


async def find_by_idempotency_key(connection: Connection, user_id: int, idempotency_key: str) -> Row | None:
    """Return the `id` and `request_digest` of the schedule that a request created."""
    return await find_row(connection, SQL.find_by_idempotency_key, user_id=user_id, idempotency_key=idempotency_key)


async def change_schedule(
    connection: Connection, user_id: UserScope, schedule_id: int, changes: Mapping[str, object]
) -> int | None:
    """Change what is given; None when the schedule does not exist or is archived."""
    columns = ("name", "description", "rule", "first_run_at", "advance_minutes", "channel", "catch_up")
    values = {column: changes.get(column) for column in columns}
    return await find_value(connection, SQL.change_schedule, user_id=user_id, schedule_id=schedule_id, **values)


async def set_schedule_status(
    connection: Connection, user_id: UserScope, schedule_id: int, to: ScheduleStatus
) -> int | None:
    """Pause, resume or archive; None when nothing was to be changed, or the schedule does not exist."""
    return await find_value(connection, SQL.set_schedule_status, user_id=user_id, schedule_id=schedule_id, to=to)


async def find_schedule(connection: Connection, user_id: UserScope, schedule_id: int) -> Schedule | None:
    """Return a schedule of this user."""
    row = await find_row(connection, SQL.find_schedule, user_id=user_id, schedule_id=schedule_id)
    return to_schedule(row) if row else None


async def list_schedules(
    connection: Connection, user_id: UserScope, status: ScheduleStatus | None = None, after: int = 0, limit: int = 100
) -> Sequence[Schedule]:
    """Return a page of this user's schedules."""
    rows = await get_rows(connection, SQL.list_schedules, user_id=user_id, status=status, after=after, limit=limit)
    return [to_schedule(row) for row in rows]


async def add_manual_run(connection: Connection, user_id: UserScope, schedule_id: int) -> int | None:
    """Create a run outside of the rule; None when this minute has one, or the schedule does not exist."""
    return await find_value(connection, SQL.add_manual_run, user_id=user_id, schedule_id=schedule_id)


async def find_manual_run(connection: Connection, user_id: UserScope, schedule_id: int) -> int | None:
    """Return the id of the run outside of the rule that this minute has."""
    return await find_value(connection, SQL.find_manual_run, user_id=user_id, schedule_id=schedule_id)


# Runs -----------------------------------------------------------------------------------------------------------------


async def find_run(connection: Connection, user_id: UserScope, run_id: int) -> Run | None:
    """Return a run of this user."""
    row = await find_row(connection, SQL.find_run, user_id=user_id, run_id=run_id)
    return to_run(row) if row else None


async def list_runs(
    connection: Connection,
    user_id: UserScope,
    *,
    schedule_id: int | None = None,
    status: RunStatus | None = None,
    between: tuple[datetime, datetime] = (BEGINNING, END),
    before: tuple[datetime, int] = (END, MAX_ID),
    limit: int = 100,
) -> Sequence[Run]:
    """Return a page of this user's runs."""
    rows = await get_rows(
        connection,
        SQL.list_runs,
        user_id=user_id,
        schedule_id=schedule_id,
        status=status,
        from_at=between[0],
        to_at=between[1],
        before_at=before[0],
        before_id=before[1],
        limit=limit,
    )
    return [to_run(row) for row in rows]


async def list_upcoming(connection: Connection, user_id: UserScope, limit: int = 100) -> Sequence[Upcoming]:
    """Return open runs and next firings of this user."""
    rows = await get_rows(connection, SQL.list_upcoming, user_id=user_id, limit=limit)
    return [Upcoming(**row) for row in rows]


async def list_reminders(
    connection: Connection, user_id: UserScope, run_id: int, limit: int = 100
) -> Sequence[Reminder]:
    """Return the messages that were sent about a run."""
    rows = await get_rows(connection, SQL.list_reminders, user_id=user_id, run_id=run_id, limit=limit)
    return [Reminder(**row) for row in rows]


# Answers --------------------------------------------------------------------------------------------------------------


async def answer_run(connection: Connection, user_id: UserScope, run_id: int, answer: Answer) -> Row:
    """Answer a run; return whether the answer `is_new`, and its `receipt`."""
    return await get_row(
        connection,
        SQL.answer_run,
        user_id=user_id,
        run_id=run_id,
        action=answer.action,
        key=answer.key,
        payload=Jsonb(dict(answer.payload)) if answer.payload else None,
    )


async def list_receipts(connection: Connection, user_id: UserScope, run_id: int, limit: int = 100) -> Sequence[Receipt]:
    """Return the receipts of the answers to a run."""
    rows = await get_rows(connection, SQL.list_receipts, user_id=user_id, run_id=run_id, limit=limit)
    return [parse_receipt(row["receipt"]) for row in rows]


async def reverse_expense(connection: Connection, user_id: UserScope, run_id: int, seconds: float) -> Row:
    """Reverse the expense of a run by another; return whether that `is_new`, and its id as `expense_id`."""
    return await get_row(connection, SQL.reverse_expense, user_id=user_id, run_id=run_id, seconds=seconds)


async def list_expenses(
    connection: Connection,
    user_id: UserScope,
    *,
    between: tuple[datetime, datetime] = (BEGINNING, END),
    after: int = 0,
    limit: int = 100,
) -> Sequence[Expense]:
    """Return a page of this user's expenses."""
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


async def find_expense(connection: Connection, user_id: UserScope, expense_id: int) -> Expense | None:
    """Return an expense of this user."""
    row = await find_row(connection, SQL.find_expense, user_id=user_id, expense_id=expense_id)
    return Expense(**row) if row else None


# Planning and reminding -----------------------------------------------------------------------------------------------


async def find_planning_inputs(connection: Connection, schedule_ids: Sequence[int]) -> Mapping[int, PlanningInput]:
    """Return the inputs for planning these schedules, by schedule id."""
    if not schedule_ids:
        return {}
    rows = await get_rows(connection, SQL.find_planning_inputs, schedule_ids=list(schedule_ids))
    return {row["schedule_id"]: PlanningInput(**row) for row in rows}


async def add_runs(connection: Connection, firings: Sequence[Firing]) -> Sequence[Row]:
    """Create runs for periods that have none; return `id`, `schedule_id`, `period_key`, `scheduled_at` of each."""
    return await get_rows(
        connection,
        SQL.add_runs,
        schedules=[each.schedule_id for each in firings],
        periods=[each.period_key for each in firings],
        scheduled=[each.scheduled_at for each in firings],
        reminds=[each.remind_at for each in firings],
    )


async def find_existing_runs(connection: Connection, firings: Sequence[Firing]) -> Sequence[Row]:
    """Return the firings whose period has a run at another instant, its `existing_run_id` and `existing_at`."""
    return await get_rows(
        connection,
        SQL.find_existing_runs,
        schedules=[each.schedule_id for each in firings],
        periods=[each.period_key for each in firings],
        scheduled=[each.scheduled_at for each in firings],
    )


async def note_runs(connection: Connection, notes: Sequence[tuple[int, datetime, str]]) -> int:
    """Write notes on pending runs, given as run id, scheduled time and note."""
    return await execute(
        connection,
        SQL.note_runs,
        ids=[run for run, _, _ in notes],
        scheduled=[at for _, at, _ in notes],
        notes=[note for _, _, note in notes],
    )


async def add_missed(connection: Connection, missed: Sequence[MissedRange]) -> int:
    """Store missed firings as ranges."""
    return await execute(
        connection,
        SQL.add_missed,
        schedules=[each.schedule_id for each in missed],
        from_at=[each.from_at for each in missed],
        until_at=[each.until_at for each in missed],
        rules=[each.rule for each in missed],
        zones=[each.zone for each in missed],
        not_before=[each.not_before for each in missed],
        reasons=[each.reason for each in missed],
    )


async def list_missed_ranges(
    connection: Connection, user_id: UserScope, schedule_id: int, ended_by: datetime, limit: int
) -> Sequence[MissedRange]:
    """Return the missed ranges of this user's schedule that end after an instant, the earliest first."""
    rows = await get_rows(
        connection, SQL.list_missed_ranges, user_id=user_id, schedule_id=schedule_id, ended_by=ended_by, limit=limit
    )
    return [replace(MissedRange(**row), reason=ClosingReason(row["reason"])) for row in rows]


async def cancel_archived_runs(connection: Connection) -> int:
    """Cancel the next batch of open runs of an archived schedule; 0 when there are none."""
    return await get_value(connection, SQL.cancel_archived_runs)


async def close_missed_runs(connection: Connection, missed: Sequence[tuple[int, datetime, ClosingReason]]) -> int:
    """Close runs that were missed, given as run id, scheduled time and reason; their status becomes `skipped`."""
    return await execute(
        connection,
        SQL.close_missed_runs,
        ids=[run for run, _, _ in missed],
        scheduled=[at for _, at, _ in missed],
        reasons=[reason for _, _, reason in missed],
    )


async def find_due(connection: Connection, limit: int) -> Sequence[DueRun]:
    """Lock runs whose reminder is due until the end of the transaction."""
    rows = await get_rows(connection, SQL.find_due, limit=limit)
    return [replace(DueRun(**row), missed_reason=parse_reason(row["missed_reason"] or "")) for row in rows]


async def supersede_reminders(connection: Connection, due: Sequence[DueRun]) -> int:
    """Fail messages of earlier runs of these schedules that wait for a setting, and close those runs as missed."""
    return await execute(
        connection,
        SQL.supersede_reminders,
        schedules=sorted({each.schedule_id for each in due}),
        waiting=NOT_CONFIGURED,
        reason=ClosingReason.SUPERSEDED,
    )


async def queue_reminders(connection: Connection, due: Sequence[DueRun], payloads: Sequence[Mapping[str, Any]]) -> int:
    """Insert the messages about runs into the outbox, and mark the runs."""
    return await execute(
        connection,
        SQL.queue_reminders,
        runs=[each.id for each in due],
        scheduled=[each.scheduled_at for each in due],
        channels=[each.channel for each in due],
        recipients=[each.uid for each in due],
        payloads=[Jsonb(dict(payload)) for payload in payloads],
        keys=[f"reminder:{each.id}:{each.remind_at.astimezone(UTC).isoformat()}" for each in due],
        due=[each.send_at for each in due],
    )


async def ensure_partitions(connection: Connection) -> int:
    """Create the partitions of the coming months; return how many were missing."""
    return await get_value(connection, SQL.ensure_partitions)


# Helpers --------------------------------------------------------------------------------------------------------------


def to_schedule(row: Row) -> Schedule:
    """Return a row as a schedule."""
    return replace(Schedule(**row), status=ScheduleStatus(row["status"]), catch_up=CatchUp(row["catch_up"]))


def to_run(row: Row) -> Run:
    """Return a row as a run."""
    return replace(Run(**row), status=RunStatus(row["status"]))
