"""What the entry points call: schedules, runs, answers and expenses. Each function is one short transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal

from psycopg.errors import ForeignKeyViolation, UniqueViolation

from duly.accounts import Person
from duly.apps.scheduler import repository
from duly.apps.scheduler.model import (
    BEGINNING,
    END,
    MAX_ID,
    MAX_KEY_LENGTH,
    Answer,
    Expense,
    ExpenseTemplate,
    MissedPeriod,
    NewSchedule,
    Receipt,
    Reminder,
    Run,
    RunStatus,
    Schedule,
    ScheduleStatus,
    Upcoming,
    check_text,
    parse_receipt,
    to_amount,
)
from duly.apps.scheduler.planning import missed_firings
from duly.apps.scheduler.reasons import describe_reason
from duly.apps.scheduler.repository import UserScope
from duly.db.error_table import translate_errors
from duly.db.idempotency import create_once
from duly.db.pool import Pool
from duly.db.rows import Connection
from duly.errors import AlreadyAnswered, IllegalTransition, InvalidArgument, NotFound, RunClosed
from duly.formatting import format_time
from duly.lease import timeline
from duly.outcomes import Created, Creation, Existing
from duly.paging import Page, build_page, checked_limit, decode_cursor

DEFAULT_REVERSAL_SECONDS = 600.0


def require_user_id(person: Person) -> int:
    """Return the id of a person in "user".users, which owns their schedules; raises NotFound."""
    if person.user_id is None:
        raise NotFound(
            f'{person.uid} is not linked to a user of "user".users; link them with: duly people link {person.uid} ID'
        )
    return person.user_id


# Schedules ------------------------------------------------------------------------------------------------------------


async def create_schedule(
    pool: Pool, user_id: int, new: NewSchedule, idempotency_key: str | None = None
) -> Creation[Schedule]:
    """Create a schedule; the same request under the same key creates one."""
    if idempotency_key is not None:
        check_text("idempotency_key", idempotency_key, MAX_KEY_LENGTH)

    async def insert() -> tuple[int, bool] | None:
        schedule_id = await repository.create_schedule(connection, user_id, new, idempotency_key)
        if schedule_id is None:
            return None
        if new.expense:
            await repository.put_expense_template(connection, user_id, schedule_id, new.expense)
        return schedule_id, True

    async def find() -> tuple[int, bool] | None:
        assert idempotency_key is not None, "a request without a key has no conflict"
        row = await repository.find_by_idempotency_key(connection, user_id, idempotency_key)
        return (row["id"], row["request_digest"] == new.digest) if row else None

    try:
        with translate_errors():
            async with pool.transaction() as connection:
                creation = await create_once(
                    insert, find, lambda row: row[1], f"the key {idempotency_key} was used for another schedule"
                )
                schedule = await fetch_schedule(connection, user_id, creation.row[0])
    except ForeignKeyViolation:
        raise NotFound(f"there is no user with the id {user_id}; create people with: duly people create") from None
    return Created(schedule) if isinstance(creation, Created) else Existing(schedule)


async def change_schedule(
    pool: Pool,
    user_id: UserScope,
    schedule_id: int,
    changes: Mapping[str, Any],
    expense: ExpenseTemplate | Literal["none"] | None = None,
) -> Schedule:
    """Change what is given. A new rule applies from its next firing; runs without a reminder are planned again."""
    with translate_errors():
        async with pool.transaction() as connection:
            before = await fetch_schedule(connection, user_id, schedule_id)
            check_changes(before, changes)
            if await repository.change_schedule(connection, user_id, schedule_id, changes) is None:
                raise IllegalTransition(f"schedule {schedule_id} is archived and cannot be changed")
            if expense == "none":
                await repository.drop_expense_template(connection, user_id, schedule_id)
            elif expense is not None:
                await repository.put_expense_template(connection, user_id, schedule_id, expense)
            return await fetch_schedule(connection, user_id, schedule_id)


async def set_schedule_status(pool: Pool, user_id: UserScope, schedule_id: int, to: ScheduleStatus) -> Schedule:
    """Pause, resume or archive; a schedule with that status stays as it is, but a stuck one is planned again.

    A trigger of the database (scheduler.change_plan) withdraws, cancels or plans its runs.
    """
    with translate_errors():
        async with pool.transaction() as connection:
            await repository.set_schedule_status(connection, user_id, schedule_id, to)
            return await fetch_schedule(connection, user_id, schedule_id)


async def fire_schedule(pool: Pool, user_id: UserScope, schedule_id: int) -> Creation[Run]:
    """Create a run outside of the rule, due now; at most one per minute."""
    try:
        with translate_errors():
            async with pool.transaction() as connection:
                schedule = await fetch_schedule(connection, user_id, schedule_id)
                if schedule.status is ScheduleStatus.ARCHIVED:
                    raise IllegalTransition(f"schedule {schedule_id} is archived and has no more runs")
                if (run_id := await repository.add_manual_run(connection, user_id, schedule_id)) is not None:
                    return Created(await fetch_run(connection, user_id, run_id))
    except UniqueViolation:
        pass  # another request created it
    async with pool.transaction() as connection:
        if (found := await repository.find_manual_run(connection, user_id, schedule_id)) is None:
            return await fire_schedule(pool, user_id, schedule_id)  # the minute is over
        return Existing(await fetch_run(connection, user_id, found))


async def get_schedule(pool: Pool, user_id: UserScope, schedule_id: int) -> Schedule:
    """Return a schedule of this user; NotFound when there is none."""
    async with pool.transaction() as connection:
        return await fetch_schedule(connection, user_id, schedule_id)


async def list_schedules(
    pool: Pool, user_id: UserScope, *, status: ScheduleStatus | None = None, cursor: str | None = None, limit: int = 100
) -> Page[Schedule]:
    """Return a page of this user's schedules, the oldest first."""
    after = 0 if cursor is None else decode_cursor(cursor, int)[0]
    async with pool.transaction() as connection:
        rows = await repository.list_schedules(connection, user_id, status, after, checked_limit(limit) + 1)
    return build_page(rows, limit, lambda each: (each.id,))


