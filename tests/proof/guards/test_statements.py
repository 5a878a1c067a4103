"""Every owner predicate and every SKIP LOCKED of the statements has a test that goes red when it is removed.

A worker that lost a row cannot change it; a row that another transaction has locked is skipped,
and no statement waits. `python -m tests.proof.guards` takes each of them out of the source, in a copy, and runs its
test there.
"""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, LiteralString, TypeVar

import psycopg
import pytest
from psycopg import AsyncConnection, sql
from psycopg.conninfo import make_conninfo

from duly.apps.ingest.canonical import canonicalize
from duly.apps.ingest.day import Day, apply_capture
from duly.apps.ingest.explain import SessionSettings
from duly.apps.ingest.explain import find_situation as find_session_situation
from duly.apps.ingest.repository import SessionTables
from duly.apps.ingest.settlement import SettledCapture, SettlementTables
from duly.apps.posts.alerts import claim_objectives
from duly.apps.posts.explain import find_situation as find_post_situation
from duly.apps.scheduler import repository as schedule_store
from duly.db.migrations import Names
from duly.db.pool import connect
from duly.errors import LeaseLost
from duly.jobs import repository as job_store
from duly.jobs.model import DeadLetterFilter
from duly.jobs.situation import find_situation
from duly.lease.operations import (
    Lease,
    claim_expired_rows,
    claim_rows,
    fence_rows,
    find_expired_keys,
    find_next,
    find_settled,
    quarantine_rows,
    renew_leases,
    settle_rows,
)
from duly.outbox import OUTBOX
from duly.outbox import repository as message_store
from duly.testing import move_clock
from tests.proof.guards.claimable_tables import CLAIMABLE_TABLES, ClaimableTable
from tests.proof.guards.statements import mutations
from tests.support.database_pool import DatabasePool
from tests.support.jobs.actions import ORG, JobActions

Admin = psycopg.Connection[Any]
Connection = AsyncConnection[Any]
LEASE = 60.0
DAY = 86_400.0
NOT_CONFIGURED = {"test": "CHANNEL_NOT_CONFIGURED: set TEST_URL"}  # a channel, and why its messages wait
SWEPT = [name for name, held in CLAIMABLE_TABLES.items() if not held.table.can_claim_expired]
RECLAIMED = [name for name, held in CLAIMABLE_TABLES.items() if held.table.can_claim_expired]
CAPTURE = ["capture"]
TESTS: dict[str, str] = {}  # which test goes red without which guard

TryOne = Callable[[ClaimableTable, Admin, Connection], Awaitable[None]]


Test = TypeVar("Test", bound=Callable[..., Any])


def guards(*names: str) -> Callable[[Test], Test]:
    """This test goes red when one of these is removed."""

    def noted(test: Test) -> Test:
        TESTS.update(dict.fromkeys(names, test.__name__))
        return test

    return noted


def in_lease_files(kind: str, statement: str, nth: int = 1) -> list[str]:
    """Every guard of this kind in statements of this name, or with this beginning, of every `lease.sql`."""
    return [
        str(each)
        for each in mutations()
        if each.file.endswith("/lease.sql")
        and (each.kind, each.nth) == (kind, nth)
        and (each.statement == statement or (statement[-1] == "_" and each.statement.startswith(statement)))
    ]


def on_every(names: Iterable[str]) -> Callable[[TryOne], Callable[..., Awaitable[None]]]:
    """Try this on every one of these tables, with two due rows in each, and say on which of them it went wrong."""

    def run_on_all(try_one: TryOne) -> Callable[..., Awaitable[None]]:
        async def test(admin: Admin, worker: Connection) -> None:
            failures: dict[str, Exception] = {}
            for name in names:
                admin.execute(CLAIMABLE_TABLES[name].insert_statement)
                try:
                    await try_one(CLAIMABLE_TABLES[name], admin, worker)
                except (AssertionError, psycopg.Error, LeaseLost) as error:
                    failures[name] = error
            assert not failures, f"wrong on {', '.join(failures)}: {failures}"

        test.__name__ = test.__qualname__ = getattr(try_one, "__name__", "test")
        return test

    return run_on_all


