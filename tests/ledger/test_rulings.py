"""What docs/adr/0008 to 0014 decided about the ledger, clause by clause: an index.

Other files here show more of most of them, and through more doors.
"""

from collections.abc import Generator, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from duly.db.migrate import migrate
from duly.db.migrations import Names
from duly.kernel.backoff import Backoff
from duly.kernel.lease import Lease, renew
from duly.kernel.work import Pace
from duly.ledger import JOB_MACHINE, store
from duly.ledger.model import MOST_SNOOZES, TERMINAL, DeadLetters, Status
from duly.testing import TestDatabases
from duly.verify import check
from tests.ledger.hands import LEASE, ORG, Admin, Connection, Hands

DAY = 86_400.0
OURS = {
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


async def snooze(hands: Hands, lease: Lease, seconds: float = 1.0) -> frozenset[UUID]:
    """Say "later", in one transaction."""
    async with hands.worker.transaction():
        return await store.later(hands.worker, [lease], [seconds])


async def waits_after_failing(hands: Hands, rows: int, starts: int, **options: Any) -> list[float]:
    """How long so many jobs wait after they failed, having started so often."""
    hands.put(rows=rows, max_attempts=1000, **options)
    hands.admin.execute("update ledger.job set starts = %s, attempt = %s", [starts - 1, max(starts - 2, 0)])
    leases = await hands.hold(most=rows)
    assert len(leases) == rows
    await hands.fail(*leases)
    return [(run_at - at).total_seconds() for run_at, at in hands.look("run_at", "updated_at")]


# ADR 8: the log -------------------------------------------------------------------------------------------------------


def test_an_event_keeps_its_id_and_gains_a_number_and_an_org(admin: Admin) -> None:
    asked = (
        "select conname, pg_get_constraintdef(oid) from pg_constraint"
        " where conrelid = 'ledger.job_event'::regclass and contype in ('p', 'u', 'f')"
    )
    assert dict(admin.execute(asked).fetchall()) == {
        "pk_job_event": "PRIMARY KEY (id)",
        "uq_job_event__job_id_seq": "UNIQUE (job_id, seq)",
        "fk_job_event_job_job_id": "FOREIGN KEY (job_id) REFERENCES ledger.job(id) ON DELETE CASCADE",
    }
    columns = "select attname from pg_attribute where attrelid = 'ledger.job_event'::regclass and attnotnull"
    assert {"seq", "org_id"} <= {name for (name,) in admin.execute(columns)}
    assert admin.execute("select relkind from pg_class where oid = 'ledger.job_event'::regclass").fetchone() == ("r",)


async def test_events_of_one_transaction_have_an_order(hands: Hands) -> None:
    (key,) = hands.put(rows=1)
    async with hands.worker.transaction():
        (lease,) = await hands.hold()
        await store.failed(hands.worker, [lease], ["OOPS"], ["because"])
    asked = "select seq, next_status, org_id from ledger.job_event where job_id = %s order by seq"
    told = [(1, "queued"), (2, "running"), (3, "failed"), (4, "queued")]
    assert hands.admin.execute(asked, [key]).fetchall() == [(*each, ORG) for each in told]


async def test_only_retention_deletes_and_only_what_has_finished_in_batches(hands: Hands, admin: Admin) -> None:
    hands.put(rows=4)
    (lease, *rest) = await hands.hold(most=3)
    await store.done(hands.worker, rest, [None, None])
    for statement in (b"delete from ledger.job", b"delete from ledger.job_event", b"truncate ledger.job cascade"):
        with pytest.raises(psycopg.errors.RestrictViolation):
            admin.execute(statement)
    hands.pass_time(400 * DAY)
    assert [await store.retain(hands.worker, most=1) for _ in range(3)] == [1, 1, 0]
    assert sorted(hands.look("status")) == ["queued", "running"]
    left = "select count(*), count(distinct job_id) from ledger.job_event"
    assert admin.execute(left).fetchone() == (3, 2)
    assert hands.path(lease.key) == ["queued", "running"]


# ADR 9: where a job may go --------------------------------------------------------------------------------------------


def test_terminal_are_three_and_failed_is_none_of_them() -> None:
    assert {Status.SUCCEEDED, Status.CANCELED, Status.DEAD_LETTER} == TERMINAL
    added = {("queued", "canceled"), ("running", "canceled"), ("running", "queued"), ("dead_letter", "queued")}
    assert all(JOB_MACHINE.allows(before, after) for before, after in added)


async def test_only_what_has_ended_has_a_finish(hands: Hands, admin: Admin) -> None:
    hands.put(rows=5, max_attempts=1)
    done, dead, stopped, failing = await hands.hold(most=4)
    async with hands.worker.transaction():
        await store.done(hands.worker, [done], [None])
        await store.gave_up(hands.worker, [dead], ["NEVER"], ["no"])
        await store.cancelled(hands.worker, [stopped])
    with admin.transaction(force_rollback=True):
        admin.execute(
            "update ledger.job set status = 'failed', lease_expires_at = null, last_error_code = 'OOPS' where id = %s",
            [failing.key],
        )
        found = dict(hands.look("status", "finished_at"))
    assert {status for status, at in found.items() if at} == {status.value for status in TERMINAL}
    assert set(found) - TERMINAL == {"queued", "failed"}


async def test_a_failure_is_two_updates_of_one_transaction_the_second_fenced_by_the_owner(
    hands: Hands, other: Connection
) -> None:
    (key,) = hands.put(backoff_policy="none")
    (lease,) = await hands.hold()
    async with hands.worker.transaction():
        assert await store.mark_failed(hands.worker, [lease], ["OOPS"], ["because"]) == {key}
        cursor = await hands.worker.execute("select status::text, lease_owner, finished_at from ledger.job")
        assert await cursor.fetchone() == ("failed", lease.owner, None)
        assert hands.look("status") == ["running"]  # to everybody else
        assert await store.after_failure(hands.worker, [(key, "worker-1/another")]) == 0
        assert await store.after_failure(hands.worker, [(key, lease.owner)]) == 1
    assert [(before, after) for before, after, _ in hands.log(key)[2:]] == [("running", "failed"), ("failed", "queued")]
    assert hands.look("lease_owner") == [None]


async def test_a_lapsed_lease_is_crashed_and_on(hands: Hands) -> None:
    (retried,) = hands.put(max_attempts=2)
    (buried,) = hands.put(max_attempts=1)
    await hands.hold(most=2)
    hands.pass_time(LEASE + 1)
    assert await hands.sweep() == 2
    assert hands.path(retried) == ["queued", "running", "failed", "queued"]
    assert hands.path(buried) == ["queued", "running", "failed", "dead_letter"]
    assert hands.look("last_error_code") == ["CRASHED", "CRASHED"]
    assert [hands.log(key)[2][2]["code"] for key in (retried, buried)] == ["CRASHED", "CRASHED"]


async def test_running_goes_back_to_queued_as_handed_back_or_later(hands: Hands) -> None:
    (key,) = hands.put()
    (lease,) = await hands.hold()
    await store.handed_back(hands.worker, [lease])
    (lease,) = await hands.hold()
    await snooze(hands, lease)
    moves = [(before, after, detail["reason"]) for before, after, detail in hands.log(key)[2::2]]
    assert moves == [("running", "queued", "handed_back"), ("running", "queued", "later")]


async def test_redriven_means_starts_reset_finish_cleared_actor_named(hands: Hands) -> None:
    first, second = hands.put(rows=2, max_attempts=2, backoff_policy="none")
    for _ in range(2):
        await hands.fail(*await hands.hold(most=2))
    assert hands.look("status", "starts") == [("dead_letter", 2)] * 2
    assert await store.retry_job(hands.worker, ORG, first, "anna")
    assert await store.redrive(hands.worker, DeadLetters(ORG), "bert") == [second]
    again = ("queued", 0, 0, None, None)
    assert hands.look("status", "starts", "attempt", "finished_at", "retain_until") == [again, again]
    ends = [("dead_letter", "queued", {"actor": actor, "reason": "redriven"}) for actor in ("anna", "bert")]
    assert [hands.log(first)[-1], hands.log(second)[-1]] == ends
    hands.verify()


# ADR 9: counting ------------------------------------------------------------------------------------------------------


async def test_starts_are_counted_in_the_claim_and_attempt_is_one_less(hands: Hands) -> None:
    hands.put(max_attempts=3, backoff_policy="none")
    seen: list[Any] = [*hands.look("starts", "attempt", "status")]
    for _ in range(3):
        (lease,) = await hands.hold()
        assert (lease.row["starts"], lease.row["attempt"]) == hands.look("starts", "attempt")[0]
        seen += hands.look("starts", "attempt", "status")
        await hands.fail(lease)
        seen += hands.look("starts", "attempt", "status")
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
async def test_it_dies_when_it_started_as_often_as_it_may_crashes_counted(max_attempts: int, hands: Hands) -> None:
    (key,) = hands.put(max_attempts=max_attempts, backoff_policy="none")
    for start in range(max_attempts):
        assert hands.look("status") == ["queued"]
        (lease,) = await hands.hold()
        if start % 2:
            await hands.fail(lease)
        else:
            hands.pass_time(LEASE + 1)
            assert await hands.sweep() == 1
    assert hands.look("status", "starts") == [("dead_letter", max_attempts)]
    assert hands.path(key).count("running") == max_attempts


# ADR 10: what a job needs to run --------------------------------------------------------------------------------------


def test_our_columns_are_there(admin: Admin) -> None:
    asked = "select attname from pg_attribute where attrelid = 'ledger.job'::regclass and attnum > 0"
    assert {name for (name,) in admin.execute(asked)} >= OURS


async def test_a_finished_job_is_kept_for_thirty_days_and_its_key_as_long(hands: Hands) -> None:
    (first,) = hands.put(key="k")
    assert await store.retain(hands.worker) == 0
    await store.done(hands.worker, await hands.hold(), [None])
    ((finished_at, retain_until),) = hands.look("finished_at", "retain_until")
    assert retain_until - finished_at == timedelta(days=30)
    hands.pass_time(30 * DAY - 60)
    assert await store.retain(hands.worker) == 0
    assert hands.put(key="k") == [first]
    hands.pass_time(120)
    assert await store.retain(hands.worker) == 1
    assert hands.put(key="k") != [first]


def test_no_key_is_kept_for_less_than_a_day(hands: Hands) -> None:
    with pytest.raises(psycopg.errors.CheckViolation, match="ck_job__retain_for"):
        hands.put(retain_for="23:59:59", key="k")
    hands.put(retain_for="24:00:00", key="k")


async def test_a_lease_lasts_a_minute_and_is_renewed_every_quarter_of_it(hands: Hands) -> None:
    assert (Pace().lease_seconds, Pace().heartbeat_seconds) == (60.0, 15.0)
    hands.put()
    (lease,) = await hands.hold(seconds=Pace().lease_seconds)
    for _ in range(6):  # longer than a lease
        hands.pass_time(15.0)
        renewal = await renew(hands.worker, [lease], lease_seconds=Pace().lease_seconds)
        assert renewal.renewed == {lease.claim}
        assert await hands.sweep() == 0
    hands.pass_time(61)
    assert await hands.sweep() == 1


# ADR 11: waiting ------------------------------------------------------------------------------------------------------


@pytest.mark.lawless
async def test_none_is_at_once(hands: Hands) -> None:
    waits = await waits_after_failing(hands, 20, starts=5, backoff_policy="none", backoff_base_seconds=7.0)
    assert all(abs(wait) < 1.0 for wait in waits)
    assert len(await hands.hold(most=20)) == 20


@pytest.mark.lawless
async def test_fixed_is_the_base(hands: Hands) -> None:
    waits = await waits_after_failing(hands, 20, starts=5, backoff_policy="fixed", backoff_base_seconds=7.0)
    assert all(abs(wait - 7.0) < 1.0 for wait in waits)


@pytest.mark.lawless
@pytest.mark.parametrize(
    ("starts", "base", "cap", "ceiling"),
    [(1, 100.0, 1e6, 100.0), (2, 100.0, 1e6, 200.0), (4, 100.0, 1e6, 800.0), (8, 100.0, 500.0, 500.0)],
)
async def test_exp_is_anything_up_to_base_times_two_to_the_attempt_capped(
    starts: int, base: float, cap: float, ceiling: float, hands: Hands
) -> None:
    """200 of them: that none is in the lowest or none in the highest quarter is a chance of 10^-24."""
    options = {"backoff_policy": "exp", "backoff_base_seconds": base, "backoff_cap_seconds": cap}
    waits = await waits_after_failing(hands, 200, starts, **options)
    assert all(-1.0 < wait < ceiling + 1.0 for wait in waits)
    quarters = [sum(ceiling * n / 4 <= wait < ceiling * (n + 1) / 4 for wait in waits) for n in range(4)]
    assert all(quarters), quarters
    assert len(set(waits)) > 190


def test_the_base_is_a_second_and_the_cap_ten_minutes_unless_the_job_says_otherwise(hands: Hands) -> None:
    hands.put()
    hands.put(backoff_policy="fixed", backoff_base_seconds=2.0, backoff_cap_seconds=3.0)
    told = hands.look("backoff_policy", "backoff_base_seconds", "backoff_cap_seconds")
    assert told == [("exp", 1.0, 600.0), ("fixed", 2.0, 3.0)]
    assert (Backoff().policy, Backoff().base_seconds, Backoff().cap_seconds) == told[0]


async def test_later_burns_no_start(hands: Hands) -> None:
    hands.put(max_attempts=1)
    for n in range(5):
        (lease,) = await hands.hold()
        assert lease.row["starts"] == 1
        await snooze(hands, lease, 30.0)
        assert hands.look("status", "starts", "snoozes") == [("queued", 0, n + 1)]
        assert await hands.hold() == []
        hands.pass_time(31)


async def test_a_thousand_snoozes_and_then_it_is_a_failure(hands: Hands, admin: Admin) -> None:
    assert MOST_SNOOZES == 1000
    hands.put(max_attempts=2, backoff_policy="none")
    hands.admin.execute("update ledger.job set snoozes = 999")
    (lease,) = await hands.hold()
    await snooze(hands, lease)
    assert hands.look("status", "snoozes", "last_error_code") == [("queued", 1000, None)]
    hands.pass_time(2)
    for status in ("queued", "dead_letter"):
        (lease,) = await hands.hold()
        assert await snooze(hands, lease) == {lease.key}
        assert hands.look("status", "snoozes", "last_error_code") == [(status, 1000, "TOO_MANY_SNOOZES")]
    with pytest.raises(psycopg.errors.CheckViolation, match="ck_job__snoozes"):
        admin.execute("update ledger.job set snoozes = 1001")


# ADR 12: cancelling ---------------------------------------------------------------------------------------------------


async def test_a_queued_job_is_cancelled_at_once(hands: Hands) -> None:
    (key,) = hands.put()
    assert await store.cancel_job(hands.worker, ORG, key, "anna") is Status.CANCELED
    assert hands.path(key) == ["queued", "canceled"]


async def test_a_running_job_hears_of_it_at_the_next_beat_and_its_holder_settles_it(hands: Hands) -> None:
    (key,) = hands.put()
    (lease,) = await hands.hold()
    assert (await renew(hands.worker, [lease], lease_seconds=LEASE)).cancelled == frozenset()
    assert await store.cancel_job(hands.worker, ORG, key, "anna") is Status.RUNNING
    assert hands.look("status", "lease_owner") == [("running", lease.owner)]
    assert (await renew(hands.worker, [lease], lease_seconds=LEASE)).cancelled == {lease.claim}
    assert await store.cancelled(hands.worker, [lease]) == {key}
    assert hands.look("status", "settled_by") == [("canceled", lease.owner)]


async def test_a_lapse_does_it_for_a_holder_that_never_hears(hands: Hands) -> None:
    (key,) = hands.put()
    await hands.hold()
    await store.cancel_job(hands.worker, ORG, key, "anna")
    hands.pass_time(LEASE + 1)
    assert await hands.sweep() == 1
    assert hands.path(key) == ["queued", "running", "running", "canceled"]


async def test_now_does_it_at_once_and_the_holder_has_lost_it(hands: Hands) -> None:
    (key,) = hands.put()
    (lease,) = await hands.hold()
    assert await store.cancel_job(hands.worker, ORG, key, "anna", now=True) is Status.CANCELED
    assert (await renew(hands.worker, [lease], lease_seconds=LEASE)).lost == {lease.claim}
    assert await store.done(hands.worker, [lease], [None]) == frozenset()


@pytest.mark.parametrize("end", sorted(TERMINAL))
async def test_what_has_ended_refuses_and_stays(end: Status, hands: Hands) -> None:
    (key,) = hands.put()
    (lease,) = await hands.hold()
    async with hands.worker.transaction():
        match end:
            case Status.SUCCEEDED:
                await store.done(hands.worker, [lease], [None])
            case Status.CANCELED:
                await store.cancelled(hands.worker, [lease])
            case _:
                await store.gave_up(hands.worker, [lease], ["NEVER"], ["no"])
    before = hands.log(key)
    for now in (False, True):
        assert await store.cancel_job(hands.worker, ORG, key, "anna", now=now) is None
    assert hands.look("status", "cancel_requested_at") == [(end.value, None)]
    assert hands.log(key) == before


# ADR 13: names --------------------------------------------------------------------------------------------------------


def test_names_printed_in_the_contract_win(admin: Admin) -> None:
    found = indexes(admin)
    assert {name: found.get(name) for name in INDEXES_OF_THE_CONTRACT} == INDEXES_OF_THE_CONTRACT
    asked = "select conname from pg_constraint where conname = 'ck_job__status_finished_at_consistency'"
    assert admin.execute(asked).fetchall() == [("ck_job__status_finished_at_consistency",)]


def test_all_others_have_the_double_underscore(admin: Admin) -> None:
    asked = (
        "select conname from pg_constraint where connamespace = 'ledger'::regnamespace and contype in ('u', 'c')"
        " and conrelid <> 0"
    )
    ours = {*indexes(admin), *(name for (name,) in admin.execute(asked))} - {*INDEXES_OF_THE_CONTRACT}
    assert ours
    assert {name for name in ours if "__" not in name and not name.startswith("pk_")} == set()


def indexes(admin: Admin) -> dict[str, str]:
    """Every index of the ledger, and what it is on."""
    asked = "select indexname, split_part(indexdef, ' USING btree ', 2) from pg_indexes where schemaname = 'ledger'"
    return dict(admin.execute(asked).fetchall())


# ADR 14: the table that is superseded ---------------------------------------------------------------------------------


@pytest.fixture
def before(server: str, worker_id: str) -> Generator[Admin, None, None]:
    """A database from before the ledger."""
    databases = TestDatabases(server, f"duly_test_ruling_{worker_id}", template="template0")
    with databases.clone(worker_id) as dsn:
        migrate(dsn, Names(), to="0002_outbox")
        with psycopg.connect(dsn, autocommit=True) as connection:
            yield connection


def test_the_old_table_is_known_by_its_columns_carried_over_and_dropped(before: Admin) -> None:
    make_old_jobs(before, "public")
    make_old_jobs(before, "scheduler")
    migrate(before.info.dsn, Names(), to="0003_ledger")
    assert before.execute("select count(*) from scheduler.jobs").fetchone() == (3,)
    before.execute("drop table scheduler.jobs")
    migrate(before.info.dsn, Names())
    rows = before.execute("select id::text, status::text, stage, progress, result, last_error_message from ledger.job")
    assert sorted(rows) == [
        (key(1), "queued", "reading", 10, None, None),
        (key(2), "succeeded", "writing", 100, {"pages": 3}, None),
        (key(3), "dead_letter", "reading", 40, None, "boom"),
    ]
    told = "select detail_json ->> 'stage', (detail_json ->> 'progress')::int from ledger.job_event where seq = 1"
    assert sorted(before.execute(told)) == [("reading", 10), ("reading", 40), ("writing", 100)]
    assert before.execute("select to_regclass('public.jobs')").fetchone() == (None,)
    assert check(before, ("duly", "ledger")) == []


def test_a_table_of_the_same_name_and_other_columns_is_left_alone(before: Admin) -> None:
    before.execute("create table public.jobs (id uuid, status text, salary integer)")
    migrate(before.info.dsn, Names())
    assert before.execute("select count(*) from public.jobs").fetchone() == (0,)


def make_old_jobs(connection: Admin, schema: str) -> None:
    """The contract's old table with a job that waits, one that is done and one that failed."""
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