# Runs -----------------------------------------------------------------------------------------------------------------


async def get_run(pool: Pool, user_id: UserScope, run_id: int) -> Run:
    """Return a run of this user; NotFound when there is none."""
    async with pool.transaction() as connection:
        return await fetch_run(connection, user_id, run_id)


async def list_runs(
    pool: Pool,
    user_id: UserScope,
    *,
    schedule_id: int | None = None,
    status: RunStatus | None = None,
    between: tuple[datetime, datetime] = (BEGINNING, END),
    cursor: str | None = None,
    limit: int = 100,
) -> Page[Run]:
    """Return a page of this user's runs, the latest first."""
    before = (END, MAX_ID) if cursor is None else decode_cursor(cursor, datetime.fromisoformat, int)
    async with pool.transaction() as connection:
        rows = await repository.list_runs(
            connection,
            user_id,
            schedule_id=schedule_id,
            status=status,
            between=between,
            before=(before[0], before[1]),
            limit=checked_limit(limit) + 1,
        )
    return build_page(rows, limit, lambda run: (run.scheduled_at, run.id))


async def list_missed(
    pool: Pool, user_id: UserScope, schedule_id: int, *, cursor: str | None = None, limit: int = 100
) -> Page[MissedPeriod]:
    """Return a page of the missed periods of a schedule that have no run, the earliest first."""
    after = ended_by = BEGINNING if cursor is None else decode_cursor(cursor, datetime.fromisoformat)[0]
    wanted = checked_limit(limit) + 1
    found: list[MissedPeriod] = []
    async with pool.transaction() as connection:
        await fetch_schedule(connection, user_id, schedule_id)
        while len(found) < wanted and (
            ranges := await repository.list_missed_ranges(connection, user_id, schedule_id, ended_by, wanted)
        ):
            periods = (
                MissedPeriod(schedule_id, firing.period_key, firing.scheduled_at, each.reason)
                for each in ranges
                for firing in missed_firings(each, after)  # none, if the rule was changed again at once
            )
            found += islice(periods, wanted - len(found))
            ended_by = ranges[-1].until_at
    return build_page(found, limit, lambda each: (each.scheduled_at,))


async def list_upcoming(pool: Pool, user_id: UserScope, *, limit: int = 100) -> Sequence[Upcoming]:
    """Return open runs and next firings of this user, the soonest first."""
    async with pool.transaction() as connection:
        return await repository.list_upcoming(connection, user_id, checked_limit(limit))


async def list_reminders(pool: Pool, user_id: UserScope, run_id: int) -> Sequence[Reminder]:
    """Return the messages that were sent about a run."""
    async with pool.transaction() as connection:
        return await repository.list_reminders(connection, user_id, run_id)


async def list_transitions(
    pool: Pool, user_id: UserScope, run_id: int, *, cursor: str | None = None, limit: int = 100
) -> Page[timeline.Transition]:
    """Return a page of a run's transitions, in order."""
    async with pool.transaction() as connection:
        await fetch_run(connection, user_id, run_id)
        return await timeline.list_transitions(connection, "run", run_id, cursor=cursor, limit=limit)


