"""The verbs that doors call: schedules and what becomes of them, answers, and books. Each is one short transaction."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal

import orjson
from psycopg import DatabaseError
from psycopg.errors import CheckViolation, ForeignKeyViolation, UniqueViolation

from duly.apps.scheduler import repository
from duly.apps.scheduler.model import (
    MAX_KEY_LENGTH,
    Answer,
    Expense,
    ExpenseTemplate,
    Missed,
    NewSchedule,
    Receipt,
    Reminder,
    Run,
    RunStatus,
    Schedule,
    Status,
    Upcoming,
    checked_amount,
    checked_text,
)
from duly.apps.scheduler.plan import missed_periods
from duly.apps.scheduler.repository import BEGINNING, END, Owner
from duly.apps.scheduler.states import RUN_MACHINE
from duly.db.idempotency import create_once
from duly.db.pool import Pool
from duly.db.rows import Connection
from duly.errors import (
    AlreadyAnswered,
    IllegalMove,
    InvalidArgument,
    KeyReused,
    LimitReached,
    NotFound,
    NothingToUndo,
    RunClosed,
)
from duly.formatting import when
from duly.lease import state_machine, timeline
from duly.outcomes import Created, Creation, Existing
from duly.paging import Page, checked_limit, page_of, read_place

__all__ = [
    "DEFAULT_UNDO_SECONDS",
    "add_schedule",
    "answer_run",
    "change_schedule",
    "fire_schedule",
    "get_run",
    "get_schedule",
    "list_expenses",
    "list_missed",
    "list_receipts",
    "list_reminders",
    "list_runs",
    "list_schedules",
    "list_transitions",
    "list_upcoming",
    "move_schedule",
    "undo_answer",
]

DEFAULT_UNDO_SECONDS = 600.0
FIRST_RUN_AT = "ck_jobs__first_run_at"  # refuses a beginning that lies too far back


# Schedules ------------------------------------------------------------------------------------------------------------


async def add_schedule(
    pool: Pool, user_id: int, wanted: NewSchedule, key: str | None = None, *, begins_now: bool = False
) -> Creation[Schedule]:
    """Make a schedule; the same request under the same key makes one.

    A request that said no time, and so `begins_now`, is the same whenever it comes again.
    """
    if key is not None:
        checked_text("idempotency_key", key, MAX_KEY_LENGTH)

    async def insert() -> tuple[int, bool] | None:
        made = await repository.create_schedule(connection, user_id, wanted, key)
        if made is None:
            return None
        if wanted.expense:
            await repository.put_template(connection, user_id, made, wanted.expense)
        return made, True

    async def find() -> tuple[int, bool] | None:
        assert key is not None, "without a key nothing is in the way"
        row = await repository.find_by_request(connection, user_id, key)
        if row is None:
            return None
        began = (await get(connection, user_id, row["id"])).first_run_at if begins_now else wanted.first_run_at
        return row["id"], row["request_digest"] == replace(wanted, first_run_at=began).digest

    try:
        with as_our_errors():
            async with pool.transaction() as connection:
                made = await create_once(insert, find, lambda row: row[1], f"the key {key} stands for another schedule")
                schedule = await get(connection, user_id, made.row[0])
    except ForeignKeyViolation:
        raise NotFound(f"there is nobody with the id {user_id}; make people with: duly users create") from None
    return Created(schedule) if isinstance(made, Created) else Existing(schedule)


async def change_schedule(
    pool: Pool,
    user_id: Owner,
    job_id: int,
    changes: Mapping[str, Any],
    expense: ExpenseTemplate | Literal["none"] | None = None,
) -> Schedule:
    """Change what is given. A changed rule holds from its next firing; what nobody was told of yet is planned anew."""
    with as_our_errors():
        async with pool.transaction() as connection:
            before = await get(connection, user_id, job_id)
            checked_changes(before, changes)
            if await repository.change_schedule(connection, user_id, job_id, changes) is None:
                raise IllegalMove(f"schedule {job_id} is archived, and stays as it is")
            if expense == "none":
                await repository.drop_template(connection, user_id, job_id)
            elif expense is not None:
                await repository.put_template(connection, user_id, job_id, expense)
            return await get(connection, user_id, job_id)


async def move_schedule(pool: Pool, user_id: Owner, job_id: int, to: Status) -> Schedule:
    """Pause, resume or archive. Who is there already is left there."""
    with as_our_errors():
        async with pool.transaction() as connection:
            await repository.move_schedule(connection, user_id, job_id, to)
            return await get(connection, user_id, job_id)


async def fire_schedule(pool: Pool, user_id: Owner, job_id: int) -> Creation[Run]:
    """Make a run besides the rule, now; in one minute there is only one."""
    try:
        with as_our_errors():
            async with pool.transaction() as connection:
                schedule = await get(connection, user_id, job_id)
                if schedule.status is Status.ARCHIVED:
                    raise IllegalMove(f"schedule {job_id} is archived: it runs no more")
                if (made := await repository.add_fired(connection, user_id, job_id)) is not None:
                    return Created(await get_one_run(connection, user_id, made))
    except UniqueViolation:
        pass  # somebody else did, this instant
    async with pool.transaction() as connection:
        if (found := await repository.find_fired(connection, user_id, job_id)) is None:
            return await fire_schedule(pool, user_id, job_id)  # the minute is over
        return Existing(await get_one_run(connection, user_id, found))


async def get_schedule(pool: Pool, user_id: Owner, job_id: int) -> Schedule:
    """A schedule of this person's, or NotFound."""
    async with pool.transaction() as connection:
        return await get(connection, user_id, job_id)


