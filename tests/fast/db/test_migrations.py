"""Migrations up and down, compiled and applied for real, on every PostgreSQL there is."""

import re
import subprocess
import sys
from collections.abc import Generator
from itertools import product
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from duly.configuration.engine import parse_address
from duly.db.fingerprint import fingerprint
from duly.db.migrate import current_revisions, migrate, migration_transaction, newest_revisions
from duly.db.migrations import Names, split_statements
from duly.errors import Misconfigured
from duly.launcher import ROOT
from duly.testing import TestDatabases
from duly.verify.contract import CONTRACTS, FILES, compare
from tests.support.command_line import CommandLine
from tests.support.golden import check_golden
from tests.support.locks import supabase_turn
from tools.supabase import compile_migrations

SCHEMAS = tuple(schema for several in CONTRACTS.values() for schema in several)
SUPABASE_ROLES = ("supabase_owner", "supabase_worker", "supabase_api", "supabase_readonly")
SUPABASE = ROOT / "supabase" / "migrations"


@pytest.fixture
def empty(server: str, run_home: Path, worker_id: str) -> Generator[str, None, None]:
    """The address of an empty database on each major version."""
    databases = TestDatabases(server, f"duly_test_empty_{worker_id}", template="template0")
    with databases.clone(worker_id) as dsn:
        yield dsn


def revisions_of(dsn: str) -> tuple[str, ...]:
    with migration_transaction(dsn) as connection:
        return current_revisions(connection)


def lines_of(dsn: str, schemas: tuple[str, ...] = SCHEMAS) -> list[str]:
    with psycopg.connect(dsn) as connection:
        return fingerprint(connection, schemas)


def make_roles(dsn: str) -> None:
    """Our roles, which a server has once something was migrated there; of the rest nothing stays."""
    migrate(dsn, Names(), apps="none")
    migrate(dsn, Names(), to="engine@base")
    with psycopg.connect(dsn, autocommit=True) as connection:
        for schema in SCHEMAS:
            connection.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(schema)))


def committed() -> list[str]:
    """The lines of every contract."""
    files = FILES.values()
    return [line for file in files for line in file.read_text().splitlines()]


def test_upgrade_downgrade_upgrade_restores_the_same_schema(empty: str) -> None:
    assert migrate(empty, Names()) == newest_revisions()
    first = lines_of(empty)
    assert migrate(empty, Names(), to="engine@base") == ()
    assert not [line for line in lines_of(empty) if not line.startswith(("schema ", "grant "))]
    assert migrate(empty, Names()) == newest_revisions()
    assert lines_of(empty) == first


def test_taking_ingest_down_leaves_the_log_and_it_comes_back_empty(empty: str) -> None:
    migrate(empty, Names())
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute("insert into schedule_ingest.capture_session (user_id) values (42)")
    assert "ingest_0001" not in migrate(empty, Names(), to="ingest@base")
    assert migrate(empty, Names(), apps="ingest") == newest_revisions()
    with psycopg.connect(empty) as connection:
        counts = connection.execute(
            "select (select count(*) from schedule_ingest.capture_session), (select count(*) from duly.transition)"
        )
        assert counts.fetchone() == (0, 1)


def test_migrate_is_idempotent(empty: str) -> None:
    migrate(empty, Names())
    before = lines_of(empty)
    assert migrate(empty, Names()) == newest_revisions()
    assert lines_of(empty) == before


@pytest.mark.golden
@pytest.mark.parametrize("contract", CONTRACTS)
def test_catalogue_matches_the_golden_file(contract: str, empty: str) -> None:
    migrate(empty, Names())
    check_golden(FILES[contract], "\n".join(lines_of(empty, CONTRACTS[contract])) + "\n")


def test_migration_uses_the_configured_role_names(empty: str, worker_id: str) -> None:
    roles = Names(*(f"other_{name}_{worker_id}" for name in ("owner", "worker", "api", "readonly")))
    try:
        migrate(empty, roles)
        assert any(f"to {roles.api}" in line for line in lines_of(empty))
    finally:
        with psycopg.connect(empty, autocommit=True) as connection:
            for role in (roles.owner, roles.worker, roles.api, roles.readonly):
                connection.execute(sql.SQL("drop owned by {} cascade").format(sql.Identifier(role)))
                connection.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))


