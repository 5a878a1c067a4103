"""What docs/decisions/0008 to 0014 and 0034 decided about the ledger, clause by clause: an index.

Other files here test most of them further, and through more entry points.
"""

from collections.abc import Generator, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from duly.backoff import Backoff
from duly.bounds import MAX_SNOOZES
from duly.db.migrate import migrate
from duly.db.migrations import Names
from duly.jobs import repository
from duly.jobs.model import TERMINAL, DeadLetterFilter, JobStatus
from duly.lease.operations import Lease, renew_leases
from duly.lease.work import Tuning
from duly.testing import TestDatabases
from duly.verify import check
from tests.support.jobs.actions import LEASE, ORG, Admin, JobActions
from tools.state_machines.jobs import JOB_MACHINE

DAY = 86_400.0
ADDED_COLUMNS = {
    "queue", "payload", "result", "run_at", "starts", "snoozes", "lease_owner", "lease_expires_at", "settled_by",
    "cancel_requested_at", "revision", "request_digest", "retain_until",
}  # fmt: skip
INDEXES_OF_THE_CONTRACT = {
    "pk_job": "(id)",
    "idx_job__job_org_id": "(org_id)",
    "idx_job__org_id_created_at_desc": "(org_id, created_at DESC)",
    "idx_job__org_id_idempotency_key": "(org_id, idempotency_key) WHERE (idempotency_key IS NOT NULL)",
    "idx_job__status_created_at": "(status, created_at)",
    "pk_job_event": "(id)",
    "idx_job_event__job_id_ts": "(job_id, ts)",
    "idx_job_event__ts": "(ts)",
}


async def snooze(jobs: JobActions, lease: Lease, seconds: float = 1.0) -> frozenset[UUID]:
    """Snooze jobs, in one transaction."""
    async with jobs.worker.transaction():
        return await repository.snooze(jobs.worker, [lease], [seconds])


async def waits_after_failing(jobs: JobActions, rows: int, starts: int, **options: Any) -> list[float]:
    """Return the retry delays of jobs that failed after this many starts."""
    jobs.enqueue(rows=rows, max_attempts=1000, **options)
    jobs.admin.execute("update ledger.job set starts = %s, attempt = %s", [starts - 1, max(starts - 2, 0)])
    leases = await jobs.claim(limit=rows)
    assert len(leases) == rows
    await jobs.fail(*leases)
    return [(run_at - at).total_seconds() for run_at, at in jobs.columns("run_at", "updated_at")]


# ADR 8: the log -------------------------------------------------------------------------------------------------------


def test_job_event_table_has_id_and_also_seq_and_org_id(admin: Admin) -> None:
    query = (
        "select conname, pg_get_constraintdef(oid) from pg_constraint"
        " where conrelid = 'ledger.job_event'::regclass and contype in ('p', 'u', 'f')"
    )
    assert dict(admin.execute(query).fetchall()) == {
        "pk_job_event": "PRIMARY KEY (id)",
        "uq_job_event__job_id_seq": "UNIQUE (job_id, seq)",
        "fk_job_event_job_job_id": "FOREIGN KEY (job_id) REFERENCES ledger.job(id) ON DELETE CASCADE",
    }
    columns = "select attname from pg_attribute where attrelid = 'ledger.job_event'::regclass and attnotnull"
    assert {"seq", "org_id"} <= {name for (name,) in admin.execute(columns)}
    assert admin.execute("select relkind from pg_class where oid = 'ledger.job_event'::regclass").fetchone() == ("r",)


def test_primary_key_refuses_a_second_event_with_the_same_seq(jobs: JobActions, admin: Admin) -> None:
    (key,) = jobs.enqueue()
    event = "insert into ledger.job_event (id, job_id, org_id, seq, prev_status, next_status)"
    second = f"{event} values (ledger.event_id(%s, %s), %s, %s, %s, null, 'queued')".encode()
    with admin.transaction(force_rollback=True):
        admin.execute("alter table ledger.job_event drop constraint uq_job_event__job_id_seq")
        with pytest.raises(psycopg.errors.UniqueViolation) as refusal, admin.transaction():
            admin.execute(second, [key, 1, key, ORG, 1])
        assert refusal.value.diag.constraint_name == "pk_job_event"
        admin.execute(second, [key, 2, key, ORG, 2])