def test_every_guard_in_a_statement_has_a_test() -> None:
    assert sorted(TESTS) == sorted(map(str, mutations()))


# What the tests are made of -------------------------------------------------------------------------------------------


@pytest.fixture
def admin(conformance_databases: DatabasePool) -> Generator[Admin, None, None]:
    """The test's own hand, with a clock that it can move, and the conformance tables."""
    with conformance_databases.borrow() as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("insert into duly.person (uid, telegram_id) values ('anna', 42)")
        yield connection


@pytest.fixture
async def worker(admin: Admin) -> AsyncGenerator[Connection, None]:
    """A worker's connection, which does not wait for long."""
    async with await connect(make_conninfo(admin.info.dsn, user=Names().worker)) as connection:
        await connection.execute("set lock_timeout = '2s'")
        yield connection


@pytest.fixture
def jobs(admin: Admin, worker: Connection) -> JobActions:
    """What tests of jobs do."""
    return JobActions(admin, worker)


@contextmanager
def row_lock(admin: Admin, table: str, where: str = "true") -> Generator[None, None, None]:
    """Another transaction has the first of these rows locked."""
    with psycopg.connect(admin.info.dsn) as other:
        locked = other.execute(f"select from {table} where {where} limit 1 for update".encode()).rowcount
        assert locked == 1
        yield


def column_values(admin: Admin, query: LiteralString) -> list[Any]:
    """The values of the one column that is asked for."""
    return [value for (value,) in admin.execute(query)]


def table_name(held: ClaimableTable) -> str:
    """The table, as statements call it."""
    return ".".join(held.table.qualified_name)


async def claim_due(connection: Connection, held: ClaimableTable, limit: int = 2) -> list[Lease]:
    """Claim as the worker that every container calls itself."""
    return await held.shape.claim(connection, "worker-1", lease_seconds=LEASE, limit=limit)


async def lose_lease(admin: Admin, connection: Connection, held: ClaimableTable) -> tuple[Lease, Lease]:
    """A row that a first worker lost to a second: both their leases."""
    (old,) = await claim_due(connection, held, limit=1)
    move_clock(admin, LEASE + 1)
    if not held.table.can_claim_expired:
        await held.shape.sweep(connection)
        claimed = await claim_due(connection, held)
    else:
        claimed = await claim_expired_rows(
            connection, held.table, "worker-1", lease_seconds=LEASE, max_starts=100, limit=2
        )
    (new,) = (lease for lease in claimed if lease.key == old.key)
    return old, new


def read_row(admin: Admin, lease: Lease) -> dict[str, Any]:
    """A row as it is now."""
    query = sql.SQL("select to_jsonb(t) from {} as t where {} = %s").format(
        sql.Identifier(*lease.table.qualified_name), sql.Identifier(lease.table.key)
    )
    found = admin.execute(query, [lease.key]).fetchone()
    assert found
    return found[0]


# The lease: a worker that lost its row --------------------------------------------------------------------------------


@guards(*in_lease_files("owner", "renew"))
@on_every(CLAIMABLE_TABLES)
async def test_renew_with_a_lost_lease_does_not_extend_the_new_lease(
    held: ClaimableTable, admin: Admin, worker: Connection
) -> None:
    old, new = await lose_lease(admin, worker, held)
    move_clock(admin, LEASE * 0.8)
    before = read_row(admin, new)
    await renew_leases(worker, [old], lease_seconds=LEASE)
    assert read_row(admin, new) == before
    move_clock(admin, LEASE * 0.8)
    assert new.key in await find_expired_keys(worker, new.table)


@guards(*in_lease_files("owner", "renew", 2))
@on_every(CLAIMABLE_TABLES)
async def test_renew_reports_a_lost_lease(held: ClaimableTable, admin: Admin, worker: Connection) -> None:
    old, _ = await lose_lease(admin, worker, held)
    assert (await renew_leases(worker, [old], lease_seconds=LEASE)).lost == {old.claim}


