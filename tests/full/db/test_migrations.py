"""Migrations up and down, compiled and applied for real, on every PostgreSQL there is."""

import shutil
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic import command

from duly.db.admin import create_database
from duly.db.embedded import EmbeddedServer
from duly.db.migrate import build_config, migrate, migration_transaction, newest_revision
from duly.db.migrations import Names
from duly.errors import Misconfigured
from duly.launcher import ROOT
from duly.testing import FAST_SETTINGS
from duly.verify import check
from duly.verify.contract import CONTRACTS
from duly.verify.invariants import INVARIANTS
from tests.fast.db.test_migrations import (
    BROKEN,
    SUPABASE_ROLES,
    committed,
    empty,
    generous,
    lines_of,
    revision_of,
    supabase,
)
from tests.support.backends import OWNERS, PLAIN, Backend
from tests.support.command_line import CommandLine
from tests.support.processes import PYTHON, Program, plain_environment
from tools.supabase import compile_migrations

__all__ = ["empty", "generous", "supabase"]


@pytest.mark.parametrize("ingest", ["schedule_ingest", "ingest2"])
def test_the_tables_alembic_sees_are_the_ones_we_declared(ingest: str, empty: str) -> None:
    names = Names(ingest=ingest)
    migrate(empty, names)
    with migration_transaction(empty) as connection:
        command.check(build_config(names, connection))


@pytest.mark.parametrize("backend", [PLAIN, OWNERS], ids=str)
def test_alembic_never_proposes_to_change_what_a_backend_owns(backend: Backend, empty: str) -> None:
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute(backend.schema_sql("schedule_ingest").encode())
        connection.execute("create table public.orders (id bigint primary key)")
    migrate(empty, Names())
    with migration_transaction(empty) as connection:
        command.check(build_config(Names(), connection))


def alembic(*arguments: str, root: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Alembic's own command from the root of a checkout."""
    program = Path(sys.executable).with_name("alembic")
    given = plain_environment(PYTHONPATH=str(root / "src"), **environment)
    return subprocess.run([program, *arguments], cwd=root, env=given, capture_output=True, text=True)


def test_alembic_check_and_current_know_the_schema_of_the_settings(empty: str) -> None:
    environment: dict[str, Any] = {"DATABASE_URL": empty, "DB_SCHEMA": "ingest2"}
    assert alembic("upgrade", "head", **environment).returncode == 0
    checked = alembic("check", **environment)
    assert (checked.returncode, "No new upgrade operations detected" in checked.stdout) == (0, True), checked
    assert newest_revision() in alembic("current", **environment).stdout


def test_alembic_current_on_an_empty_database_changes_nothing_and_has_no_traceback(empty: str) -> None:
    current = alembic("current", DATABASE_URL=empty)
    assert (current.returncode, current.stdout, "Traceback" in current.stderr) == (0, "", False), current.stderr
    assert lines_of(empty) == []


def test_alembic_writes_what_it_found_as_sql_that_leads_up_and_down(empty: str, tmp_path: Path) -> None:
    for part in ("src", "alembic.ini"):
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, tmp_path / part)
    declared = tmp_path / "src" / "duly" / "jobs" / "tables.py"
    known = '    Column("revision", '
    assert declared.read_text().count(known) == 1
    declared.write_text(declared.read_text().replace(known, f'    Column("note", Text, server_default="-"),\n{known}'))
    where: dict[str, Any] = {"root": tmp_path, "DATABASE_URL": empty}
    assert alembic("upgrade", "head", **where).returncode == 0
    wanting = alembic("check", **where)
    assert (wanting.returncode, "note" in wanting.stdout + wanting.stderr) == (255, True), wanting
    assert alembic("revision", "--autogenerate", "-m", "A note", "--rev-id", "0010_note", **where).returncode == 0
    migrations = tmp_path / "src" / "duly" / "db" / "migrations"
    assert "ALTER TABLE ledger.job ADD COLUMN note" in (migrations / "sql" / "0010_note.up.sql").read_text()
    assert "ALTER TABLE ledger.job DROP COLUMN note" in (migrations / "sql" / "0010_note.down.sql").read_text()
    assert (migrations / "versions" / "0010_note.py").exists()
    for step, there in (("head", True), ("-1", False), ("head", True)):
        moved = alembic("downgrade" if step == "-1" else "upgrade", step, **where)
        assert moved.returncode == 0, moved.stderr
        assert any(line.startswith("column ledger.job.note ") for line in lines_of(empty)) is there
    assert alembic("check", **where).returncode == 0