async def test_event_id_is_derived_from_job_id_and_seq(jobs: JobActions, admin: Admin) -> None:
    jobs.enqueue(rows=20)
    await repository.settle_done(jobs.worker, leases := await jobs.claim(limit=10), [None] * len(leases))
    query = "select id, ledger.event_id(job_id, seq), job_id from ledger.job_event"
    rows = admin.execute(query).fetchall()
    assert len(rows) == 40
    assert all(found == derived for found, derived, _ in rows)
    assert all(found.bytes[:8] == job.bytes[:8] and found.variant == job.variant for found, _, job in rows)


def test_event_ids_do_not_collide_even_for_handwritten_job_ids(admin: Admin) -> None:
    query = (
        "select count(*), count(distinct ledger.event_id(lpad(to_hex(j), 32, '0')::uuid, e))"
        " from generate_series(1, 300) as j, generate_series(1, 100) as e"
    )
    assert admin.execute(query).fetchone() == (30_000, 30_000)


async def test_events_of_one_transaction_are_ordered_by_seq(jobs: JobActions) -> None:
    (key,) = jobs.enqueue(rows=1)
    async with jobs.worker.transaction():
        (lease,) = await jobs.claim()
        await repository.settle_failed(jobs.worker, [lease], ["OOPS"], ["because"])
    query = "select seq, next_status, org_id from ledger.job_event where job_id = %s order by seq"
    expected_rows = [(1, "queued"), (2, "running"), (3, "failed"), (4, "queued")]
    assert jobs.admin.execute(query, [key]).fetchall() == [(*each, ORG) for each in expected_rows]


async def test_only_retention_deletes_jobs_and_only_finished_ones_in_batches(jobs: JobActions, admin: Admin) -> None:
    jobs.enqueue(rows=4)
    (lease, *rest) = await jobs.claim(limit=3)
    await repository.settle_done(jobs.worker, rest, [None, None])
    for statement in (b"delete from ledger.job", b"delete from ledger.job_event", b"truncate ledger.job cascade"):
        with pytest.raises(psycopg.errors.RestrictViolation):
            admin.execute(statement)
    jobs.advance_clock(400 * DAY)
    assert [await repository.purge(jobs.worker, limit=1) for _ in range(3)] == [1, 1, 0]
    assert sorted(jobs.columns("status")) == ["queued", "running"]
    event_counts = "select count(*), count(distinct job_id) from ledger.job_event"
    assert admin.execute(event_counts).fetchone() == (3, 2)
    assert jobs.path(lease.key) == ["queued", "running"]


# ADR 9: where a job may go --------------------------------------------------------------------------------------------


def test_terminal_states_are_succeeded_canceled_and_dead_letter() -> None:
    assert {JobStatus.SUCCEEDED, JobStatus.CANCELED, JobStatus.DEAD_LETTER} == TERMINAL
    added = {("queued", "canceled"), ("running", "canceled"), ("running", "queued"), ("dead_letter", "queued")}
    assert all(JOB_MACHINE.allows(before, after) for before, after in added)


async def test_only_jobs_in_a_terminal_state_have_finished_at(jobs: JobActions, admin: Admin) -> None:
    jobs.enqueue(rows=5, max_attempts=1)
    done, dead, stopped, failing = await jobs.claim(limit=4)
    async with jobs.worker.transaction():
        await repository.settle_done(jobs.worker, [done], [None])
        await repository.settle_failed(jobs.worker, [dead], ["NEVER"], ["no"], give_up=True)
        await repository.settle_cancelled(jobs.worker, [stopped])
    with admin.transaction(force_rollback=True):
        admin.execute(
            "update ledger.job set status = 'failed', lease_expires_at = null, last_error_code = 'OOPS' where id = %s",
            [failing.key],
        )
        found = dict(jobs.columns("status", "finished_at"))
    assert {status for status, at in found.items() if at} == {status.value for status in TERMINAL}
    assert set(found) - TERMINAL == {"queued", "failed"}


async def test_expired_lease_fails_the_job_as_crashed_and_retries_or_buries_it(jobs: JobActions) -> None:
    (retried,) = jobs.enqueue(max_attempts=2)
    (buried,) = jobs.enqueue(max_attempts=1)
    await jobs.claim(limit=2)
    jobs.advance_clock(LEASE + 1)
    assert await jobs.sweep() == 2
    assert jobs.path(retried) == ["queued", "running", "failed", "queued"]
    assert jobs.path(buried) == ["queued", "running", "failed", "dead_letter"]
    assert jobs.columns("last_error_code") == ["CRASHED", "CRASHED"]
    assert [jobs.events(key)[2][2]["code"] for key in (retried, buried)] == ["CRASHED", "CRASHED"]