@guards(*in_lease_files("owner", "fence"))
@on_every(CAPTURE)
async def test_fence_many_returns_only_rows_whose_lease_is_held(
    held: ClaimableTable, admin: Admin, worker: Connection
) -> None:
    old, new = await lose_lease(admin, worker, held)
    assert await fence_rows(worker, [old]) == frozenset()
    assert await fence_rows(worker, [new]) == {new.key}


@guards(*in_lease_files("owner", "settle_"))
@on_every(CLAIMABLE_TABLES)
async def test_settle_with_a_lost_lease_changes_nothing(held: ClaimableTable, admin: Admin, worker: Connection) -> None:
    old, new = await lose_lease(admin, worker, held)
    before = read_row(admin, new)
    statements = held.table.statements
    for name in statements.statements:
        if name.startswith("settle"):
            given = {key: [None] for key in re.findall(r"%\((\w+)\)", statements.statements[name])}
            del given["keys"], given["owners"]
            await settle_rows(worker, [old], getattr(statements, name), **{**given, **held.shape.constants})
            assert read_row(admin, new) == before, name


@guards(*in_lease_files("owner", "find_settled"))
@on_every(CLAIMABLE_TABLES)
async def test_find_settled_ignores_rows_settled_by_another_owner(
    held: ClaimableTable, admin: Admin, worker: Connection
) -> None:
    old, new = await lose_lease(admin, worker, held)
    assert await held.shape.settle(worker, [new]) == {new.key}
    assert await find_settled(worker, [old]) == frozenset()
    assert await find_settled(worker, [new]) == {new.key}


@guards(*in_lease_files("owner", "release"))
@on_every(CLAIMABLE_TABLES)
async def test_release_with_a_lost_lease_changes_nothing(
    held: ClaimableTable, admin: Admin, worker: Connection
) -> None:
    old, new = await lose_lease(admin, worker, held)
    before = read_row(admin, new)
    await held.shape.release(worker, [old])
    assert read_row(admin, new) == before


# The lease: no statement waits ----------------------------------------------------------------------------------------


@guards(*in_lease_files("skip locked", "claim"))
@on_every(CLAIMABLE_TABLES)
async def test_claim_skips_a_locked_row(held: ClaimableTable, admin: Admin, worker: Connection) -> None:
    with row_lock(admin, table_name(held)):
        assert len(await claim_due(worker, held)) == 1


@guards(*in_lease_files("skip locked", "find_next"))
@on_every(["post", "capture"])
async def test_finding_the_next_passes_over_what_is_looked_at(
    held: ClaimableTable, admin: Admin, worker: Connection
) -> None:
    with row_lock(admin, table_name(held)):
        assert await find_next(worker, held.table) is not None


@guards(*in_lease_files("skip locked", "claim_expired"))
@on_every(RECLAIMED)
async def test_claim_expired_skips_a_locked_row(held: ClaimableTable, admin: Admin, worker: Connection) -> None:
    assert len(await claim_due(worker, held)) == 2
    move_clock(admin, LEASE + 1)
    with row_lock(admin, table_name(held)):
        claimed = await claim_expired_rows(worker, held.table, "worker-1", lease_seconds=LEASE, max_starts=100, limit=2)
    assert len(claimed) == 1


@guards(*in_lease_files("skip locked", "sweep"))
@on_every(SWEPT)
async def test_sweep_skips_a_locked_row(held: ClaimableTable, admin: Admin, worker: Connection) -> None:
    assert len(await claim_due(worker, held)) == 2
    move_clock(admin, LEASE + 1)
    with row_lock(admin, table_name(held)):
        assert len(await held.shape.sweep(worker)) == 1


