"""Logs are append-only on every partition; only retention deletes, and always complete histories."""

import itertools
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import LiteralString

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.testing import move_clock
from duly.verify import check
from duly.verify.contract import CONTRACTS
from tests.support.actions import Admin
from tests.support.locks import wait_until_blocked

DAY = 86_400.0
MESSAGES = "insert into duly.outbox (channel, recipient, kind, payload) select 'mail', %s, 'alert', '{}'"
PURGE = "select messages, transitions from duly.purge_messages(%s::interval, %s)"
PARTITIONED = """
create table duly.log (at timestamptz not null, what text) partition by range (at);
create table duly.log_2025 partition of duly.log for values from ('2025-01-01Z') to ('2026-01-01Z');
select duly.protect('duly.log');
create table duly.log_2026 partition of duly.log for values from ('2026-01-01Z') to ('2027-01-01Z')
    partition by range (at);
create table duly.log_2026_01 partition of duly.log_2026 for values from ('2026-01-01Z') to ('2026-02-01Z');
create table duly.log_rest partition of duly.log default;
select duly.protect('duly.log');
insert into duly.log values ('2025-06-01Z', 'one'), ('2026-01-15Z', 'two'), ('2030-01-01Z', 'three');
grant select, insert on duly.log, duly.log_2025, duly.log_2026, duly.log_2026_01, duly.log_rest to duly_worker;
"""
DETACH_STATEMENTS = (
    "alter table duly.log detach partition duly.log_2025",
    "alter table duly.log_2026 detach partition duly.log_2026_01",
    "drop table duly.log_2025",
    "alter table duly.log_2025 disable trigger is_not_emptied",
    "drop trigger is_append_only on duly.log",
    "select duly.protect('duly.log')",
)
CHANGES = (
    "update {} set what = 'other'",
    "update {} set at = at + interval '1 year'",
    "delete from {}",
    "truncate {}",
    "truncate {} cascade",
    "merge into {} as t using (select) as s on true when matched then delete",
    "merge into {} as t using (select) as s on true when matched then update set what = 'other'",
)
PARTS = ("duly.log", "duly.log_2025", "duly.log_2026", "duly.log_2026_01", "duly.log_rest")


@pytest.fixture
def worker(admin: Admin) -> Generator[Admin, None, None]:
    """A connection with the worker's role."""
    with psycopg.connect(make_conninfo(admin.info.dsn, user=Names().worker), autocommit=True) as connection:
        yield connection


def create_messages(admin: Admin, *recipients: str) -> None:
    """Create a message to each recipient."""
    for recipient in recipients:
        admin.execute(MESSAGES, [recipient])


def fail(admin: Admin, *recipients: str) -> None:
    """Withdraw messages, which finishes them."""
    admin.execute(
        "update duly.outbox set status = 'failed', last_error = 'withdrawn' where recipient = any (%s)",
        [list(recipients)],
    )


def redrive(admin: Admin, recipient: str) -> None:
    """Put a failed message back in the queue."""
    admin.execute("update duly.outbox set status = 'pending' where recipient = %s", [recipient])


def remaining_recipients(admin: Admin) -> list[str]:
    """Return the recipients of remaining messages; check that exactly their histories exist, complete."""
    assert check(admin, CONTRACTS["duly"]) == []
    lines = admin.execute("select distinct key from duly.transition where machine = 'outbox'").fetchall()
    rows = admin.execute("select id::text, recipient from duly.outbox order by recipient").fetchall()
    assert {key for (key,) in lines} == {key for key, _ in rows}
    return [recipient for _, recipient in rows]


def purge(connection: Admin, older_than: str = "30 days", limit: int = 1000) -> tuple[int, int]:
    """Run retention; return how many messages and log lines it deleted."""
    row = connection.execute(PURGE, [older_than, limit]).fetchone()
    assert row
    return row


def test_old_failed_messages_are_deleted_with_their_histories(admin: Admin, worker: Admin) -> None:
    create_messages(admin, "anna", "ben", "cora")
    fail(admin, "anna", "ben")
    move_clock(admin, 20 * DAY)
    fail(admin, "cora")
    move_clock(admin, 9 * DAY)
    assert purge(worker) == (0, 0)
    move_clock(admin, 2 * DAY)
    assert purge(worker) == (2, 4)
    assert remaining_recipients(admin) == ["cora"]
    move_clock(admin, 20 * DAY)
    assert purge(worker) == (1, 2)
    assert remaining_recipients(admin) == []