async def list_schedules(
    pool: Pool, user_id: Owner, *, status: Status | None = None, place: str | None = None, limit: int = 100
) -> Page[Schedule]:
    """A page of this person's schedules, the oldest first."""
    after = 0 if place is None else read_place(place, int)[0]
    async with pool.transaction() as connection:
        rows = await repository.list_schedules(connection, user_id, status, after, checked_limit(limit) + 1)
    return page_of(rows, limit, lambda each: (each.id,))


# Runs -----------------------------------------------------------------------------------------------------------------


async def get_run(pool: Pool, user_id: Owner, run_id: int) -> Run:
    """A run of this person's, or NotFound."""
    async with pool.transaction() as connection:
        return await get_one_run(connection, user_id, run_id)


async def list_runs(
    pool: Pool,
    user_id: Owner,
    *,
    job_id: int | None = None,
    status: RunStatus | None = None,
    between: tuple[datetime, datetime] = (BEGINNING, END),
    place: str | None = None,
    limit: int = 100,
) -> Page[Run]:
    """A page of this person's runs, the latest first."""
    before = (END, 2**63 - 1) if place is None else read_place(place, datetime.fromisoformat, int)
    async with pool.transaction() as connection:
        rows = await repository.list_runs(
            connection,
            user_id,
            job_id=job_id,
            status=status,
            between=between,
            before=(before[0], before[1]),
            limit=checked_limit(limit) + 1,
        )
    return page_of(rows, limit, lambda run: (run.scheduled_at, run.id))


async def list_missed(
    pool: Pool, user_id: Owner, job_id: int, *, cursor: str | None = None, limit: int = 100
) -> Page[Missed]:
    """A page of the missed periods of a schedule that have no run of their own, the earliest first."""
    after = BEGINNING if cursor is None else read_place(cursor, datetime.fromisoformat)[0]
    async with pool.transaction() as connection:
        await get(connection, user_id, job_id)
        ranges = await repository.list_missed(connection, user_id, job_id, after, checked_limit(limit) + 1)
    named = (
        Missed(job_id, firing.period_key, firing.scheduled_at, each.reason)
        for each in ranges
        for firing in missed_periods(each, after)
    )
    return page_of(list(islice(named, limit + 1)), limit, lambda each: (each.scheduled_at,))


async def list_upcoming(pool: Pool, user_id: Owner, *, limit: int = 100) -> Sequence[Upcoming]:
    """What is coming for this person, the soonest first."""
    async with pool.transaction() as connection:
        return await repository.list_upcoming(connection, user_id, checked_limit(limit))


async def list_reminders(pool: Pool, user_id: Owner, run_id: int) -> Sequence[Reminder]:
    """What was sent about a run."""
    async with pool.transaction() as connection:
        return await repository.list_reminders(connection, user_id, run_id)


async def list_transitions(
    pool: Pool, user_id: Owner, run_id: int, *, place: str | None = None, limit: int = 100
) -> Page[timeline.Transition]:
    """A page of a run's log, in order."""
    async with pool.transaction() as connection:
        await get_one_run(connection, user_id, run_id)
        return await timeline.list_transitions(connection, RUN_MACHINE.name, run_id, place=place, limit=limit)


# Answers and books ----------------------------------------------------------------------------------------------------


async def answer_run(pool: Pool, user_id: Owner, run_id: int, answer: Answer) -> Creation[Receipt]:
    """Answer a run, once: the confirmation, the run's state and the entry in the books, or none of them."""
    with as_our_errors():
        async with pool.statement() as connection:
            row = await repository.answer(connection, user_id, run_id, with_plain_amount(answer))
    receipt = repository.receipt_of(row["receipt"])
    return Created(receipt) if row["is_new"] else Existing(receipt)


