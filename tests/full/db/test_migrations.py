"""Migrations up and down, compiled and applied for real, on every PostgreSQL there is."""

import json
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from duly.db.admin import create_database
from duly.db.embedded import EmbeddedServer
from duly.db.migrate import migrate, newest_revisions
from duly.db.migrations import Names
from duly.errors import Misconfigured
from duly.launcher import ROOT
from duly.testing import FAST_SETTINGS
from duly.verify.contract import CONTRACTS
from tests.fast.db.test_migrations import (
    BROKEN,
    SUPABASE_ROLES,
    committed,
    empty,
    generous,
    lines_of,
    revisions_of,
    supabase,
)
from tests.support.command_line import CommandLine
from tests.support.processes import PYTHON, Program, plain_environment
from tools.supabase import compile_migrations

__all__ = ["empty", "generous", "supabase"]


def alembic(*arguments: str, root: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Alembic's own command from the root of a checkout."""
    given = plain_environment(PYTHONPATH=str(root / "src"), **environment)
    return subprocess.run(
        [sys.executable, "-m", "alembic", *arguments], cwd=root, env=given, capture_output=True, text=True
    )


def test_alembic_knows_the_schema_of_the_settings(empty: str) -> None:
    environment: dict[str, Any] = {"DATABASE_URL": empty, "DB_SCHEMA": "ingest2"}
    assert alembic("upgrade", "head", **environment).returncode == 0
    assert "column ingest2.capture_session.id" in "\n".join(lines_of(empty, ("ingest2",)))
    current = alembic("current", **environment).stdout
    assert [revision for revision in newest_revisions() if revision not in current] == []


def test_alembic_current_on_an_empty_database_changes_nothing_and_has_no_traceback(empty: str) -> None:
    current = alembic("current", DATABASE_URL=empty)
    assert (current.returncode, current.stdout, "Traceback" in current.stderr) == (0, "", False), current.stderr
    assert lines_of(empty) == []


def test_a_migration_waits_for_a_locked_table_without_blocking_others(empty: str) -> None:
    migrate(empty, Names())
    messages: list[str] = []
    waited = threading.Event()

    def report(message: str) -> None:
        messages.append(message)
        waited.set()

    with psycopg.connect(empty) as user:
        user.execute("select * from duly.orgs")
        migration = threading.Thread(target=lambda: migrate(empty, Names(), to="engine@base", report=report))
        migration.start()
        assert waited.wait(60)
        user.execute("select * from duly.orgs")  # it stepped back: we are not behind it in the queue
    migration.join(60)
    assert "a table is locked" in messages[0]
    assert revisions_of(empty) == ()


def test_alembic_upgrade_head_means_every_head_and_downgrade_names_a_branch(empty: str) -> None:
    for step, is_there in (
        (("upgrade", "head"), newest_revisions()),
        (("downgrade", "posts@base"), tuple(each for each in newest_revisions() if each != "posts_0001")),
        (("upgrade", "posts@head"), newest_revisions()),
        (("downgrade", "engine@base"), ()),
        (("upgrade", "heads"), newest_revisions()),
        (("downgrade", "base"), ()),
    ):
        done = alembic(*step, DATABASE_URL=empty)
        assert (done.returncode, revisions_of(empty)) == (0, is_there), done.stderr


def test_migrate_sql_prints_sql_that_creates_the_same_database(empty: str) -> None:
    command_line = [sys.executable, "-P", "-m", "duly", "migrate", "--sql"]
    printed = subprocess.run(command_line, check=True, capture_output=True, text=True, env=plain_environment()).stdout
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute(printed.encode())
    assert sorted(lines_of(empty)) == sorted(committed())


GUESTS_MAY = """
select guest || ': ' || found.thing from unnest('{anon,authenticated}'::text[]) as guest, lateral (
    select 'schema ' || nspname from pg_namespace
    where nspname = any(%(schemas)s) and has_schema_privilege(guest, oid, 'usage, create')
    union all
    select 'table ' || c.oid::regclass from pg_class c
    where relnamespace::regnamespace::text = any(%(quoted)s) and relkind in ('r', 'p', 'v')
        and (has_table_privilege(guest, c.oid, 'select, insert, update, delete, truncate, references, trigger')
            or has_any_column_privilege(guest, c.oid, 'select, insert, update, references'))
    union all
    select 'sequence ' || c.oid::regclass from pg_class c
    where relnamespace::regnamespace::text = any(%(quoted)s) and relkind = 'S'
        and has_sequence_privilege(guest, c.oid, 'usage, select, update')
    union all
    select 'function ' || f.oid::regprocedure from pg_proc f, aclexplode(proacl) as g
    where pronamespace::regnamespace::text = any(%(quoted)s) and g.grantee = guest::regrole
) as found (thing) order by 1
"""


def test_supabase_guest_roles_have_no_rights_on_our_objects(generous: str) -> None:
    schemas = [schema for several in CONTRACTS.values() for schema in several]
    parameters = {"schemas": schemas, "quoted": [*schemas, '"user"']}
    with psycopg.connect(generous, autocommit=True) as connection:
        for text in compile_migrations(Names(*SUPABASE_ROLES)).values():
            connection.execute(text.encode())
            assert connection.execute(GUESTS_MAY.encode(), parameters).fetchall() == []


def test_several_databases_of_one_server_can_be_migrated_at_once(home: Path) -> None:
    with EmbeddedServer.start(home, settings=FAST_SETTINGS) as server:
        addresses = [create_database(server.dsn(), f"one_of_many_{nth}") for nth in range(6)]
        command = [*PYTHON, "-m", "duly", "migrate", "--json"]
        with ExitStack() as stack:
            migrations = [
                stack.enter_context(Program(command, environment=plain_environment(DATABASE_URL=address)))
                for address in addresses
            ]
            assert {migration.line() for migration in migrations} == {json.dumps({"revisions": newest_revisions()})}


def test_a_failed_migration_changes_nothing(empty: str) -> None:
    migrate(empty, Names())
    migrate(empty, Names(), to="engine@base")
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute("create table ledger.job ()")  # in the way of one of the last tables
    with pytest.raises(Misconfigured, match='nothing was changed: relation "job" already exists, in: create table'):
        migrate(empty, Names())
    with psycopg.connect(empty) as connection:
        assert connection.execute("select to_regclass('duly.orgs')").fetchone() == (None,)
    assert revisions_of(empty) == ()


def test_the_traceback_of_a_failed_migration_is_printed_only_at_debug_level(empty: str, tmp_path: Path) -> None:
    cli = CommandLine(empty, tmp_path)
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute(BROKEN)
    failed = cli.process("migrate")
    line = 'duly: nothing was changed: relation "orgs" already exists, in: create table duly.orgs ('
    assert (failed.returncode, failed.stdout) == (78, "")
    assert failed.stderr.startswith(line)
    assert failed.stderr.count("\n") == 1
    debugged = cli.process("migrate", DULY_LOG_LEVEL="debug")
    assert debugged.returncode == 78
    assert "Traceback" in debugged.stderr
    assert debugged.stderr.splitlines()[-1].startswith(line)


NOTIFIED = """
insert into schedule_ingest.capture_session (id, user_id) values ('00000000-0000-0000-0000-000000000001', 42);
insert into schedule_ingest.schedule_notification
    (notification_id, user_id, schedule_date, source_session_id, status, sent_at, notification_type, message, event_ids)
select 'n' || s.status, 42, '2026-02-10', id, s.status, case s.status when 'sent' then now() end, 'event', 'm', '[]'
from schedule_ingest.capture_session, unnest('{pending,sent,failed}'::text[]) as s (status);
"""