@pytest.fixture
def unprivileged_dsn(empty: str, worker_id: str) -> Generator[str, None, None]:
    """The address of the empty database for a login that is no superuser and may not make roles."""
    name = sql.Identifier(f"stranger_{worker_id}")
    with psycopg.connect(empty, autocommit=True) as admin:
        admin.execute(sql.SQL("create role {} login").format(name))
        admin.execute(sql.SQL("grant create on database {} to {}").format(sql.Identifier(admin.info.dbname), name))
        yield make_conninfo(empty, user=f"stranger_{worker_id}")
        admin.execute(sql.SQL("drop owned by {} cascade").format(name))
        admin.execute(sql.SQL("drop role {}").format(name))


def test_migration_that_cannot_create_a_role_changes_nothing_and_says_why(
    unprivileged_dsn: str, empty: str, worker_id: str
) -> None:
    roles = Names(owner=f"missing_{worker_id}")
    with pytest.raises(Misconfigured) as refusal:
        migrate(unprivileged_dsn, roles)
    for expected_text in (
        f"missing_{worker_id}",
        "may not create it",
        "create role",
        "DULY_OWNER_ROLE",
        "nothing was changed",
    ):
        assert expected_text in str(refusal.value)
    assert [line for line in lines_of(empty) if line.startswith("schema duly")] == []


