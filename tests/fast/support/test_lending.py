"""A database that was lent before is as good as a new one, or it is not lent again."""

from collections.abc import Generator, Sequence
from contextlib import closing
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from duly.testing import TestDatabases
from tests.support.database_pool import DatabasePool, read_state


@pytest.fixture
def database_pool(databases: TestDatabases, worker_id: str) -> Generator[DatabasePool, None, None]:
    with closing(DatabasePool(databases, f"lent_{worker_id}")) as database_pool:
        yield database_pool


def inside(dsn: str) -> psycopg.Connection[Any]:
    """A connection that may do anything."""
    return psycopg.connect(dsn, autocommit=True)


def use(dsn: str, statements: Sequence[str]) -> None:
    """What a test might do."""
    with inside(dsn) as admin:
        for statement in statements:
            admin.execute(statement.encode())


def like(dsn: str) -> tuple[object, ...]:
    """All that a later test could notice, but for how often the catalogue was written."""
    with inside(dsn) as admin:
        state = read_state(admin)
        activity = admin.execute("select sum(n_tup_ins), max(last_vacuum) from pg_stat_user_tables").fetchall()
        return state.rows, state.sequences, state.estimates, activity


USES = {
    "rows": ["insert into duly.orgs (name) select 'org ' || n from generate_series(1, 50) as n"],
    "lines of an append-only log": [
        "insert into duly.outbox (channel, recipient, kind, payload) values ('console', 'anna', 'reminder', '{}')"
    ],
    "rows of the template": ["delete from duly.alembic_version"],
    "changed rows of the template": [
        "update duly.alembic_version set version_num = 'elsewhere' where version_num = 'posts_0001'"
    ],
    "a sequence": ["select nextval('scheduler.jobs_id_seq')"],
    "estimates": ["insert into duly.orgs (name) values ('one')", "vacuum duly.orgs"],
}


@pytest.mark.parametrize("statements", USES.values(), ids=USES)
def test_used_database_is_emptied_and_lent_again(database_pool: DatabasePool, statements: Sequence[str]) -> None:
    with database_pool.borrow() as dsn:
        fresh = like(dsn)
        use(dsn, statements)
        assert like(dsn) != fresh
    assert len(database_pool.spare) == 1
    with database_pool.borrow() as again:
        assert like(again) == fresh
        assert again != dsn


CHANGES = {
    "a table": ["create table left_here ()"],
    "a table less": ["drop table posts.objectives cascade"],
    "a column": ["alter table duly.orgs add column colour text"],
    "a column's statistics": ["alter table duly.orgs alter column name set statistics 7"],
    "a function": [
        "create or replace function duly.now() returns timestamptz language sql return statement_timestamp()"
    ],
    "a trigger": ["alter table ledger.job disable trigger all"],
    "a right": ["revoke all on duly.orgs from public, duly_worker"],
    "a comment": ["comment on table duly.orgs is 'ours'"],
    "a schema": ["create schema left_here"],
    "a setting": ["do $$ begin execute format('alter database %I set work_mem = 64', current_database()); end $$"],
    "estimates by looking": ["insert into duly.orgs (name) values ('one')", "analyze duly.orgs"],
    "much": ["insert into duly.orgs (name) select repeat('x', 50) || n from generate_series(1, 20000) as n"],
}


@pytest.mark.parametrize("statements", CHANGES.values(), ids=CHANGES)
def test_database_with_a_changed_schema_is_dropped(database_pool: DatabasePool, statements: Sequence[str]) -> None:
    with database_pool.borrow() as dsn:
        use(dsn, statements)
    assert database_pool.spare == {}


def test_lingering_connection_is_terminated_and_the_database_renamed(database_pool: DatabasePool) -> None:
    with database_pool.borrow() as dsn:
        lingering = inside(dsn)
    with pytest.raises(psycopg.OperationalError):
        lingering.execute("select")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        inside(dsn)
    assert len(database_pool.spare) == 1


def test_database_dropped_by_the_test_causes_no_error(database_pool: DatabasePool) -> None:
    with database_pool.borrow() as dsn, inside(database_pool.databases.dsn) as server:
        name = conninfo_to_dict(dsn)["dbname"]
        server.execute(f'drop database "{name}"'.encode())
    assert database_pool.spare == {}


def test_closing_the_lender_drops_every_database(databases: TestDatabases, worker_id: str) -> None:
    with closing(DatabasePool(databases, f"closed_{worker_id}")) as database_pool:
        with database_pool.borrow(), database_pool.borrow():
            pass
        assert len(database_pool.spare) == 2
    with inside(databases.dsn) as server:
        assert server.execute("select datname from pg_database where datname like '%_closed_%'").fetchall() == []