async def test_release_and_snooze_return_a_running_job_to_queued_with_their_reason(jobs: JobActions) -> None:
    (key,) = jobs.enqueue()
    (lease,) = await jobs.claim()
    await repository.release_jobs(jobs.worker, [lease])
    (lease,) = await jobs.claim()
    await snooze(jobs, lease)
    moves = [(before, after, detail["reason"]) for before, after, detail in jobs.events(key)[2::2]]
    assert moves == [("running", "queued", "released"), ("running", "queued", "later")]


async def test_redrive_resets_starts_clears_finished_at_and_records_the_actor(jobs: JobActions) -> None:
    first, second = jobs.enqueue(rows=2, max_attempts=2, backoff_policy="none")
    for _ in range(2):
        await jobs.fail(*await jobs.claim(limit=2))
    assert jobs.columns("status", "starts") == [("dead_letter", 2)] * 2
    assert await jobs.steer(repository.redrive, ORG, first, "anna")
    assert await jobs.steer(repository.redrive_many, DeadLetterFilter(ORG), "bert") == [second]
    again = ("queued", 0, 0, None, None)
    assert jobs.columns("status", "starts", "attempt", "finished_at", "retain_until") == [again, again]
    ends = [("dead_letter", "queued", {"actor": actor, "reason": "redriven"}) for actor in ("anna", "bert")]
    assert [jobs.events(first)[-1], jobs.events(second)[-1]] == ends
    jobs.verify()


# ADR 9: counting ------------------------------------------------------------------------------------------------------


async def test_claim_increments_starts_and_attempt_is_one_less(jobs: JobActions) -> None:
    jobs.enqueue(max_attempts=3, backoff_policy="none")
    seen: list[Any] = [*jobs.columns("starts", "attempt", "status")]
    for _ in range(3):
        (lease,) = await jobs.claim()
        assert (lease.row["starts"], lease.row["attempt"]) == jobs.columns("starts", "attempt")[0]
        seen += jobs.columns("starts", "attempt", "status")
        await jobs.fail(lease)
        seen += jobs.columns("starts", "attempt", "status")
    assert seen == [
        (0, 0, "queued"),
        (1, 0, "running"),
        (1, 0, "queued"),
        (2, 1, "running"),
        (2, 1, "queued"),
        (3, 2, "running"),
        (3, 2, "dead_letter"),
    ]


@pytest.mark.parametrize("max_attempts", [1, 2, 5])
async def test_job_becomes_a_dead_letter_after_max_attempts_including_crashes(
    max_attempts: int, jobs: JobActions
) -> None:
    (key,) = jobs.enqueue(max_attempts=max_attempts, backoff_policy="none")
    for start in range(max_attempts):
        assert jobs.columns("status") == ["queued"]
        (lease,) = await jobs.claim()
        if start % 2:
            await jobs.fail(lease)
        else:
            jobs.advance_clock(LEASE + 1)
            assert await jobs.sweep() == 1
    assert jobs.columns("status", "starts") == [("dead_letter", max_attempts)]
    assert jobs.path(key).count("running") == max_attempts


# ADR 10: what a job needs to run --------------------------------------------------------------------------------------


def test_job_table_has_the_additional_columns(admin: Admin) -> None:
    query = "select attname from pg_attribute where attrelid = 'ledger.job'::regclass and attnum > 0"
    assert {name for (name,) in admin.execute(query)} >= ADDED_COLUMNS


async def test_finished_job_and_its_key_are_kept_for_thirty_days(jobs: JobActions) -> None:
    (first,) = jobs.enqueue(key="k")
    assert await repository.purge(jobs.worker) == 0
    await repository.settle_done(jobs.worker, await jobs.claim(), [None])
    ((finished_at, retain_until),) = jobs.columns("finished_at", "retain_until")
    assert retain_until - finished_at == timedelta(days=30)
    jobs.advance_clock(30 * DAY - 60)
    assert await repository.purge(jobs.worker) == 0
    assert jobs.enqueue(key="k") == [first]
    jobs.advance_clock(120)
    assert await repository.purge(jobs.worker) == 1
    assert jobs.enqueue(key="k") != [first]