@pytest.mark.parametrize("schema", ["posts", "scheduler", "expense", "user", "ledger", "duly", "schedule_ingest"])
def test_migration_refuses_a_schema_of_another_owner_and_names_the_fix(
    schema: str, unprivileged_dsn: str, empty: str, worker_id: str
) -> None:
    owner = f"stranger_{worker_id}"
    with psycopg.connect(unprivileged_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create schema {}").format(sql.Identifier(schema)))
    before = lines_of(empty)
    with pytest.raises(Misconfigured) as refusal:
        migrate(empty, Names())
    quoted = '"user"' if schema == "user" else schema
    for expected_text in (
        f'nothing was changed: duly needs schemas that exist and do not belong to "duly_owner": {quoted}',
        f"{quoted} (owner {owner})",
        "use another database for duly",
        f"alter schema {quoted} rename to another_name",
        f"alter schema {quoted} owner to duly_owner",
    ):
        assert expected_text in str(refusal.value)
    assert ("DB_SCHEMA" in str(refusal.value)) == (schema == "schedule_ingest")
    assert "\n" not in str(refusal.value)
    assert (revisions_of(empty), lines_of(empty)) == ((), before)


def test_all_foreign_schemas_are_listed_at_once_and_transferred_ones_used(unprivileged_dsn: str, empty: str) -> None:
    make_roles(empty)
    with psycopg.connect(unprivileged_dsn, autocommit=True) as connection:
        connection.execute("create schema posts; create schema expense")
    with pytest.raises(Misconfigured, match=r"expense \(owner \w+\), posts \(owner \w+\)"):
        migrate(empty, Names())
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute("alter schema posts owner to duly_owner; alter schema expense owner to duly_owner")
    assert migrate(empty, Names()) == newest_revisions()


@pytest.mark.parametrize("rights", ["", "usage on schema duly", "usage on schema duly, select on duly.alembic_version"])
def test_downgrade_without_permission_is_refused_in_one_line(
    rights: str, unprivileged_dsn: str, empty: str, tmp_path: Path, worker_id: str
) -> None:
    migrate(empty, Names())
    with psycopg.connect(empty, autocommit=True) as connection:
        for right in rights.split(", ") if rights else ():
            connection.execute(f"grant {right} to stranger_{worker_id}".encode())
    error = CommandLine(unprivileged_dsn, tmp_path).error("migrate", "--to", "engine@base")
    assert isinstance(error, Misconfigured)
    assert str(error).startswith("nothing was changed: permission denied ")
    assert "\n" not in str(error)
    assert revisions_of(empty) == newest_revisions()


WAY_OUT = (
    "; duly migrate did not create it: rename it, or use another database for duly; where the files of "
    "supabase/migrations created it, apply those instead"
)
BROKEN = """
create schema duly authorization duly_owner;
create table duly.orgs ();
alter table duly.orgs owner to duly_owner;
"""


def test_other_migration_error_is_one_line_with_the_failing_statement(empty: str, tmp_path: Path) -> None:
    cli = CommandLine(empty, tmp_path)
    make_roles(empty)
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute(BROKEN)
    before = lines_of(empty)
    error = cli.error("migrate")
    assert isinstance(error, Misconfigured)
    assert str(error) == 'nothing was changed: relation "orgs" already exists, in: create table duly.orgs (' + WAY_OUT
    assert (revisions_of(empty), lines_of(empty)) == ((), before)


def test_script_is_split_into_its_statements() -> None:
    parts = [
        "-- one; two\nselect 'a;b', \"c;d\"",
        "do $x$ begin perform 1; end $x$",
        "create function f() returns int\n    begin atomic select 1; end",
        "select $$;$$ /* ; */",
    ]
    assert list(split_statements(";\n".join(parts) + ";\n-- the end\n")) == parts


def test_unknown_revision_is_refused_and_named(empty: str) -> None:
    with pytest.raises(Misconfigured, match=r"--to 9999: no such revision; use head, engine_0001, .*, posts@base"):
        migrate(empty, Names(), to="9999")
    with pytest.raises(Misconfigured, match=r"--to base: name the branch, .*; engine@base removes everything"):
        migrate(empty, Names(), to="base")


@pytest.mark.parametrize("to", ["head", "engine@base", "posts_0001"])
def test_migration_refuses_a_database_of_a_newer_duly(to: str, empty: str) -> None:
    migrate(empty, Names())
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute(
            "update duly.alembic_version set version_num = '9999_future' where version_num = 'posts_0001'"
        )
    before = lines_of(empty)
    with pytest.raises(Misconfigured, match=r"9999_future, which this version of duly does not know.*update duly"):
        migrate(empty, Names(), to=to)
    assert lines_of(empty) == before


@pytest.mark.golden
@pytest.mark.parametrize("file", sorted(compile_migrations()))
def test_compiled_migrations_match_the_committed_files(file: str) -> None:
    check_golden(SUPABASE / file, compile_migrations()[file])


def test_every_committed_compiled_file_is_still_generated() -> None:
    assert sorted(path.name for path in SUPABASE.glob("*.sql")) == sorted(compile_migrations())


def test_compiled_migrations_pass_the_sql_linter() -> None:
    squawk = Path(sys.executable).with_name("squawk")
    checked = subprocess.run([squawk, *sorted(SUPABASE.glob("*.sql"))], cwd=ROOT, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


GUESTS = ("anon", "authenticated", "service_role")
# What Supabase's own start-up scripts do (github.com/supabase/postgres, migrations/db): the web roles and {admin}, who
# is called postgres there, may use schema auth and may not hand that on; default privileges are those of schema public.
AS_SUPABASE = """
create role supabase_auth_admin noinherit;
create role {admin} login createdb createrole replication bypassrls;
alter database {database} owner to {admin};
create role anon;
create role authenticated;
create role service_role bypassrls;
grant anon, authenticated, service_role to {admin} with admin option;
grant usage on schema public to {admin}, anon, authenticated, service_role;
alter default privileges for role {admin} in schema public grant all on tables to anon, authenticated, service_role;
alter default privileges for role {admin} in schema public grant all on functions to anon, authenticated, service_role;
alter default privileges for role {admin} in schema public grant all on sequences to anon, authenticated, service_role;
create schema auth authorization supabase_auth_admin;
create function auth.jwt() returns jsonb language sql stable return coalesce(
    nullif(current_setting('request.jwt.claim', true), ''), nullif(current_setting('request.jwt.claims', true), '')
)::jsonb;
alter function auth.jwt() owner to supabase_auth_admin;
grant usage on schema auth to anon, authenticated, service_role;
grant all on schema auth to {admin};
grant all on function auth.jwt() to {admin};
"""


@pytest.fixture
def supabase(empty: str, server: str, worker_id: str) -> Generator[str, None, None]:
    """A database as Supabase gives it: its administrator is no superuser, and none of our roles is there."""
    name = f"supabase_{worker_id}"
    with supabase_turn(server), psycopg.connect(empty, autocommit=True) as admin:
        names = {"admin": sql.Identifier(name), "database": sql.Identifier(admin.info.dbname)}
        admin.execute(sql.SQL(AS_SUPABASE).format(**names))
        yield make_conninfo(empty, user=name)
        admin.execute(sql.SQL("alter database {} owner to postgres").format(names["database"]))
        for role in (*GUESTS, *SUPABASE_ROLES, "supabase_auth_admin", name):
            if admin.execute("select 1 from pg_roles where rolname = %s", [role]).fetchone():
                admin.execute(sql.SQL("drop owned by {} cascade").format(sql.Identifier(role)))
                admin.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))