# Answers and expenses -------------------------------------------------------------------------------------------------


async def answer_run(pool: Pool, user_id: UserScope, run_id: int, answer: Answer) -> Creation[Receipt]:
    """Answer a run, once: scheduler.answer() writes the confirmation, the run's status and the expense together."""
    try:
        with translate_errors():
            async with pool.statement() as connection:
                row = await repository.answer_run(connection, user_id, run_id, with_normalized_amount(answer))
    except AlreadyAnswered as error:
        raise AlreadyAnswered(describe_first_answer(error.receipt or {}, str(error)), error.receipt) from None
    except RunClosed as error:
        why = f": {describe_reason(error.reason)}" if error.reason else ""
        raise RunClosed(f"{error}{why}", error.reason) from None
    receipt = parse_receipt(row["receipt"])
    return Created(receipt) if row["is_new"] else Existing(receipt)


async def reverse_expense(
    pool: Pool, user_id: UserScope, run_id: int, within_seconds: float = DEFAULT_REVERSAL_SECONDS
) -> Creation[Expense]:
    """Reverse the expense of a run by a second one; the run stays confirmed."""
    with translate_errors():
        async with pool.transaction() as connection:
            row = await repository.reverse_expense(connection, user_id, run_id, within_seconds)
            expense = await repository.find_expense(connection, user_id, row["expense_id"])
            assert expense is not None, "it was just written or read"
    return Created(expense) if row["is_new"] else Existing(expense)


async def list_receipts(pool: Pool, user_id: UserScope, run_id: int) -> Sequence[Receipt]:
    """Return the receipts of the answers to a run, in order."""
    async with pool.transaction() as connection:
        return await repository.list_receipts(connection, user_id, run_id)


async def list_expenses(
    pool: Pool,
    user_id: UserScope,
    *,
    between: tuple[datetime, datetime] = (BEGINNING, END),
    cursor: str | None = None,
    limit: int = 100,
) -> Page[Expense]:
    """Return a page of this user's expenses, in the order of their ids."""
    after = 0 if cursor is None else decode_cursor(cursor, int)[0]
    async with pool.transaction() as connection:
        rows = await repository.list_expenses(
            connection, user_id, between=between, after=after, limit=checked_limit(limit) + 1
        )
    return build_page(rows, limit, lambda each: (each.id,))


# Helpers --------------------------------------------------------------------------------------------------------------


async def fetch_schedule(connection: Connection, user_id: UserScope, schedule_id: int) -> Schedule:
    """Return a schedule of this user; NotFound when there is none."""
    if schedule := await repository.find_schedule(connection, user_id, valid_id_or_zero(schedule_id)):
        return schedule
    raise NotFound(f"there is no schedule {schedule_id}")


async def fetch_run(connection: Connection, user_id: UserScope, run_id: int) -> Run:
    """Return a run of this user; NotFound when there is none."""
    if run := await repository.find_run(connection, user_id, valid_id_or_zero(run_id)):
        return run
    raise NotFound(f"there is no run {run_id}")


def valid_id_or_zero(number: int) -> int:
    """Return an id that fits a bigint; 0, which no row has, for any other number."""
    return number if 0 < number <= MAX_ID else 0


def with_normalized_amount(answer: Answer) -> Answer:
    """Return the answer with its amount in plain digits: Python accepts spaces and digits of any script."""
    if "amount" not in answer.payload:
        return answer
    amount = to_amount("payload.amount", answer.payload["amount"])
    return replace(answer, payload={**answer.payload, "amount": format(amount, "f")})


def check_changes(before: Schedule, changes: Mapping[str, Any]) -> None:
    """Raise InvalidArgument for changes that would make the schedule invalid."""
    known = {each.name for each in fields(NewSchedule)} - {"expense"}
    if unknown := sorted(set(changes) - known):
        raise InvalidArgument(f"{unknown[0]}: cannot be changed; fields that can: {', '.join(sorted(known))}")
    given = {name: value for name, value in changes.items() if value is not None}
    if given.get("description") == "":
        given["description"] = None  # an empty text removes it
    kept: dict[str, Any] = {name: getattr(before, name) for name in known}
    NewSchedule(**kept | given)


def describe_first_answer(receipt: Mapping[str, Any], message: str) -> str:
    """Describe the first answer with its time; return the database's message when it gave no receipt."""
    if "confirmed_at" not in receipt:
        return message
    at = datetime.fromisoformat(receipt["confirmed_at"]).astimezone(UTC)
    return f"run {receipt['job_run_id']} was answered already: {receipt['action']}, at {format_time(at)}"