def test_retention_of_less_than_a_day_is_refused(jobs: JobActions) -> None:
    with pytest.raises(psycopg.errors.CheckViolation, match="ck_job__retain_for"):
        jobs.enqueue(retain_for="23:59:59", key="k")
    jobs.enqueue(retain_for="24:00:00", key="k")


async def test_default_lease_lasts_60_s_and_is_renewed_every_15_s(jobs: JobActions) -> None:
    assert (Tuning().lease_seconds, Tuning().heartbeat_seconds) == (60.0, 15.0)
    jobs.enqueue()
    (lease,) = await jobs.claim(lease_seconds=Tuning().lease_seconds)
    for _ in range(6):  # longer than a lease
        jobs.advance_clock(15.0)
        renewal = await renew_leases(jobs.worker, [lease], lease_seconds=Tuning().lease_seconds)
        assert renewal.renewed == {lease.claim}
        assert await jobs.sweep() == 0
    jobs.advance_clock(61)
    assert await jobs.sweep() == 1


# ADR 34: waiting ------------------------------------------------------------------------------------------------------


@pytest.mark.breaks_invariants
async def test_backoff_none_retries_at_once(jobs: JobActions) -> None:
    waits = await waits_after_failing(jobs, 20, starts=5, backoff_policy="none", backoff_base_seconds=7.0)
    assert all(abs(wait) < 1.0 for wait in waits)
    assert len(await jobs.claim(limit=20)) == 20


@pytest.mark.breaks_invariants
async def test_backoff_fixed_waits_the_base(jobs: JobActions) -> None:
    waits = await waits_after_failing(jobs, 20, starts=5, backoff_policy="fixed", backoff_base_seconds=7.0)
    assert all(abs(wait - 7.0) < 1.0 for wait in waits)


@pytest.mark.breaks_invariants
@pytest.mark.parametrize(
    ("starts", "base", "cap", "nominal"),
    [(1, 100.0, 1e6, 100.0), (2, 100.0, 1e6, 200.0), (4, 100.0, 1e6, 800.0), (8, 100.0, 500.0, 500.0)],
)
async def test_backoff_exp_doubles_up_to_the_cap_with_20_percent_jitter(
    starts: int, base: float, cap: float, nominal: float, jobs: JobActions
) -> None:
    """With 200 jobs, the chance that the lowest or highest quarter is empty is 10^-24."""
    options = {"backoff_policy": "exp", "backoff_base_seconds": base, "backoff_cap_seconds": cap}
    waits = await waits_after_failing(jobs, 200, starts, **options)
    least, span = nominal * 0.8, nominal * 0.4
    assert all(least - 1.0 < wait < least + span + 1.0 for wait in waits)
    quarters = [sum(n / 4 <= (wait - least) / span < (n + 1) / 4 for wait in waits) for n in range(4)]
    assert all(quarters), quarters
    assert len(set(waits)) > 190


@pytest.mark.breaks_invariants
async def test_default_attempts_outlast_an_outage_of_three_minutes(jobs: JobActions) -> None:
    rows = 50
    jobs.enqueue(rows=rows)
    waited = dict.fromkeys(jobs.columns("id"), 0.0)
    for _ in range(4):
        leases = await jobs.claim(limit=rows)
        assert len(leases) == rows
        await jobs.fail(*leases)
        for key, run_at, at in jobs.columns("id", "run_at", "updated_at"):
            waited[key] += (run_at - at).total_seconds()
        jobs.advance_clock(600)
    assert all(180 - 1 <= seconds <= 270 + 1 for seconds in waited.values()), waited
    await jobs.fail(*await jobs.claim(limit=rows))
    assert jobs.columns("status") == ["dead_letter"] * rows


def test_default_backoff_is_15_s_to_10_min_unless_the_job_sets_it(jobs: JobActions) -> None:
    jobs.enqueue()
    jobs.enqueue(backoff_policy="fixed", backoff_base_seconds=2.0, backoff_cap_seconds=3.0)
    jobs.admin.execute("select ledger.enqueue_many(%s, 'work', array['{}'::jsonb])", [ORG])
    jobs.admin.execute("insert into ledger.job (org_id, type) values (%s, 'work')", [ORG])
    expected_rows = jobs.columns("backoff_policy", "backoff_base_seconds", "backoff_cap_seconds")
    usual = ("exp", 15.0, 600.0)
    assert expected_rows == [usual, ("fixed", 2.0, 3.0), usual, usual]
    assert (Backoff().policy, Backoff().base_seconds, Backoff().cap_seconds) == expected_rows[0]


