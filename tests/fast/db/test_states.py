"""`duly migrate` in every state that a database can be in."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from duly.db.fingerprint import fingerprint
from duly.db.migrate import migrate, newest_revisions
from duly.db.migrations import APPLICATIONS, BRANCHES, Names
from duly.db.migrations.objects import GRANTS, list_objects
from duly.errors import Misconfigured
from duly.testing import TestDatabases
from duly.verify.contract import CONTRACTS, compare, installed_contracts
from tests.support.command_line import CommandLine

Admin = psycopg.Connection[Any]

SCHEMAS = tuple(schema for several in CONTRACTS.values() for schema in several)
ENGINE = ("engine_0001",)
REVISIONS = {branch: f"{branch}_0001" for branch in BRANCHES}


@pytest.fixture
def admin(server: str, run_home: Path, worker_id: str) -> Generator[Admin, None, None]:
    """An empty database."""
    databases = TestDatabases(server, f"duly_test_state_{worker_id}", template="template0")
    with databases.clone(worker_id) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def go(admin: Admin, apps: str | None = None, to: str = "head") -> tuple[str, ...]:
    """Migrate this database."""
    return migrate(admin.info.dsn, Names(), to, apps=apps)


def schemas_there(admin: Admin) -> set[str]:
    """The schemas of duly that have tables."""
    rows = admin.execute(
        "select distinct schemaname::text from pg_tables where schemaname = any(%s) "
        "and tablename not in ('alembic_version', 'schema_object')",
        [list(SCHEMAS)],
    )
    return {str(schema) for (schema,) in rows}


def differences(admin: Admin) -> list[str]:
    """What differs from the contracts of what is installed."""
    return [each.line for contract in installed_contracts(admin) for each in compare(admin, contract)]


def test_an_empty_database_gets_the_engine_and_every_application(admin: Admin) -> None:
    assert go(admin) == newest_revisions()
    assert schemas_there(admin) == set(SCHEMAS)
    assert differences(admin) == []


def test_the_engine_alone_has_its_schemas_and_verifies(admin: Admin, tmp_path: Path) -> None:
    assert go(admin, "none") == ENGINE
    assert schemas_there(admin) == {"duly", "ledger"}
    assert (installed_contracts(admin), differences(admin)) == (["duly", "ledger"], [])
    verified = CommandLine(admin.info.dsn, tmp_path).output("verify")
    assert verified.startswith("duly: contracts duly, ledger; ")
    assert verified.endswith("0 differences, 0 violations\n")
    assert go(admin) == ENGINE  # it adds nothing by itself


@pytest.mark.parametrize("name", [each.name for each in APPLICATIONS])
def test_one_application_comes_and_goes_by_name(name: str, admin: Admin, tmp_path: Path) -> None:
    go(admin, "none")
    engine = fingerprint(admin, SCHEMAS)
    assert go(admin, name) == (*ENGINE, REVISIONS[name])
    assert go(admin) == (*ENGINE, REVISIONS[name])
    assert go(admin, "none") == (*ENGINE, REVISIONS[name])  # it takes nothing away
    assert differences(admin) == []
    assert CommandLine(admin.info.dsn, tmp_path).output("verify").endswith("0 differences, 0 violations\n")
    assert go(admin, to=f"{name}@base") == ENGINE
    left = set(fingerprint(admin, SCHEMAS)) - set(engine)
    assert {line for line in left if not line.startswith(("schema ", "grant "))} == set()


def test_an_application_that_does_not_exist_is_refused_by_name(admin: Admin) -> None:
    with pytest.raises(Misconfigured, match="--apps: no application stock; use posts, scheduler, ingest, all or none"):
        go(admin, "posts,stock")
    assert schemas_there(admin) == set()


def test_what_is_ours_is_left_as_it_is(admin: Admin) -> None:
    go(admin)
    written = "select count(*) from pg_proc where xmin::text::bigint > %s"
    (before,) = admin.execute("select txid_current()").fetchone() or (0,)
    assert go(admin) == newest_revisions()
    assert admin.execute(written, [before]).fetchone() == (0,)


def test_a_function_whose_text_changed_is_applied_again_and_no_other(admin: Admin) -> None:
    go(admin)
    admin.execute("create or replace function ledger.wake() returns void language sql return null")
    admin.execute("update duly.schema_object set sha256 = 'older' where object = 'function ledger.wake'")
    (before,) = admin.execute("select txid_current()").fetchone() or (0,)
    go(admin)
    changed = "select proname::text from pg_proc where pronamespace = 'ledger'::regnamespace and prosrc <> ''"
    names = {name for (name,) in admin.execute(f"{changed} and xmin::text::bigint > %s".encode(), [before])}
    assert "wake" in names
    assert differences(admin) == []
    hashes = set(admin.execute("select object, sha256 from duly.schema_object where branch = 'engine'"))
    assert hashes == {(each.name, each.sha256) for each in list_objects("engine", Names())}


def test_a_right_that_is_no_longer_granted_is_taken_back_and_one_of_an_administrator_stays(admin: Admin) -> None:
    go(admin)
    admin.execute("create role state_reader")
    try:
        admin.execute("grant usage on schema ledger to state_reader")
        admin.execute("grant select on ledger.job to state_reader")
        admin.execute("grant execute on function ledger.wake() to state_reader")
        admin.execute("grant execute on function duly.clock() to public")  # as for the worker of a backend
        admin.execute("grant delete on ledger.job to duly_worker")
        admin.execute("grant execute on function ledger.claim to public")
        admin.execute("update duly.schema_object set sha256 = 'older' where object = %s", [GRANTS])
        go(admin)
        kept = (
            "select has_table_privilege('state_reader', 'ledger.job', 'select'), "
            "has_function_privilege('state_reader', 'ledger.wake()', 'execute'), "
            "has_function_privilege('state_reader', 'duly.clock()', 'execute')"
        )
        assert admin.execute(kept.encode()).fetchone() == (True, True, True)
        assert {line for line in differences(admin) if "state_reader" not in line} == set()
    finally:
        admin.execute("drop owned by state_reader")
        admin.execute("drop role state_reader")


def test_data_survives_an_upgrade_and_going_down_and_up_again(admin: Admin) -> None:
    go(admin)
    admin.execute("select ledger.enqueue('00000000-0000-0000-0000-00000000000a', 'work')")
    admin.execute("insert into schedule_ingest.capture_session (user_id) values (42)")
    admin.execute("delete from duly.schema_object")  # as though a release had changed every function
    assert go(admin) == newest_revisions()
    go(admin, to="posts@base")
    assert go(admin, "posts") == newest_revisions()
    assert admin.execute("select count(*) from ledger.job").fetchone() == (1,)
    assert admin.execute("select count(*) from schedule_ingest.capture_session").fetchone() == (1,)
    assert differences(admin) == []


def test_an_application_whose_schema_is_anothers_is_left_out_by_name(admin: Admin) -> None:
    admin.execute("create role state_owner")
    try:
        admin.execute("create schema posts authorization state_owner")
        with pytest.raises(Misconfigured, match=r"posts \(owner state_owner\).*leave an application out.*--apps"):
            go(admin)
        assert schemas_there(admin) == set()
        assert go(admin, "scheduler,ingest") == (*ENGINE, "scheduler_0001", "ingest_0001")
    finally:
        admin.execute("drop owned by state_owner cascade")
        admin.execute("drop role state_owner")


def test_ingest_tables_of_a_backend_are_left_alone_and_asking_for_them_names_the_way_out(admin: Admin) -> None:
    admin.execute("create schema schedule_ingest")
    admin.execute("create table schedule_ingest.capture_session (id uuid primary key)")
    before = fingerprint(admin, ("schedule_ingest",))
    assert go(admin) == (*ENGINE, "posts_0001", "scheduler_0001")
    with pytest.raises(Misconfigured, match=r"a backend owns it; leave ingest out, and run database/migrations/"):
        go(admin, "ingest")
    assert go(admin) == (*ENGINE, "posts_0001", "scheduler_0001")
    assert fingerprint(admin, ("schedule_ingest",)) == before


@pytest.mark.parametrize("name", ["posts", "ledger"])
def test_a_table_of_the_same_name_in_a_schema_of_ours_stops_it_whole(name: str, admin: Admin) -> None:
    go(admin, "none")
    go(admin, to="engine@base")
    table = {"posts": "posts.posts", "ledger": "ledger.job"}[name]
    admin.execute(sql.SQL("create schema if not exists {} authorization duly_owner").format(sql.Identifier(name)))
    admin.execute(f"create table {table} (id text)".encode())
    with pytest.raises(Misconfigured, match=rf'" already exists, in: create table {table} \(; .* rename it'):
        go(admin)
    assert admin.execute("select to_regclass('duly.orgs')").fetchone() == (None,)