@pytest.fixture
def generous(supabase: str, empty: str) -> str:
    """The same, where besides whatever we make is open to the web roles by default."""
    owner = sql.Identifier(SUPABASE_ROLES[0])
    with psycopg.connect(empty, autocommit=True) as admin:
        admin.execute(sql.SQL("create role {} nologin noinherit").format(owner))
        name = sql.Identifier(parse_address(supabase)["user"])
        admin.execute(sql.SQL("grant {} to {} with admin option").format(owner, name))
        for maker, kind in product((owner, name), ("tables", "sequences", "functions", "schemas")):
            grant = sql.SQL("alter default privileges for role {} grant all on {} to anon, authenticated")
            admin.execute(grant.format(maker, sql.SQL(kind)))
    return supabase


def test_compiled_migrations_apply_to_supabase_without_a_superuser(supabase: str) -> None:
    roles = Names(*SUPABASE_ROLES)  # ours exist on this server already and belong to other tests
    with psycopg.connect(supabase, autocommit=True) as connection:
        for text in compile_migrations(roles).values():
            connection.execute(text.encode())
        lines = [line.replace("supabase_", "duly_") for line in fingerprint(connection, SCHEMAS)]
    guests = [line for line in lines if line.endswith((" anon", " authenticated"))]
    assert guests == []
    tables = [line for line in lines if line.startswith(("table", "column", "constraint", "trigger", "function"))]
    assert sorted(tables) == sorted(
        line for line in committed() if line.startswith(("table", "column", "constraint", "trigger", "function"))
    )


def apply(method: str, dsn: str, roles: Names) -> None:
    """Make everything, by the compiled files or by `duly migrate`."""
    if method == "migrate":
        migrate(dsn, roles)
        return
    with psycopg.connect(dsn, autocommit=True) as connection:
        for text in compile_migrations(roles).values():
            connection.execute(text.encode())