async def test_snooze_does_not_consume_a_start(jobs: JobActions) -> None:
    jobs.enqueue(max_attempts=1)
    for n in range(5):
        (lease,) = await jobs.claim()
        assert lease.row["starts"] == 1
        await snooze(jobs, lease, 30.0)
        assert jobs.columns("status", "starts", "snoozes") == [("queued", 0, n + 1)]
        assert await jobs.claim() == []
        jobs.advance_clock(31)


async def test_job_fails_after_a_thousand_snoozes(jobs: JobActions, admin: Admin) -> None:
    assert MAX_SNOOZES == 1000
    jobs.enqueue(max_attempts=2, backoff_policy="none")
    jobs.admin.execute("update ledger.job set snoozes = 999")
    (lease,) = await jobs.claim()
    await snooze(jobs, lease)
    assert jobs.columns("status", "snoozes", "last_error_code") == [("queued", 1000, None)]
    jobs.advance_clock(2)
    for status in ("queued", "dead_letter"):
        (lease,) = await jobs.claim()
        assert await snooze(jobs, lease) == {lease.key}
        assert jobs.columns("status", "snoozes", "last_error_code") == [(status, 1000, "TOO_MANY_SNOOZES")]
    with pytest.raises(psycopg.errors.CheckViolation, match="ck_job__snoozes"):
        admin.execute("update ledger.job set snoozes = 1001")


# ADR 12: cancelling ---------------------------------------------------------------------------------------------------


async def test_queued_job_is_cancelled_at_once(jobs: JobActions) -> None:
    (key,) = jobs.enqueue()
    assert await jobs.steer(repository.cancel_job, ORG, key, "anna") is JobStatus.CANCELED
    assert jobs.path(key) == ["queued", "canceled"]


async def test_cancel_of_a_running_job_reaches_its_owner_at_the_next_heartbeat(jobs: JobActions) -> None:
    (key,) = jobs.enqueue()
    (lease,) = await jobs.claim()
    assert (await renew_leases(jobs.worker, [lease], lease_seconds=LEASE)).cancelled == frozenset()
    assert await jobs.steer(repository.cancel_job, ORG, key, "anna") is JobStatus.RUNNING
    assert jobs.columns("status", "lease_owner") == [("running", lease.owner)]
    assert (await renew_leases(jobs.worker, [lease], lease_seconds=LEASE)).cancelled == {lease.claim}
    assert await repository.settle_cancelled(jobs.worker, [lease]) == {key}
    assert jobs.columns("status", "settled_by") == [("canceled", lease.owner)]


async def test_expired_lease_cancels_a_job_with_a_cancel_request(jobs: JobActions) -> None:
    (key,) = jobs.enqueue()
    await jobs.claim()
    await jobs.steer(repository.cancel_job, ORG, key, "anna")
    jobs.advance_clock(LEASE + 1)
    assert await jobs.sweep() == 1
    assert jobs.path(key) == ["queued", "running", "running", "canceled"]


async def test_immediate_cancel_takes_the_lease_from_its_owner(jobs: JobActions) -> None:
    (key,) = jobs.enqueue()
    (lease,) = await jobs.claim()
    assert await jobs.steer(repository.cancel_job, ORG, key, "anna", now=True) is JobStatus.CANCELED
    assert (await renew_leases(jobs.worker, [lease], lease_seconds=LEASE)).lost == {lease.claim}
    assert await repository.settle_done(jobs.worker, [lease], [None]) == frozenset()


@pytest.mark.parametrize("end", sorted(TERMINAL))
async def test_cancel_of_a_finished_job_is_refused_and_changes_nothing(end: JobStatus, jobs: JobActions) -> None:
    (key,) = jobs.enqueue()
    (lease,) = await jobs.claim()
    async with jobs.worker.transaction():
        match end:
            case JobStatus.SUCCEEDED:
                await repository.settle_done(jobs.worker, [lease], [None])
            case JobStatus.CANCELED:
                await repository.settle_cancelled(jobs.worker, [lease])
            case _:
                await repository.settle_failed(jobs.worker, [lease], ["NEVER"], ["no"], give_up=True)
    before = jobs.events(key)
    for now in (False, True):
        assert await jobs.steer(repository.cancel_job, ORG, key, "anna", now=now) is None
    assert jobs.columns("status", "cancel_requested_at") == [(end.value, None)]
    assert jobs.events(key) == before


