"""The tests that section 10 of the contract names."""

import itertools

import psycopg
import pytest
from psycopg import errors

from duly.apps.scheduler.model import Action, RunStatus
from duly.errors import InvalidArgument, KeyReused
from duly.outcomes import Created, Existing
from tests.support.scheduler.actions import MONTHLY, ScheduleActions
from tools.state_machines.model import ILLEGAL_TRANSITION
from tools.state_machines.scheduler import RUN_MACHINE

PATHS_TO_STATUS: dict[str, list[str]] = {
    "pending": [],
    "sent": ["sent"],
    "snoozed": ["sent", "snoozed"],
    "confirmed": ["confirmed"],
    "skipped": ["skipped"],
    "cancelled": ["cancelled"],
}


def create_run(schedules: ScheduleActions, period: str = "2026-11", at: str = "2026-11-01 10:00Z") -> int:
    """Insert a run of the only schedule."""
    return schedules.one(
        "insert into scheduler.job_runs (job_id, period_key, scheduled_at)"
        " select user_id, %s, %s from scheduler.jobs order by id limit 1 returning id",
        period,
        at,
    )


async def test_second_run_with_the_same_period_key_is_refused(schedules: ScheduleActions) -> None:
    await schedules.create()
    create_run(schedules)
    for at in ("2026-11-01 10:00Z", "2026-12-24 18:00Z"):  # in its own month and in another
        with pytest.raises(errors.UniqueViolation) as error:
            create_run(schedules, at=at)
        assert error.value.diag.constraint_name == "uq_job_runs__job_period"
    assert schedules.one("select count(*) from scheduler.job_run_keys") == 1


async def test_confirmation_key_used_for_another_answer_is_refused(schedules: ScheduleActions) -> None:
    await schedules.create_with_expense()
    run = create_run(schedules)
    first = await schedules.answer(run, "complete", "k1")
    again = await schedules.answer(run, "complete", "k1")
    assert isinstance(first, Created)
    assert again == Existing(first.row)
    with pytest.raises(KeyReused, match="belongs to another answer"):
        await schedules.answer(run, "skip", "k1")
    with pytest.raises(KeyReused):
        await schedules.answer(run, "complete", "k1", amount="1.00")
    with pytest.raises(errors.UniqueViolation) as error:
        schedules.admin.execute(
            "insert into scheduler.confirmations (job_run_id, action, confirmed_at, idempotency_key)"
            " values (%s, 'skip', now(), 'k1')",
            [run],
        )
    assert error.value.diag.constraint_name == "uq_confirmations__run_idem"


@pytest.mark.breaks_invariants
@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(RunStatus, 2)))
async def test_run_status_changes_only_along_its_transitions(
    before: str, after: str, schedules: ScheduleActions
) -> None:
    await schedules.create()
    run = create_run(schedules)
    for each in PATHS_TO_STATUS[before]:
        schedules.admin.execute("update scheduler.job_runs set status = %s", [each])
    if RUN_MACHINE.allows(before, after):
        schedules.admin.execute("update scheduler.job_runs set status = %s", [after])
        assert schedules.path(run) == ["pending", *PATHS_TO_STATUS[before], after]
        return
    with pytest.raises(psycopg.DatabaseError, match=f"cannot go from {before} to {after}") as error:
        schedules.admin.execute("update scheduler.job_runs set status = %s", [after])
    assert error.value.sqlstate == ILLEGAL_TRANSITION


@pytest.mark.parametrize("status", [each for each in RunStatus if each is not RunStatus.PENDING])
async def test_run_is_inserted_only_as_pending(status: str, schedules: ScheduleActions) -> None:
    await schedules.create()
    with pytest.raises(psycopg.DatabaseError, match=f"cannot begin as {status}"):
        schedules.admin.execute(
            "insert into scheduler.job_runs (job_id, period_key, scheduled_at, status)"
            " select user_id, 'x', now(), %s from scheduler.jobs",
            [status],
        )


async def test_unknown_action_is_refused(schedules: ScheduleActions) -> None:
    await schedules.create()
    run = create_run(schedules)
    assert {each.value for each in Action} == {"complete", "skip", "snooze", "cancel"}
    with pytest.raises(errors.CheckViolation) as error:
        schedules.admin.execute(
            "insert into scheduler.confirmations (job_run_id, action, confirmed_at, idempotency_key)"
            " values (%s, 'later', now(), 'k')",
            [run],
        )
    assert error.value.diag.constraint_name == "ck_confirmations__action"


@pytest.mark.parametrize(("minutes", "is_valid"), [(-1, False), (0, True), (10_080, True), (10_081, False)])
async def test_advance_minutes_out_of_range_is_refused(
    minutes: int, is_valid: bool, schedules: ScheduleActions
) -> None:
    columns = "user_id, name, rule, first_run_at, advance_minutes"
    query = f"insert into scheduler.jobs ({columns}) values (%s, 'x', %s, now(), %s)".encode()
    user = schedules.add_user()
    if is_valid:
        schedules.admin.execute(query, [user, MONTHLY, minutes])
        await schedules.create(advance_minutes=minutes)
        return
    with pytest.raises(errors.CheckViolation) as error:
        schedules.admin.execute(query, [user, MONTHLY, minutes])
    assert error.value.diag.constraint_name == "ck_jobs__advance"
    with pytest.raises(InvalidArgument, match="advance_minutes: must be between 0 and 10080"):
        await schedules.create(advance_minutes=minutes)


async def test_seed_of_the_contract_can_be_inserted_by_sql(schedules: ScheduleActions) -> None:
    schedules.add_user()
    schedules.admin.execute(
        "insert into scheduler.jobs (user_id, name, rule, first_run_at) select user_id, %s, %s, now() from duly.person",
        ["YouTube 订阅", MONTHLY],
    )
    schedules.admin.execute(
        "insert into scheduler.job_runs (job_id, period_key, scheduled_at)"
        " select j.id, to_char(now(), 'YYYY-MM'), date_trunc('month', now()) from scheduler.jobs as j limit 1"
    )
    schedules.admin.execute(
        "insert into scheduler.reminders (job_run_id, sent_at) select r.id, now() from scheduler.job_runs as r limit 1"
    )
    assert schedules.rows("select name, channel, status, advance_minutes from scheduler.jobs") == [
        ("YouTube 订阅", "telegram", "active", 0)
    ]