@guards(*in_lease_files("skip locked", "quarantine"))
@on_every(RECLAIMED)
async def test_quarantine_skips_a_locked_row(held: ClaimableTable, admin: Admin, worker: Connection) -> None:
    assert len(await claim_due(worker, held)) == 2
    move_clock(admin, LEASE + 1)
    with row_lock(admin, table_name(held)):
        assert len(await quarantine_rows(worker, held.table, max_starts=1)) == 1


@guards(*in_lease_files("skip locked", "renew"))
@on_every(CLAIMABLE_TABLES)
async def test_renew_reports_a_locked_row_as_busy_and_renews_the_others(
    held: ClaimableTable, admin: Admin, worker: Connection
) -> None:
    leases = await claim_due(worker, held)
    with row_lock(admin, table_name(held)):
        result = await renew_leases(worker, leases, lease_seconds=LEASE)
    assert (len(result.renewed), len(result.skipped), len(result.lost)) == (1, 1, 0)


# Jobs -----------------------------------------------------------------------------------------------------------------


async def lose_job(jobs: JobActions) -> tuple[Lease, Lease]:
    """A job that a first worker lost to a second: both their leases."""
    jobs.enqueue(backoff_policy="none")
    (old,) = await jobs.claim()
    jobs.advance_clock(LEASE + 1)
    assert await jobs.sweep() == 1
    (new,) = await jobs.claim()
    assert old.key == new.key
    return old, new


@guards("owner of ledger.done in jobs/functions.sql")
async def test_settle_done_with_a_lost_lease_leaves_the_job_running(jobs: JobActions) -> None:
    old, new = await lose_job(jobs)
    await job_store.settle_done(jobs.worker, [old], [None])
    assert jobs.columns("status", "lease_owner") == [("running", new.owner)]


@guards("owner of mark_failed in jobs/lease.sql")
async def test_mark_failed_with_a_lost_lease_leaves_the_job_running(jobs: JobActions) -> None:
    old, new = await lose_job(jobs)
    async with jobs.worker.transaction():
        assert await job_store.mark_failed(jobs.worker, [old], ["OOPS"], ["because"]) == frozenset()
    assert jobs.columns("status", "lease_owner") == [("running", new.owner)]


@guards("owner of retry_or_dead_letter in jobs/lease.sql")
async def test_retry_or_dead_letter_requires_the_lease_that_failed_the_job(jobs: JobActions) -> None:
    old, new = await lose_job(jobs)
    async with jobs.worker.transaction():
        await job_store.mark_failed(jobs.worker, [new], ["OOPS"], ["because"])
        assert await job_store.retry_or_dead_letter(jobs.worker, [old.claim]) == 0
        assert await job_store.retry_or_dead_letter(jobs.worker, [new.claim]) == 1
    assert jobs.columns("status") == ["queued"]


@guards("owner of record_progress in jobs/lease.sql")
async def test_record_progress_with_a_lost_lease_changes_nothing(jobs: JobActions) -> None:
    old, _ = await lose_job(jobs)
    assert not await job_store.record_progress(jobs.worker, old, "nearly", 99)
    assert jobs.columns("stage", "progress") == [(None, None)]


@guards("owner of ledger.fence in jobs/functions.sql")
async def test_job_fence_refuses_a_lost_lease(jobs: JobActions) -> None:
    old, _ = await lose_job(jobs)
    async with jobs.worker.transaction():
        assert not await job_store.fence(jobs.worker, old, Names().api)


@guards("skip locked of ledger.claim in jobs/functions.sql")
async def test_claim_of_jobs_skips_a_locked_job(jobs: JobActions) -> None:
    jobs.enqueue(rows=2)
    with row_lock(jobs.admin, "ledger.job"):
        assert len(await jobs.claim(limit=2)) == 1


@guards("skip locked of ledger.mark_expired in jobs/functions.sql")
async def test_sweep_of_jobs_skips_a_locked_job(jobs: JobActions) -> None:
    jobs.enqueue(rows=2)
    await jobs.claim(limit=2)
    jobs.advance_clock(LEASE + 1)
    with row_lock(jobs.admin, "ledger.job"):
        assert await jobs.sweep() == 1