# ADR 13: names --------------------------------------------------------------------------------------------------------


def test_indexes_named_in_the_contract_keep_their_names(admin: Admin) -> None:
    found = indexes(admin)
    assert {name: found.get(name) for name in INDEXES_OF_THE_CONTRACT} == INDEXES_OF_THE_CONTRACT
    query = "select conname from pg_constraint where conname = 'ck_job__status_finished_at_consistency'"
    assert admin.execute(query).fetchall() == [("ck_job__status_finished_at_consistency",)]


def test_all_other_constraints_and_indexes_have_a_double_underscore(admin: Admin) -> None:
    query = (
        "select conname from pg_constraint where connamespace = 'ledger'::regnamespace and contype in ('u', 'c')"
        " and conrelid <> 0"
    )
    ours = {*indexes(admin), *(name for (name,) in admin.execute(query))} - {*INDEXES_OF_THE_CONTRACT}
    assert ours
    assert {name for name in ours if "__" not in name and not name.startswith("pk_")} == set()


def indexes(admin: Admin) -> dict[str, str]:
    """Return every index of the ledger with its definition."""
    query = "select indexname, split_part(indexdef, ' USING btree ', 2) from pg_indexes where schemaname = 'ledger'"
    return dict(admin.execute(query).fetchall())


# ADR 14: the table that is superseded ---------------------------------------------------------------------------------


@pytest.fixture
def before(server: str, worker_id: str) -> Generator[Admin, None, None]:
    """An empty database, which has a schema of another program."""
    databases = TestDatabases(server, f"duly_test_ruling_{worker_id}", template="template0")
    with databases.clone(worker_id) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create schema scheduler")
        yield connection


def test_old_jobs_table_is_recognized_by_its_columns_migrated_and_dropped(before: Admin) -> None:
    make_old_jobs(before, "public")
    make_old_jobs(before, "scheduler")
    migrate(before.info.dsn, Names(), apps="none")
    assert before.execute("select count(*) from scheduler.jobs").fetchone() == (3,)
    before.execute("drop schema scheduler cascade")
    migrate(before.info.dsn, Names(), apps="all")
    rows = before.execute("select id::text, status::text, stage, progress, result, last_error_message from ledger.job")
    assert sorted(rows) == [
        (key(1), "queued", "reading", 10, None, None),
        (key(2), "succeeded", "writing", 100, {"pages": 3}, None),
        (key(3), "dead_letter", "reading", 40, None, "boom"),
    ]
    expected_rows = (
        "select detail_json ->> 'stage', (detail_json ->> 'progress')::int from ledger.job_event where seq = 1"
    )
    assert sorted(before.execute(expected_rows)) == [("reading", 10), ("reading", 40), ("writing", 100)]
    assert before.execute("select to_regclass('public.jobs')").fetchone() == (None,)
    assert check(before, ("duly", "ledger")) == []


def test_jobs_table_with_other_columns_is_left_alone(before: Admin) -> None:
    before.execute("create table public.jobs (id uuid, status text, salary integer)")
    migrate(before.info.dsn, Names(), apps="none")
    assert before.execute("select count(*) from public.jobs").fetchone() == (0,)


def make_old_jobs(connection: Admin, schema: str) -> None:
    """The contract's old table with a pending, a completed and a failed job."""
    connection.execute(
        f"create table {schema}.jobs (id uuid primary key, status varchar(50) not null, stage varchar(100),"
        " progress integer, result jsonb, error text, created_at timestamptz default now(),"
        " updated_at timestamptz default now())".encode()
    )
    rows: Sequence[tuple[Any, ...]] = [
        (key(1), "pending", "reading", 10, None, None),
        (key(2), "completed", "writing", 100, '{"pages": 3}', None),
        (key(3), "failed", "reading", 40, None, "boom"),
    ]
    with connection.cursor() as cursor:
        cursor.executemany(f"insert into {schema}.jobs values (%s, %s, %s, %s, %s, %s)".encode(), rows)


def key(number: int) -> str:
    """An id."""
    return str(UUID(int=number))
