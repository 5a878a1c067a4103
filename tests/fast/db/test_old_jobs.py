"""ADR 14: the table that the ledger replaces is recognised by its columns, carried over and dropped; no other is."""

from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest

from duly.db.migrate import migrate
from duly.db.migrations import Names
from duly.errors import Misconfigured
from duly.testing import TestDatabases
from duly.verify import check

CARRIED_OVER = "00000000-0000-0000-0000-000000000001"
CREATED, UPDATED = datetime(2025, 1, 1, 12, tzinfo=UTC), datetime(2025, 1, 2, 12, tzinfo=UTC)
COLUMNS: LiteralString = (
    "id uuid primary key, status varchar(50) not null, stage varchar(100), progress integer, result jsonb, error text,"
    " created_at {at} default now(), updated_at {at} default now()"
)
STATUSES = {
    "pending": ["queued"],
    "processing": ["queued"],
    "completed": ["queued", "running", "succeeded"],
    "failed": ["queued", "running", "failed", "dead_letter"],
    "canceled": ["queued", "canceled"],
}


@pytest.fixture
def old(server: str, run_home: Path, worker_id: str) -> Generator[str, None, None]:
    """An empty database, on each major version."""
    databases = TestDatabases(server, f"duly_test_old_{worker_id}", template="template0")
    with databases.clone(worker_id) as dsn:
        yield dsn


def fill(connection: psycopg.Connection[tuple[object, ...]], *statuses: str) -> None:
    """One old job of each status."""
    for status in statuses:
        connection.execute(
            "insert into public.jobs values (gen_random_uuid(), %s, 'analyzing', 40, %s, %s, '2025-01-01 12:00',"
            " '2025-01-02 12:00')",
            [status, '{"pages": 3}' if status == "completed" else None, "boom" if status == "failed" else None],
        )


@pytest.mark.parametrize("at", ["timestamptz", "timestamp"])
def test_old_jobs_are_migrated_and_the_old_table_is_dropped(at: str, old: str) -> None:
    with psycopg.connect(old, autocommit=True) as connection:
        connection.execute("set timezone = 'UTC'")
        connection.execute(f"create table public.jobs ({COLUMNS.format(at=at)})".encode())
        fill(connection, *STATUSES)
        keys = dict(connection.execute("select status, id from public.jobs").fetchall())
        connection.execute("create schema scheduler")
        connection.execute(f"create table scheduler.jobs ({COLUMNS.format(at=at)})".encode())
    migrate(old, Names(), apps="none")
    with psycopg.connect(old, autocommit=True) as connection:
        connection.execute("drop schema scheduler cascade")  # it was left alone, and is not needed any more
    migrate(old, Names(), apps="all")
    with psycopg.connect(old, autocommit=True) as connection:
        connection.execute("set timezone = 'UTC'")
        assert connection.execute("select to_regclass('public.jobs')").fetchone() == (None,)
        query = "select array_agg(next_status::text order by seq) from ledger.job_event where job_id = %s"
        for status, path in STATUSES.items():
            assert connection.execute(query, [keys[status]]).fetchone() == (path,)
        rows = connection.execute(
            "select id, org_id::text, type, stage, progress, result, last_error_code, last_error_message, created_at,"
            " finished_at, started_at from ledger.job"
        ).fetchall()
        found = {key: rest for key, *rest in rows}
        common = [CARRIED_OVER, "carried_over", "analyzing", 40]
        assert found[keys["pending"]] == [*common, None, None, None, CREATED, None, None]
        assert found[keys["processing"]] == [*common, None, None, None, CREATED, None, None]
        assert found[keys["completed"]] == [*common, {"pages": 3}, None, None, CREATED, UPDATED, None]
        assert found[keys["failed"]] == [*common, None, "UNKNOWN_ERROR", "boom", CREATED, UPDATED, None]
        (detail,) = connection.execute(
            "select detail_json from ledger.job_event where job_id = %s and seq = 1", [keys["failed"]]
        ).fetchone() or (None,)
        assert detail == {
            "actor": "engine_0001/carried_over",
            "reason": "carried_over",
            "status": "failed",
            "stage": "analyzing",
            "progress": 40,
        }
        assert check(connection, ("duly", "ledger")) == []


def test_jobs_table_with_other_columns_is_left_alone(old: str) -> None:
    with psycopg.connect(old, autocommit=True) as connection:
        connection.execute("create table public.jobs (id uuid, status text, title text, salary integer)")
        connection.execute("insert into public.jobs values (gen_random_uuid(), 'pending', 'gardener', 1)")
    migrate(old, Names())
    with psycopg.connect(old) as connection:
        assert connection.execute("select count(*) from public.jobs").fetchone() == (1,)
        assert connection.execute("select count(*) from ledger.job").fetchone() == (0,)


def test_unknown_old_status_stops_the_migration_unchanged(old: str) -> None:
    with psycopg.connect(old, autocommit=True) as connection:
        connection.execute(f"create table public.jobs ({COLUMNS.format(at='timestamptz')})".encode())
        fill(connection, "pending", "dreaming", "dreaming", "it's odd")
    with pytest.raises(Misconfigured) as refusal:
        migrate(old, Names())
    for expected_text in (
        "nothing was changed: table public.jobs has jobs of an unknown status (number of jobs): ",
        "'dreaming' (2), 'it''s odd' (1)",
        "known are pending, processing, completed, failed and canceled",
        "update public.jobs set status = 'failed' where status = 'dreaming'",
        "alter table public.jobs rename to jobs_before_duly",
    ):
        assert expected_text in str(refusal.value)
    assert "\n" not in str(refusal.value)
    with psycopg.connect(old) as connection:
        assert connection.execute("select count(*) from public.jobs").fetchone() == (4,)
        assert connection.execute("select to_regclass('ledger.job')").fetchone() == (None,)