@guards("skip locked of ledger.redrive_many in jobs/functions.sql")
async def test_redrive_skips_a_locked_dead_letter(jobs: JobActions) -> None:
    jobs.enqueue(rows=2, max_attempts=1)
    await jobs.fail(*await jobs.claim(limit=2))
    with row_lock(jobs.admin, "ledger.job"):
        assert len(await jobs.steer(job_store.redrive_many, DeadLetterFilter(ORG), "anna")) == 1


@guards("skip locked of ledger.purge in jobs/functions.sql")
async def test_retention_of_jobs_skips_a_locked_job(jobs: JobActions) -> None:
    jobs.enqueue(rows=2)
    await job_store.settle_done(jobs.worker, await jobs.claim(limit=2), [None, None])
    jobs.advance_clock(31 * DAY)
    with row_lock(jobs.admin, "ledger.job"):
        assert await job_store.purge(jobs.worker) == 1


@guards("skip locked of ledger.is_locked in jobs/functions.sql")
async def test_explaining_a_locked_job_does_not_wait_for_the_lock(jobs: JobActions) -> None:
    (key,) = jobs.enqueue()
    with row_lock(jobs.admin, "ledger.job"):
        async with jobs.worker.transaction():
            await job_store.set_org(jobs.worker, ORG)
            situation = await find_situation(jobs.worker, ORG, key, None)
    assert situation is not None
    assert situation.is_locked


# Messages -------------------------------------------------------------------------------------------------------------


async def hold_messages(worker: Connection) -> list[Lease]:
    """Claim as a sender does."""
    return await message_store.claim_messages(worker, OUTBOX, "worker-1", ["test"], lease_seconds=LEASE, limit=2)


async def lose_message(admin: Admin, worker: Connection) -> tuple[Lease, Lease]:
    """A message that a first worker lost to a second: both their leases."""
    admin.execute(CLAIMABLE_TABLES["message"].insert_statement)
    old, *_ = await hold_messages(worker)
    move_clock(admin, LEASE + 1)
    assert len(await message_store.sweep_messages(worker, OUTBOX, max_starts=10)) == 2
    (new,) = (lease for lease in await hold_messages(worker) if lease.key == old.key)
    return old, new


@guards("owner of mark_called in outbox/lease.sql")
async def test_mark_called_with_a_lost_lease_changes_nothing(admin: Admin, worker: Connection) -> None:
    old, new = await lose_message(admin, worker)
    assert await message_store.mark_called(worker, OUTBOX, [old]) == frozenset()
    assert read_row(admin, new)["called_at"] is None


@guards("skip locked of resend_uncertain in outbox/queries.sql")
async def test_resending_uncertain_messages_skips_a_locked_message(admin: Admin, worker: Connection) -> None:
    admin.execute(CLAIMABLE_TABLES["message"].insert_statement)
    await message_store.mark_called(worker, OUTBOX, await hold_messages(worker))
    move_clock(admin, LEASE + 1)
    assert len(await message_store.sweep_messages(worker, OUTBOX, max_starts=10)) == 2
    with row_lock(admin, "duly.outbox", "status = 'uncertain'"):
        assert await message_store.resend_uncertain(worker, OUTBOX, ["test"], max_starts=10) == 1


@guards("skip locked of note_unconfigured in outbox/queries.sql")
async def test_note_unconfigured_skips_a_locked_message(admin: Admin, worker: Connection) -> None:
    admin.execute(CLAIMABLE_TABLES["message"].insert_statement)
    with row_lock(admin, "duly.outbox"):
        assert await message_store.note_unconfigured(worker, OUTBOX, NOT_CONFIGURED) == 1


