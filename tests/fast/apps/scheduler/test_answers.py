"""Answers: each counts once, and books one expense."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg import errors
from psycopg.types.json import Jsonb

from duly.apps.scheduler import service
from duly.apps.scheduler.model import ScheduleStatus
from duly.errors import AlreadyAnswered, InvalidArgument, NotFound, NothingToReverse, ReminderNotSent, RunClosed
from duly.outcomes import Created, Existing
from tests.support.scheduler.actions import ScheduleActions

TEN = datetime(2026, 11, 16, 10, tzinfo=UTC)
DAILY = "cron: 0 10 * * *"


async def sent_run(schedules: ScheduleActions, **options: Any) -> int:
    """Return the id of a run whose reminder was sent."""
    schedules.set_clock("2026-11-16T10:00:01+00:00")
    await schedules.create_with_expense(rule=DAILY, first_run_at=TEN, **options)
    await schedules.run_cycle()
    return schedules.run_id()


def booked(schedules: ScheduleActions, columns: str = "amount, currency") -> list[tuple[Any, ...]]:
    """Return these columns of every expense, in the order they were booked."""
    return schedules.rows(f"select {columns} from expense.expenses order by id")


@pytest.mark.parametrize(
    ("action", "status", "expenses"),
    [
        ("complete", "confirmed", [(Decimal("9.99"), "EUR")]),
        ("skip", "skipped", []),
        ("cancel", "cancelled", []),
        ("snooze", "snoozed", []),
    ],
)
async def test_answer_moves_the_run_and_books_its_expense(
    action: str, status: str, expenses: list[Any], schedules: ScheduleActions
) -> None:
    run = await sent_run(schedules)
    made = await schedules.answer(run, action)
    assert isinstance(made, Created)
    assert schedules.runs("status") == [status]
    assert booked(schedules) == expenses
    assert schedules.path(run) == ["pending", "sent", status]
    assert (made.row.expense is not None) == (action == "complete")
    assert (made.row.remind_at is not None) == (action == "snooze")
    assert schedules.rows("select action, idempotency_key from scheduler.confirmations") == [(action, "tap")]


async def test_an_expense_has_the_fields_of_its_template_or_of_the_answer(schedules: ScheduleActions) -> None:
    run = await sent_run(schedules)
    made = await schedules.answer(run, amount="12.50", currency="SEK", note="with a tip")
    columns = "name, amount, currency, category, merchant, note, source_ref"
    (job,) = schedules.values("select id from scheduler.jobs")
    assert booked(schedules, columns) == [
        ("Rent", Decimal("12.5"), "SEK", "tv", None, "with a tip", f"scheduler:{job}:2026-11-16")
    ]
    assert made.row.expense == {"id": made.row.expense["id"], "amount": "12.5", "currency": "SEK"}  # type: ignore[index]


async def test_without_a_template_an_expense_is_booked_only_with_an_amount(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T10:00:01+00:00")
    schedules.add_user("anna", currency="SEK")
    await schedules.create(rule=DAILY, first_run_at=TEN)
    await schedules.run_cycle()
    await schedules.answer(schedules.run_id())
    assert booked(schedules) == []
    schedules.advance_clock(days=1)
    await schedules.run_cycle()
    await schedules.answer(schedules.runs("id")[1], amount="3")
    assert booked(schedules) == [(Decimal(3), "SEK")]


async def test_an_answer_that_could_not_be_booked_as_given_is_refused(schedules: ScheduleActions) -> None:
    run = await sent_run(schedules)
    with pytest.raises(InvalidArgument, match=r"payload\.currency: needs payload\.amount"):
        await schedules.answer(run, currency="SEK")  # the amount of the schedule is in another currency
    schedules.admin.execute("delete from scheduler.expense_templates")
    with pytest.raises(InvalidArgument, match=r"payload\.category: needs payload\.amount, because .* books no expense"):
        await schedules.answer(run, category="tv", note="with a tip")
    assert (schedules.runs("status"), booked(schedules)) == (["sent"], [])
    await schedules.answer(run, category="tv", amount="3")
    assert booked(schedules, "amount, category") == [(Decimal(3), "tv")]


async def test_second_answer_with_another_key_gets_the_first_receipt(schedules: ScheduleActions) -> None:
    run = await sent_run(schedules)
    first = await schedules.answer(run, "complete", "one")
    for action in ("complete", "skip", "snooze", "cancel"):
        with pytest.raises(AlreadyAnswered, match="was answered already: complete") as error:
            await schedules.answer(run, action, f"two {action}")
        assert error.value.receipt
        assert error.value.receipt["confirmation_id"] == first.row.confirmation_id
        assert error.value.receipt["expense"] == first.row.expense
    assert len(booked(schedules)) == 1
    assert isinstance(await schedules.answer(run, "complete", "one"), Existing)


async def test_unknown_run_and_another_users_run_give_the_same_error(schedules: ScheduleActions) -> None:
    run = await sent_run(schedules)
    with pytest.raises(NotFound) as foreign:
        await schedules.answer(run, uid="bo")
    with pytest.raises(NotFound) as unknown:
        await schedules.answer(run + 999)
    assert str(foreign.value).replace(str(run), "?") == str(unknown.value).replace(str(run + 999), "?")
    assert schedules.runs("status") == ["sent"]


async def test_an_answer_to_a_closed_run_is_refused_with_the_reason(schedules: ScheduleActions) -> None:
    run = await sent_run(schedules)
    (schedule,) = (await service.list_schedules(schedules.api, None)).items
    await service.set_schedule_status(schedules.api, None, schedule.id, ScheduleStatus.ARCHIVED)
    with pytest.raises(RunClosed, match="cancelled and cannot be answered: the schedule was archived"):
        await schedules.answer(run)
    assert schedules.values("select 1 from scheduler.confirmations") == []


async def test_pending_run_can_be_confirmed_but_not_snoozed(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:30:00+00:00")
    await schedules.create_with_expense(rule=DAILY)
    await schedules.plan()
    with pytest.raises(ReminderNotSent, match="has no sent reminder to snooze"):
        await schedules.answer(schedules.run_id(), "snooze")
    assert schedules.values("select 1 from scheduler.confirmations") == []
    await schedules.answer(schedules.run_id(), "complete")
    schedules.advance_clock(hours=1)
    await schedules.run_cycle()
    assert schedules.runs("status")[0] == "confirmed"
    assert schedules.one("select count(*) from duly.outbox") == 0


async def test_snoozing_again_moves_the_reminder(schedules: ScheduleActions) -> None:
    run = await sent_run(schedules)
    await schedules.answer(run, "snooze", "a")
    await schedules.answer(run, "snooze", "b", minutes=10)
    assert schedules.runs("remind_at - duly.clock() < interval '10 min'") == [True]
    assert schedules.path(run) == ["pending", "sent", "snoozed"]


async def test_an_answer_is_rolled_back_when_booking_fails(schedules: ScheduleActions) -> None:
    run = await sent_run(schedules)
    schedules.admin.execute("alter table expense.expenses add constraint ck_none check (false) not valid")
    with pytest.raises(psycopg.errors.CheckViolation):
        await schedules.answer(run)
    assert schedules.runs("status") == ["sent"]
    assert schedules.values("select 1 from scheduler.confirmations") == []
    schedules.admin.execute("alter table expense.expenses drop constraint ck_none")
    await schedules.answer(run)
    assert (schedules.runs("status"), len(booked(schedules))) == (["confirmed"], 1)


@pytest.mark.parametrize(
    ("action", "payload", "message"),
    [
        ("complete", {"amount": "-1"}, "payload.amount: must be an amount"),
        ("complete", {"amount": "1.2345678"}, "payload.amount: must be an amount"),
        ("complete", {"amount": "NaN"}, "payload.amount: must be an amount"),
        ("complete", {"amount": "1e3000000000"}, "payload.amount: must be an amount"),
        ("complete", {"amount": "1e999999999999999999"}, "payload.amount: must be an amount"),
        ("complete", {"currency": "euro"}, "payload.currency: must be three capital letters"),
        ("complete", {"minutes": 5}, "payload.minutes: does not go with complete; valid: payload.amount, "),
        ("snooze", {"minutes": 0}, "payload.minutes: must be a number of minutes"),
        ("snooze", {"minutes": 10_081}, "payload.minutes: must be a number of minutes"),
        ("skip", {"note": "x"}, "payload.note: does not go with skip"),
    ],
)
async def test_an_invalid_payload_is_refused_with_the_name_of_the_field(
    action: str, payload: dict[str, Any], message: str, schedules: ScheduleActions
) -> None:
    run = await sent_run(schedules)
    with pytest.raises(InvalidArgument, match=message):
        await schedules.answer(run, action, **payload)
    assert schedules.runs("status") == ["sent"]


# Undo -----------------------------------------------------------------------------------------------------------------


async def test_reversal_books_a_second_expense_and_leaves_the_run_unchanged(schedules: ScheduleActions) -> None:
    run = await sent_run(schedules)
    await schedules.answer(run)
    reversal = await service.reverse_expense(schedules.api, schedules.add_user(), run)
    again = await service.reverse_expense(schedules.api, schedules.add_user(), run)
    assert isinstance(reversal, Created)
    assert again == Existing(reversal.row)
    assert booked(schedules, "amount, reverses is not null") == [(Decimal("9.99"), False), (Decimal("-9.99"), True)]
    assert schedules.runs("status") == ["confirmed"]


async def test_reversal_is_limited_in_time(schedules: ScheduleActions) -> None:
    run = await sent_run(schedules)
    with pytest.raises(NothingToReverse, match="nothing was booked"):
        await service.reverse_expense(schedules.api, schedules.add_user(), run)
    await schedules.answer(run)
    with pytest.raises(NotFound):
        await service.reverse_expense(schedules.api, schedules.add_user("bo"), run)
    schedules.advance_clock(minutes=11)
    with pytest.raises(NothingToReverse, match="its expense can be reversed for 00:10:00 and no longer"):
        await service.reverse_expense(schedules.api, schedules.add_user(), run)
    assert len(booked(schedules)) == 1


async def test_reversal_of_a_run_that_was_deleted_and_created_again_is_limited_in_time(
    schedules: ScheduleActions,
) -> None:
    run = await sent_run(schedules)
    await schedules.answer(run)
    schedules.admin.execute("create table kept as select job_id, period_key, scheduled_at from scheduler.job_runs")
    schedules.admin.execute("delete from scheduler.job_runs")
    schedules.admin.execute("insert into scheduler.job_runs (job_id, period_key, scheduled_at) select * from kept")
    schedules.admin.execute("drop table kept")
    schedules.advance_clock(minutes=11)
    with pytest.raises(NothingToReverse, match="its expense can be reversed for 00:10:00 and no longer"):
        await service.reverse_expense(schedules.api, schedules.add_user(), schedules.run_id())


@pytest.mark.parametrize("statement", ["update expense.expenses set amount = 1", "delete from expense.expenses"])
async def test_expenses_are_append_only(statement: str, schedules: ScheduleActions) -> None:
    await schedules.answer(await sent_run(schedules))
    with pytest.raises(errors.RestrictViolation):
        schedules.admin.execute(statement.encode())


async def test_a_reversal_reverses_one_expense_completely(schedules: ScheduleActions) -> None:
    run = await sent_run(schedules)
    await schedules.answer(run)
    ((entry,),) = booked(schedules, "id")
    columns = "user_id, name, amount, currency, occurred_at, source_ref, reverses"
    for amount, currency in (("-1", "EUR"), ("-9.99", "SEK")):
        with pytest.raises(errors.CheckViolation):
            schedules.admin.execute(
                f"insert into expense.expenses ({columns}) select user_id, name, %s, %s, occurred_at, 'x', id"
                " from expense.expenses where id = %s".encode(),
                [amount, currency, entry],
            )


# What the database refuses by itself ----------------------------------------------------------------------------------


async def test_the_database_rejects_an_amount_that_is_not_a_number(schedules: ScheduleActions) -> None:
    run = await sent_run(schedules)
    async with schedules.api.transaction() as connection:
        with pytest.raises(psycopg.errors.CheckViolation, match="ck_expenses__amount"):
            await connection.execute(
                "select scheduler.answer(null, %s, 'complete', 'k', %s)",
                [run, Jsonb({"amount": "NaN", "currency": "EUR"})],
            )
    assert schedules.one("select count(*) from expense.expenses") == 0


@pytest.mark.parametrize("minutes", [0, -5, 10_081, 2_000_000_000])
async def test_database_limits_a_snooze_to_a_week(minutes: int, schedules: ScheduleActions) -> None:
    run = await sent_run(schedules)
    async with schedules.api.transaction() as connection:
        with pytest.raises(psycopg.errors.CheckViolation, match="ck_confirmations__minutes"):
            await connection.execute(
                "select scheduler.answer(null, %s, 'snooze', 'k', %s)", [run, Jsonb({"minutes": minutes})]
            )
    assert schedules.runs("status") == ["sent"]