async def undo_answer(
    pool: Pool, user_id: Owner, run_id: int, within_seconds: float = DEFAULT_UNDO_SECONDS
) -> Creation[Expense]:
    """Take back what was booked for a run, by an entry of its own; the run stays confirmed."""
    with as_our_errors():
        async with pool.transaction() as connection:
            row = await repository.undo(connection, user_id, run_id, within_seconds)
            entry = await repository.find_expense(connection, user_id, row["entry"])
            assert entry is not None, "it was just written, or read"
    return Created(entry) if row["is_new"] else Existing(entry)


async def list_receipts(pool: Pool, user_id: Owner, run_id: int) -> Sequence[Receipt]:
    """What was answered to a run, in order."""
    async with pool.transaction() as connection:
        return await repository.list_receipts(connection, user_id, run_id)


async def list_expenses(
    pool: Pool,
    user_id: Owner,
    *,
    between: tuple[datetime, datetime] = (BEGINNING, END),
    place: str | None = None,
    limit: int = 100,
) -> Page[Expense]:
    """A page of this person's entries, in the order they came in."""
    after = 0 if place is None else read_place(place, int)[0]
    async with pool.transaction() as connection:
        rows = await repository.list_expenses(
            connection, user_id, between=between, after=after, limit=checked_limit(limit) + 1
        )
    return page_of(rows, limit, lambda each: (each.id,))


# Within ---------------------------------------------------------------------------------------------------------------


async def get(connection: Connection, user_id: Owner, job_id: int) -> Schedule:
    """A schedule of this person's, or NotFound."""
    if schedule := await repository.find_schedule(connection, user_id, checked_id(job_id)):
        return schedule
    raise NotFound(f"there is no schedule {job_id}")


async def get_one_run(connection: Connection, user_id: Owner, run_id: int) -> Run:
    """A run of this person's, or NotFound."""
    if run := await repository.find_run(connection, user_id, checked_id(run_id)):
        return run
    raise NotFound(f"there is no run {run_id}")


def checked_id(given: int) -> int:
    """A number that can be the id of something."""
    return given if 0 < given < 2**63 else 0


def with_plain_amount(answer: Answer) -> Answer:
    """The answer with its amount written as the database reads it: Python takes blanks, and digits of any script."""
    if "amount" not in answer.given:
        return answer
    amount = checked_amount("payload.amount", answer.given["amount"])
    return replace(answer, given={**answer.given, "amount": format(amount, "f")})


def checked_changes(before: Schedule, changes: Mapping[str, Any]) -> None:
    """Refuse what could not be made so either."""
    known = {each.name for each in fields(NewSchedule)} - {"expense"}
    if unknown := sorted(set(changes) - known):
        raise InvalidArgument(f"{unknown[0]}: cannot be changed; there are {', '.join(sorted(known))}")
    given = {name: value for name, value in changes.items() if value is not None}
    if given.get("description") == "":
        given["description"] = None  # there is to be none
    kept: dict[str, Any] = {name: getattr(before, name) for name in known}
    NewSchedule(**kept | given)


@contextmanager
def as_our_errors() -> Generator[None, None, None]:
    """What the database says of an answer or a move, in the words of our tree."""
    try:
        yield
    except DatabaseError as error:
        words = error.diag.message_primary or str(error)
        match error.sqlstate:
            case repository.KEY_REUSED:
                raise KeyReused(words) from None
            case repository.NO_SUCH_RUN:
                raise NotFound(words) from None
            case repository.ALREADY_ANSWERED:
                receipt = orjson.loads(error.diag.message_detail or "{}")
                raise AlreadyAnswered(answered_in_words(receipt, words), receipt=receipt) from None
            case repository.RUN_CLOSED:
                raise RunClosed(words) from None
            case repository.NOTHING_TO_UNDO:
                raise NothingToUndo(words) from None
            case state_machine.ILLEGAL_MOVE:
                raise IllegalMove(words) from None
            case repository.LIMIT_REACHED:
                raise LimitReached(f"{words}; {error.diag.message_hint}") from None
            case CheckViolation.sqlstate if error.diag.constraint_name == FIRST_RUN_AT:
                raise InvalidArgument(words) from None
            case _:
                raise


def answered_in_words(receipt: Mapping[str, Any], words: str) -> str:
    """The first answer with its time to the second; in the database's own words where it gave no receipt."""
    if "confirmed_at" not in receipt:
        return words
    at = datetime.fromisoformat(receipt["confirmed_at"]).astimezone(UTC)
    return f"run {receipt['job_run_id']} was answered already: {receipt['action']}, at {when(at)}"