@guards("skip locked of fail_unconfigured in outbox/queries.sql")
async def test_fail_unconfigured_skips_a_locked_message(admin: Admin, worker: Connection) -> None:
    admin.execute(CLAIMABLE_TABLES["message"].insert_statement)
    move_clock(admin, 8 * DAY)
    with row_lock(admin, "duly.outbox"):
        assert await message_store.fail_unconfigured(worker, OUTBOX, NOT_CONFIGURED, days=7) == 1


@guards("skip locked of duly.purge_messages in outbox/functions.sql")
async def test_retention_of_messages_skips_a_locked_message(admin: Admin, worker: Connection) -> None:
    admin.execute(CLAIMABLE_TABLES["message"].insert_statement)
    admin.execute("update duly.outbox set status = 'failed', last_error = 'withdrawn'")
    move_clock(admin, 31 * DAY)
    with row_lock(admin, "duly.outbox"):
        assert await message_store.purge(worker, 30) == 1


# Posts ----------------------------------------------------------------------------------------------------------------


@guards("skip locked of posts.expire_uploads in apps/posts/functions.sql")
async def test_expiry_of_uploads_skips_a_locked_upload(admin: Admin, worker: Connection) -> None:
    admin.execute(
        "insert into posts.uploads (name, author_id) select 'temp/' || gen_random_uuid() || '.jpg', 'anna'"
        " from generate_series(1, 2)"
    )
    move_clock(admin, DAY + 1)
    with row_lock(admin, "posts.uploads"):
        expired = await (await worker.execute("select name from posts.expire_uploads(10)")).fetchall()
    assert len(expired) == 1


@guards("skip locked of posts.retain in apps/posts/functions.sql")
async def test_retention_of_idempotency_keys_skips_a_locked_key(admin: Admin, worker: Connection) -> None:
    admin.execute(CLAIMABLE_TABLES["post"].insert_statement)
    admin.execute(
        "insert into posts.idempotency_keys (author_id, request_id, request_digest, post_id, answer, expires_at)"
        " select 'anna', gen_random_uuid(), sha256(''), id, '{}', duly.clock() + interval '2 days' from posts.posts"
    )
    move_clock(admin, 3 * DAY)
    with row_lock(admin, "posts.idempotency_keys"):
        assert await (await worker.execute("select posts.retain(10)")).fetchone() == (1,)


@guards("skip locked of posts.retain (2) in apps/posts/functions.sql")
async def test_retention_of_intent_minutes_skips_a_locked_minute(admin: Admin, worker: Connection) -> None:
    admin.execute(
        "insert into posts.intent_minutes select date_trunc('minute', duly.now(), 'UTC'), outcome, 1"
        " from unnest(array['CREATED', 'REFUSED']) as outcome"
    )
    move_clock(admin, 91 * DAY)
    with row_lock(admin, "posts.intent_minutes"):
        assert await (await worker.execute("select posts.retain(10)")).fetchone() == (1,)


# Captures -------------------------------------------------------------------------------------------------------------


@guards("skip locked of close_idle in apps/ingest/queries.sql")
async def test_closing_idle_sessions_skips_a_locked_session(admin: Admin, worker: Connection) -> None:
    admin.execute("insert into schedule_ingest.capture_session (user_id) values (42), (42)")
    admin.execute(
        "insert into schedule_ingest.capture_image (session_id, sequence, r2_key)"
        " select id, 1, id::text from schedule_ingest.capture_session"
    )
    move_clock(admin, 100)
    with row_lock(admin, "schedule_ingest.capture_session"):
        assert await SessionTables().close_idle(worker, idle_seconds=60) == 1