def test_a_table_in_use_is_waited_for_without_standing_in_the_way(empty: str) -> None:
    migrate(empty, Names())
    told: list[str] = []
    waited = threading.Event()

    def report(message: str) -> None:
        told.append(message)
        waited.set()

    with psycopg.connect(empty) as user:
        user.execute("select * from duly.orgs")
        migration = threading.Thread(target=lambda: migrate(empty, Names(), to="base", report=report))
        migration.start()
        assert waited.wait(60)
        user.execute("select * from duly.orgs")  # it stepped back: we are not behind it in the queue
    migration.join(60)
    assert "a table is locked" in told[0]
    assert revision_of(empty) is None


def test_alembic_itself_works_from_the_root(empty: str) -> None:
    environment = plain_environment(DATABASE_URL=empty)
    alembic = Path(sys.executable).with_name("alembic")
    subprocess.run([alembic, "upgrade", "head"], cwd=ROOT, env=environment, check=True, capture_output=True)
    assert revision_of(empty) == newest_revision()
    subprocess.run([alembic, "downgrade", "base"], cwd=ROOT, env=environment, check=True, capture_output=True)
    assert revision_of(empty) is None


def test_the_printed_sql_leads_to_the_same_database(empty: str) -> None:
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


def test_guests_of_supabase_may_do_nothing_with_what_we_make(generous: str) -> None:
    schemas = [schema for several in CONTRACTS.values() for schema in several]
    asked = {"schemas": schemas, "quoted": [*schemas, '"user"']}
    with psycopg.connect(generous, autocommit=True) as connection:
        for text in compile_migrations(Names(*SUPABASE_ROLES)).values():
            connection.execute(text.encode())
            assert connection.execute(GUESTS_MAY.encode(), asked).fetchall() == []


def test_many_databases_of_one_server_can_be_migrated_at_once(home: Path) -> None:
    with EmbeddedServer.start(home, settings=FAST_SETTINGS) as server:
        addresses = [create_database(server.dsn(), f"one_of_many_{nth}") for nth in range(6)]
        command = [*PYTHON, "-m", "duly", "migrate", "--json"]
        with ExitStack() as stack:
            migrations = [
                stack.enter_context(Program(command, environment=plain_environment(DATABASE_URL=address)))
                for address in addresses
            ]
            assert {migration.line() for migration in migrations} == {f'{{"revision": "{newest_revision()}"}}'}


def test_a_failed_migration_leaves_nothing(empty: str) -> None:
    migrate(empty, Names())
    migrate(empty, Names(), to="base")
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute('create table "user".users ()')  # in the way of the third table
    with pytest.raises(Misconfigured, match='nothing was changed: relation "users" already exists, in: create table'):
        migrate(empty, Names())
    with psycopg.connect(empty) as connection:
        assert connection.execute("select to_regclass('duly.orgs')").fetchone() == (None,)
    assert revision_of(empty) is None


def test_the_traceback_of_a_failed_migration_is_written_at_the_debug_level_alone(empty: str, tmp_path: Path) -> None:
    cli = CommandLine(empty, tmp_path)
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute(BROKEN)
    failed = cli.process("migrate")
    line = 'duly: nothing was changed: function "clock" already exists with same argument types, in: create function'
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


def test_notifications_that_were_there_before_their_sender_are_taken_over(empty: str) -> None:
    migrate(empty, Names(), to="0006_scheduler")
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute(NOTIFIED)
    migrate(empty, Names())
    with psycopg.connect(empty, autocommit=True) as connection:
        found = connection.execute(
            "select status, delivery from schedule_ingest.schedule_notification order by 1"
        ).fetchall()
        assert found == [("failed", "failed"), ("pending", "pending"), ("sent", "sent")]
        laws = [each for each in INVARIANTS if each.name == "notifications_match_their_delivery"]
        assert check(connection, ["duly", "schedule_ingest"], laws) == []
    migrate(empty, Names(), to="0006_scheduler")
    migrate(empty, Names())