def block(kind: str, page: str) -> str:
    """Return the only code block of this language in the section about signed-in users."""
    section = page.partition("## Jobs for signed-in users")[2].partition("\n## ")[0]
    (found,) = re.findall(rf"^```{kind}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return found


@pytest.mark.parametrize("method", ["files", "migrate"])
def test_verify_on_supabase_lists_exactly_the_documented_differences(
    method: str, supabase: str, tmp_path: Path
) -> None:
    roles = Names(*SUPABASE_ROLES)
    apply(method, supabase, roles)
    cli = CommandLine(supabase, tmp_path)
    variables = ("DULY_OWNER_ROLE", "DULY_WORKER_ROLE", "DULY_API_ROLE", "DULY_READONLY_ROLE")
    cli.environment |= dict(zip(variables, SUPABASE_ROLES, strict=True))
    page = (ROOT / "docs" / "supabase.md").read_text()
    assert "`duly verify` finds no difference" in page
    assert "0 differences, 0 violations" in cli.output("verify")
    with psycopg.connect(supabase, autocommit=True) as connection:
        connection.execute(block("sql", page).encode())  # by the administrator, who is no superuser
    listed = cli.run("verify")
    assert listed.exit_code == 1
    assert [" ".join(line.split()) for line in listed.stdout.splitlines()[:-1]] == block("text", page).splitlines()


@pytest.mark.parametrize("claim", ['{{"app_metadata": {{"org_id": "{org}"}}}}', '{{"org_id": "{org}"}}'])
def test_supabase_token_reads_only_the_jobs_of_its_org_after_the_grant(claim: str, supabase: str, empty: str) -> None:
    own_org, other = (f"00000000-0000-0000-0000-00000000000{digit}" for digit in "ab")
    with psycopg.connect(empty, autocommit=True) as admin:
        with psycopg.connect(supabase, autocommit=True) as connection:
            for text in compile_migrations(Names(*SUPABASE_ROLES)).values():
                connection.execute(text.encode())
            assert compare(connection, "ledger", Names(*SUPABASE_ROLES)) == []
        for org in (own_org, other):
            admin.execute("select ledger.enqueue(%s, 'work')", [org])
        admin.execute("grant usage on schema ledger to authenticated")
        admin.execute("grant select on ledger.job, ledger.job_event to authenticated")
        for given, seen in ((claim.format(org=own_org), [(own_org,)]), ("{}", []), ("", [])):
            with admin.transaction():
                admin.execute("select set_config('request.jwt.claims', %s, true)", [given])
                admin.execute("set local role authenticated")
                assert admin.execute("select org_id::text from ledger.job").fetchall() == seen
                assert admin.execute("select org_id::text from ledger.job_event").fetchall() == seen
        for table in ("job", "job_event"):  # guards that are there on Supabase alone, each removed in turn
            policy = f"policy {table}_of_jwt on ledger.{table}"
            for removal, seen in ((f"drop {policy}", set[str]()), (f"alter {policy} using (true)", {own_org, other})):
                with admin.transaction(force_rollback=True):
                    admin.execute(removal.encode())
                    admin.execute("select set_config('request.jwt.claims', %s, true)", [claim.format(org=own_org)])
                    admin.execute("set local role authenticated")
                    assert {
                        org for (org,) in admin.execute(f"select org_id::text from ledger.{table}".encode())
                    } == seen


SCHEDULED = """
insert into duly.person (uid) values ('anna') on conflict do nothing;
insert into scheduler.jobs (user_id, name, rule, first_run_at)
select user_id, 'Rent', 'cron: 0 10 1 * *', duly.now() from duly.person;
insert into scheduler.expense_templates (job_id, amount, currency) select id, 5, 'EUR' from scheduler.jobs;
insert into scheduler.job_runs (job_id, period_key, scheduled_at) select id, 'p', duly.now() from scheduler.jobs;
insert into scheduler.reminders (job_run_id, sent_at) select id, duly.now() from scheduler.job_runs;
select scheduler.answer(null, id, 'complete', 'k', null) from scheduler.job_runs;
insert into duly.outbox (channel, recipient, kind, payload) values ('console', 'anna', 'x', '{}');
"""


def test_scheduler_downgrade_and_upgrade_work_with_existing_data(empty: str) -> None:
    migrate(empty, Names())
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute(SCHEDULED)
    before = lines_of(empty, ("duly", "user", "scheduler", "expense"))
    migrate(empty, Names(), to="scheduler@base")
    with psycopg.connect(empty, autocommit=True) as connection:
        assert connection.execute("select to_regclass('scheduler.jobs')").fetchone() == (None,)
        assert connection.execute("select count(*) from duly.outbox").fetchone() == (1,)
    migrate(empty, Names(), apps="scheduler")
    assert lines_of(empty, ("duly", "user", "scheduler", "expense")) == before
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute(SCHEDULED)  # the old log is still there, and its numbers are not used again
        assert connection.execute(
            "select id from scheduler.jobs union select id from scheduler.job_runs"
        ).fetchall() == [(2,)]