@guards("owner of add_further_days in apps/ingest/settlement.sql")
async def test_only_the_worker_that_settled_a_session_adds_its_further_days(admin: Admin, worker: Connection) -> None:
    admin.execute("insert into schedule_ingest.capture_session (user_id, closed_at) values (42, duly.clock())")
    (lease,) = await claim_rows(worker, CLAIMABLE_TABLES["capture"].table, "worker-1", lease_seconds=LEASE)
    seen = canonicalize({"schedule_date": "2026-09-07", "entries": []})
    step = apply_capture(Day(42, seen.schedule_date), lease.key, seen, summary_threshold=3)
    claimed = SettledCapture(lease, step, seen.payload, {}, [canonicalize({"schedule_date": "2026-09-08"})])
    lost = replace(claimed, lease=Lease(lease.table, "worker-2/lost", lease.row, lease.sent_at))
    assert await SettlementTables().add_further_days(worker, [claimed]) == 0  # not settled yet
    await CLAIMABLE_TABLES["capture"].shape.settle(worker, [lease])
    assert await SettlementTables().add_further_days(worker, [lost]) == 0
    assert await SettlementTables().add_further_days(worker, [claimed]) == 1
    assert await SettlementTables().add_further_days(worker, [claimed]) == 0  # it is there


# Schedules ------------------------------------------------------------------------------------------------------------


def put_runs(admin: Admin) -> None:
    """Two schedules, each with a run that is due."""
    admin.execute(CLAIMABLE_TABLES["plan"].insert_statement)
    admin.execute(
        "insert into scheduler.job_runs (job_id, period_key, scheduled_at, remind_at)"
        " select id, 'this month', duly.clock(), duly.clock() from scheduler.jobs"
    )


async def remind(admin: Admin, worker: Connection) -> None:
    """Two runs whose messages wait."""
    put_runs(admin)
    async with worker.transaction():
        due = await schedule_store.find_due(worker, 10)
        await schedule_store.queue_reminders(
            worker, due, [{"job_run_id": each.id, "job_id": each.schedule_id} for each in due]
        )
    assert column_values(admin, "select status from duly.outbox") == ["pending"] * 2


@guards("skip locked of find_due in apps/scheduler/queries.sql")
async def test_find_due_skips_a_locked_run(admin: Admin, worker: Connection) -> None:
    put_runs(admin)
    with row_lock(admin, "scheduler.job_runs"):
        assert len(await schedule_store.find_due(worker, 10)) == 1


@guards("skip locked of supersede_reminders in apps/scheduler/queries.sql")
async def test_superseding_reminders_skips_a_locked_message(admin: Admin, worker: Connection) -> None:
    await remind(admin, worker)
    admin.execute("update duly.outbox set last_error = 'CHANNEL_NOT_CONFIGURED: set TELEGRAM_TOKEN'")
    move_clock(admin, 60)
    admin.execute(
        "insert into scheduler.job_runs (job_id, period_key, scheduled_at, remind_at)"
        " select id, 'next month', duly.clock(), duly.clock() from scheduler.jobs"
    )
    async with worker.transaction():
        later = await schedule_store.find_due(worker, 10)
        assert len(later) == 2
        with row_lock(admin, "duly.outbox"):
            assert await schedule_store.supersede_reminders(worker, later) == 1
    assert sorted(column_values(admin, "select status from duly.outbox")) == ["failed", "pending"]


@guards("skip locked of scheduler.delete_run_key in apps/scheduler/functions.sql")
async def test_deleting_a_run_does_not_wait_for_a_locked_reminder(admin: Admin, worker: Connection) -> None:
    await remind(admin, worker)
    admin.execute("set lock_timeout = '2s'")
    with row_lock(admin, "duly.outbox"):
        admin.execute("delete from scheduler.job_runs")
    assert column_values(admin, "select job_run_id from scheduler.job_run_keys") == []
    assert sorted(column_values(admin, "select status from duly.outbox")) == ["failed", "pending"]


@guards("skip locked of scheduler.cancel_open_runs in apps/scheduler/functions.sql")
async def test_archiving_a_schedule_does_not_wait_for_a_locked_reminder(admin: Admin, worker: Connection) -> None:
    await remind(admin, worker)
    admin.execute("set lock_timeout = '2s'")
    with row_lock(admin, "duly.outbox"):
        admin.execute("update scheduler.jobs set status = 'archived'")
    assert column_values(admin, "select status from scheduler.job_runs") == ["cancelled"] * 2
    assert sorted(column_values(admin, "select status from duly.outbox")) == ["failed", "pending"]