def test_old_sent_messages_are_deleted_and_uncertain_ones_are_kept(admin: Admin, worker: Admin) -> None:
    create_messages(admin, "sent", "uncertain", "sending")
    admin.execute(
        "update duly.outbox set status = 'sending', starts = 1, lease_owner = 'me', lease_expires_at = duly.clock()"
    )
    admin.execute(
        "update duly.outbox set status = recipient, called_at = duly.clock(), settled_by = 'me', lease_owner = null,"
        " lease_expires_at = null where recipient <> 'sending'"
    )
    move_clock(admin, 400 * DAY)
    assert purge(worker) == (1, 3)
    assert remaining_recipients(admin) == ["sending", "uncertain"]


def test_pending_message_keeps_its_history_at_any_age(admin: Admin, worker: Admin) -> None:
    create_messages(admin, "anna", "ben")
    fail(admin, "anna", "ben")
    redrive(admin, "ben")
    move_clock(admin, 400 * DAY)
    assert purge(worker) == (1, 2)
    assert remaining_recipients(admin) == ["ben"]


def test_history_is_deleted_completely_by_the_age_of_its_newest_line(admin: Admin, worker: Admin) -> None:
    create_messages(admin, "anna")
    fail(admin, "anna")
    move_clock(admin, 100 * DAY)
    redrive(admin, "anna")
    fail(admin, "anna")
    move_clock(admin, 29 * DAY)
    assert purge(worker) == (0, 0)
    move_clock(admin, 2 * DAY)
    assert purge(worker) == (1, 4)
    assert remaining_recipients(admin) == []


def test_histories_of_unregistered_state_machines_are_kept(admin: Admin, worker: Admin) -> None:
    admin.execute("insert into duly.transition (machine, key, seq, next_status) values ('stranger', 'k', 1, 'sent')")
    move_clock(admin, 400 * DAY)
    assert purge(worker) == (0, 0)


def test_old_finished_histories_of_a_registered_state_machine_are_deleted(admin: Admin, worker: Admin) -> None:
    admin.execute(
        "create or replace function duly.is_finished(machine text, status text) returns boolean"
        " language sql immutable parallel safe"
        " return case machine when 'post' then status = 'RELEASED' when 'outbox' then status in ('sent', 'failed') end"
    )
    log = "insert into duly.transition (machine, key, seq, prev_status, next_status) values (%s, %s, %s, %s, %s)"
    for line in [
        ("post", "a", 1, None, "PENDING"),
        ("post", "a", 2, "PENDING", "RELEASED"),
        ("post", "b", 1, None, "PENDING"),
    ]:
        admin.execute(log, line)
    create_messages(admin, "anna")
    fail(admin, "anna")
    move_clock(admin, 31 * DAY)
    assert purge(worker) == (1, 4)
    assert admin.execute("select key from duly.transition").fetchall() == [("b",)]


def test_message_locked_by_a_redrive_is_kept_with_its_history(admin: Admin, worker: Admin) -> None:
    create_messages(admin, "anna", "ben")
    fail(admin, "anna", "ben")
    move_clock(admin, 31 * DAY)
    with psycopg.connect(admin.info.dsn) as other:
        redrive(other, "anna")
        assert purge(worker) == (1, 2)
    assert remaining_recipients(admin) == ["anna"]


def test_redrive_that_waits_for_retention_finds_the_message_deleted(admin: Admin, worker: Admin) -> None:
    create_messages(admin, "anna")
    fail(admin, "anna")
    move_clock(admin, 31 * DAY)
    with ThreadPoolExecutor() as threads, psycopg.connect(admin.info.dsn, autocommit=True) as other:
        with worker.transaction():
            assert purge(worker) == (1, 2)
            waiting = threads.submit(redrive, other, "anna")
            wait_until_blocked(admin.info.dsn)
        waiting.result()
    assert remaining_recipients(admin) == []


@pytest.mark.parametrize("older_than", ["23 hours", "0", "-30 days", "1 month -30 days -1 hours", None])
def test_retention_of_less_than_a_day_is_refused(older_than: str | None, worker: Admin) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="at least 1 day"):
        worker.execute(PURGE, [older_than, 10])


@pytest.mark.parametrize("zone", ["UTC", "Europe/Stockholm", "America/New_York"])
def test_retention_of_one_day_is_accepted_in_every_session_time_zone(zone: str, worker: Admin) -> None:
    worker.execute("select set_config('timezone', %s, false)", [zone])
    assert purge(worker, "1 day") == (0, 0)


@pytest.mark.parametrize("limit", [0, -1, 10_001, None])
def test_retention_batch_size_is_limited(limit: int | None, worker: Admin) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="1 to 10000"):
        worker.execute(PURGE, ["30 days", limit])


