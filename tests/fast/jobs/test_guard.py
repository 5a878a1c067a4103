"""Rows that our functions write in full pass the guard without a call, and no others do."""

import asyncio
import re

import psycopg
import pytest

from duly.jobs import repository
from tests.support.jobs.actions import ORG, Admin, Connection, JobActions
from tests.support.jobs.guard_twin import DEVIATIONS, EXACT, GuardTwin
from tests.support.locks import wait_until_blocked


@pytest.mark.parametrize("statement", EXACT)
async def test_what_passes_the_guard_is_what_it_would_have_written(statement: str, jobs: JobActions) -> None:
    jobs.enqueue(rows=2)
    await jobs.claim()
    exact = EXACT[statement]
    with jobs.admin.transaction(force_rollback=True):
        twin = GuardTwin(jobs.admin)
        twin.add_rows()
        assert not twin.compare_change(statement, exact).guarded
        for column, values in DEVIATIONS.items():
            for value in values[:4]:
                twin.compare_change(statement, {**exact, column: value})
    assert min(twin.passed, twin.guarded, twin.refused) > 5


def test_update_of_any_column_that_no_claim_or_settle_writes_is_guarded(admin: Admin) -> None:
    query = (
        "select attname from pg_attribute where attrelid = 'ledger.job'::regclass and attnum > 0 and not attnum = any ("
        "select unnest(tgattr::int2[]) from pg_trigger where tgname = 'job_guard_columns')"
    )
    passing = {column for (column,) in admin.execute(query).fetchall()}
    assert passing == {*EXACT["queued"], *EXACT["running"]}


async def test_enqueue_claim_and_settle_do_not_call_the_guard(jobs: JobActions, admin: Admin) -> None:
    calls = "select coalesce(pg_stat_get_xact_function_calls('ledger.job_guard()'::regprocedure), 0)"
    with admin.transaction():
        admin.execute("set local track_functions = 'pl'")
        admin.execute("select ledger.enqueue(%s, 'work', key => 'k')", [ORG])
        admin.execute("select ledger.enqueue_many(%s, 'work', '{\"{}\",\"{}\"}')", [ORG])
        claimed = admin.execute("select id from ledger.claim('{default}', '{work}', 'me/1', 60, 3)").fetchall()
        keys = [key for (key,) in claimed]
        assert admin.execute("select ledger.done(%s, array_fill('me/1'::text, '{3}'), null)", [keys]).rowcount == 3
        assert admin.execute(calls).fetchone() == (0,)
        admin.execute("update ledger.job set stage = 'more'")
        assert admin.execute(calls).fetchone() == (3,)
    assert jobs.columns("status", "revision", "attempt")[:3] == [("succeeded", 3, 0)] * 3
    jobs.verify()


@pytest.mark.parametrize(
    ("columns", "constraint"),
    [
        ("type, payload) values (%s, 'work', '[]'", "ck_job__payload"),
        ("type, priority) values (%s, 'work', 101", "ck_job__priority"),
        ("type, queue) values (%s, 'work', repeat('q', 9000)", "ck_job__queue"),
        ("type, starts) values (%s, 'work', 2", "ck_job__attempt"),
    ],
)
def test_insert_that_claims_to_be_guarded_is_checked_when_it_is_logged(
    columns: str, constraint: str, admin: Admin
) -> None:
    statement = re.sub(r"\)( values .*)", r", revision)\1, 1)", f"insert into ledger.job (org_id, {columns}")
    with pytest.raises(psycopg.errors.CheckViolation) as refusal:
        admin.execute(statement.encode(), [ORG])
    assert refusal.value.diag.constraint_name == constraint


def test_one_bad_payload_refuses_the_batch(jobs: JobActions, admin: Admin) -> None:
    with pytest.raises(psycopg.errors.CheckViolation) as refusal:
        admin.execute("select ledger.enqueue_many(%s, 'work', array['{}', '[]', '{}']::jsonb[])", [ORG])
    assert refusal.value.diag.constraint_name == "ck_job__payload"
    assert jobs.columns("id") == []


async def test_worker_cannot_write_what_the_guard_derives(worker: Connection, jobs: JobActions) -> None:
    jobs.enqueue()
    for column in ("revision", "transition_from", "updated_at", "attempt", "started_at", "finished_at", "retain_until"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await worker.execute(f"update ledger.job set {column} = default".encode())


async def test_settle_that_waited_is_not_stamped_before_the_change_it_waited_for(
    database: str, jobs: JobActions, admin: Admin
) -> None:
    jobs.enqueue()
    (lease,) = await jobs.claim()
    with admin.transaction():
        admin.execute("select from ledger.job for no key update")
        settle = asyncio.create_task(repository.settle_done(jobs.worker, [lease], [None]))
        await asyncio.to_thread(wait_until_blocked, database)
        admin.execute("update ledger.job set stage = 'last'")
        ((changed_at,),) = admin.execute("select updated_at from ledger.job").fetchall()
    assert await settle == {lease.key}
    assert [at >= changed_at for row in jobs.columns("updated_at", "finished_at") for at in row] == [True, True]
    jobs.verify()