@guards("skip locked of scheduler.cancel_archived_runs in apps/scheduler/functions.sql")
async def test_finish_archived_skips_a_locked_schedule(admin: Admin, worker: Connection) -> None:
    put_runs(admin)
    admin.execute("update scheduler.job_plans set is_closing = true")
    await worker.execute("set lock_timeout = '2s'")
    with row_lock(admin, "scheduler.job_plans", "job_id = (select min(id) from scheduler.jobs)"):
        assert await schedule_store.cancel_archived_runs(worker) == 1
    assert sorted(column_values(admin, "select status from scheduler.job_runs")) == ["cancelled", "pending"]


@guards("skip locked of scheduler.answer in apps/scheduler/functions.sql")
async def test_answering_a_run_does_not_wait_for_a_locked_reminder(admin: Admin, worker: Connection) -> None:
    await remind(admin, worker)
    admin.execute("set lock_timeout = '2s'")
    with row_lock(admin, "duly.outbox"):
        admin.execute("select scheduler.answer(null, id, 'skip', 'tap', null) from scheduler.job_runs")
    assert column_values(admin, "select status from scheduler.job_runs") == ["skipped"] * 2
    assert sorted(column_values(admin, "select status from duly.outbox")) == ["failed", "pending"]


# Explain --------------------------------------------------------------------------------------------------------------


@guards("skip locked of find_situation in apps/posts/explain.sql")
async def test_explaining_a_locked_post_does_not_wait_for_the_lock(admin: Admin, worker: Connection) -> None:
    admin.execute(CLAIMABLE_TABLES["post"].insert_statement)
    with row_lock(admin, "posts.posts"):
        found = [
            await find_post_situation(worker, key, "*", None)
            for key in column_values(admin, "select id from posts.posts")
        ]
    assert sorted(each.is_locked for each in found if each) == [False, True]


@guards("skip locked of find_situation in apps/ingest/explain.sql")
async def test_explaining_a_locked_session_does_not_wait_for_the_lock(admin: Admin, worker: Connection) -> None:
    admin.execute(CLAIMABLE_TABLES["capture"].insert_statement)
    with row_lock(admin, "schedule_ingest.capture_session"):
        found = [
            await find_session_situation(worker, key, None, SessionSettings(), None)
            for key in column_values(admin, "select id from schedule_ingest.capture_session")
        ]
    assert sorted(each.is_locked for each in found if each) == [False, True]


@guards("skip locked of scheduler.is_locked in apps/scheduler/functions.sql")
async def test_is_locked_reports_a_locked_run_without_waiting(admin: Admin, worker: Connection) -> None:
    put_runs(admin)
    admin.execute("set lock_timeout = '2s'")
    with row_lock(admin, "scheduler.job_runs"):
        found = column_values(admin, "select scheduler.is_locked(id, scheduled_at) from scheduler.job_runs")
    assert sorted(found) == [False, True]


@guards(
    "skip locked of duly.is_locked in outbox/functions.sql",
    "skip locked of duly.find_next_message in outbox/functions.sql",
)
async def test_explaining_a_locked_message_does_not_wait_for_the_lock(admin: Admin, worker: Connection) -> None:
    await remind(admin, worker)
    admin.execute("set lock_timeout = '2s'")
    with row_lock(admin, "duly.outbox"):
        locked = dict(admin.execute("select id, duly.is_locked(id) from duly.outbox").fetchall())
        following = column_values(admin, "select duly.find_next_message()")
    assert sorted(locked.values()) == [False, True]
    assert following == [None]  # for the other is to the same person


# Promises -------------------------------------------------------------------------------------------------------------


@guards("skip locked of claim_objectives in apps/posts/alerts.sql")
async def test_claim_of_objectives_skips_a_locked_objective(admin: Admin, worker: Connection) -> None:
    with row_lock(admin, "posts.objectives"):
        assert len(await claim_objectives(worker)) == 2