def test_retention_leaves_deletes_refused_for_the_rest_of_the_transaction(admin: Admin) -> None:
    """As a superuser, whom no privilege stops, only the trigger is left; it works again afterwards."""
    create_messages(admin, "anna", "ben")
    fail(admin, "anna")
    move_clock(admin, 31 * DAY)
    with admin.transaction(force_rollback=True):
        assert purge(admin) == (1, 2)
        assert admin.execute("select current_setting('duly.retention')").fetchone() == ("",)
        with pytest.raises(psycopg.errors.RestrictViolation, match="append-only"):
            admin.execute("delete from duly.transition")


def test_refused_retention_call_leaves_deletes_refused(admin: Admin) -> None:
    create_messages(admin, "anna")
    with admin.transaction(force_rollback=True):
        with pytest.raises(psycopg.errors.InvalidParameterValue), admin.transaction():
            purge(admin, "1 hour")
        with pytest.raises(psycopg.errors.RestrictViolation, match="append-only"):
            admin.execute("delete from duly.transition")


@pytest.mark.parametrize(
    "statement", ["delete from duly.transition", "truncate duly.transition", "delete from duly.outbox"]
)
def test_retention_setting_alone_permits_no_delete(statement: LiteralString, admin: Admin, worker: Admin) -> None:
    create_messages(admin, "anna")
    with worker.transaction(force_rollback=True):
        worker.execute("select set_config('duly.retention', 'on', true)")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            worker.execute(statement)
    assert remaining_recipients(admin) == ["anna"]


@pytest.mark.parametrize("role", [Names().api, Names().readonly])
def test_only_the_worker_role_may_run_retention(role: str, admin: Admin) -> None:
    with (
        psycopg.connect(make_conninfo(admin.info.dsn, user=role), autocommit=True) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege, match="purge"),
    ):
        purge(connection)


def test_temporary_table_of_the_caller_cannot_shadow_a_duly_table(admin: Admin, worker: Admin) -> None:
    create_messages(admin, "anna")
    fail(admin, "anna")
    move_clock(admin, 31 * DAY)
    with worker.transaction():
        worker.execute("create temporary table outbox (id uuid, revision bigint)")
        worker.execute("create temporary table pg_proc (prosrc text)")
        worker.execute("set local search_path = pg_temp, duly, public")
        assert purge(worker) == (1, 2)
    assert remaining_recipients(admin) == []


# Logs with partitions -------------------------------------------------------------------------------------------------


@pytest.fixture
def partitioned(admin: Admin) -> None:
    """A partitioned log with a nested partition; some were created before it was protected, some after."""
    with admin.transaction():
        admin.execute("set local role duly_owner")
        admin.execute(PARTITIONED)


@pytest.mark.usefixtures("partitioned")
@pytest.mark.parametrize("role", [Names().owner, "postgres"])
def test_every_partition_of_a_log_is_append_only(role: str, admin: Admin) -> None:
    admin.execute(f"set role {role}".encode())
    for part, statement in itertools.product(PARTS, CHANGES):
        with pytest.raises(psycopg.errors.RestrictViolation, match="append-only"):
            admin.execute(statement.format(part).encode())
    assert admin.execute("select count(*) from duly.log").fetchone() == (3,)


@pytest.mark.usefixtures("partitioned")
@pytest.mark.parametrize("role", [Names().worker, Names().api, Names().readonly])
def test_no_runtime_role_can_change_or_detach_a_log_partition(role: str, admin: Admin) -> None:
    with psycopg.connect(make_conninfo(admin.info.dsn, user=role), autocommit=True) as connection:
        for statement in (*(change.format(part) for part in PARTS for change in CHANGES), *DETACH_STATEMENTS):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())


@pytest.mark.usefixtures("partitioned")
def test_worker_role_may_insert_into_a_protected_log(admin: Admin, worker: Admin) -> None:
    worker.execute("insert into duly.log values ('2026-01-20Z', 'four')")
    assert admin.execute("select count(*) from duly.log").fetchone() == (4,)
    assert check(admin, CONTRACTS["duly"]) == []


def test_protect_makes_a_plain_table_append_only_and_is_idempotent(admin: Admin) -> None:
    admin.execute("create table duly.plain (what text)")
    for _ in range(2):
        admin.execute("select duly.protect('duly.plain')")
    admin.execute("insert into duly.plain values ('one')")
    for statement in ("update duly.plain set what = 'two'", "delete from duly.plain", "truncate duly.plain"):
        with pytest.raises(psycopg.errors.RestrictViolation, match="append-only"):
            admin.execute(statement.encode())
    triggers = admin.execute("select tgname from pg_trigger where tgrelid = 'duly.plain'::regclass order by tgname")
    assert triggers.fetchall() == [("is_append_only",), ("is_not_emptied",)]
