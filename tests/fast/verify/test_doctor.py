"""`duly doctor`: every check is well once and ill once, by a real cause, and what it tells to do mends it."""

import re
import uuid
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from duly import doctor
from duly.db.admin import create_database, drop_database
from duly.db.embedded import EmbeddedServer
from duly.db.migrate import migrate, newest_revisions
from duly.db.migrations import Names
from duly.db.queries import parse_queries
from duly.doctor import CheckContext, Finding, Limits, Verdict, load_checks, open_connection, run_checks
from duly.doctor.formatting import summarize_query
from duly.doctor.server import get_jit, note_jit
from duly.errors import Unavailable
from duly.launcher import ROOT
from duly.settings import Settings
from duly.testing import FAST_SETTINGS, install_test_clock, move_clock
from tests.support.bot_api import TOKEN
from tests.support.locks import supabase_turn, wait_until_blocked
from tests.support.pooler import needs_pgbouncer, pooler
from tools.supabase import compile_migrations

Admin = psycopg.Connection[Any]
MakeRole = Callable[[str], str]
OK, WARN, BAD = Verdict.OK, Verdict.WARN, Verdict.BAD
AT_ONCE = Limits(lock_warn_seconds=0)


@pytest.fixture
def admin(database: str) -> Generator[Admin, None, None]:
    """The test's own hand in its database."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="session")
def fast_server(run_home: Path) -> Generator[str, None, None]:
    """A server with durability off."""
    with EmbeddedServer.start(run_home / "main", settings=FAST_SETTINGS) as server:
        yield server.dsn()


@pytest.fixture(scope="session")
def durable_server(run_home: Path) -> Generator[str, None, None]:
    """A server as people run it, which also knows prepared transactions and logical slots."""
    settings = {"max_prepared_transactions": "4", "wal_level": "logical"}
    with EmbeddedServer.start(run_home / "durable", settings=settings) as server:
        yield server.dsn()


@pytest.fixture
def plain_database(durable_server: str) -> Generator[str, None, None]:
    """A database on the durable server, with nothing in it."""
    name = f"plain_{uuid.uuid4().hex}"
    yield create_database(durable_server, name)
    with psycopg.connect(durable_server, autocommit=True) as connection:
        drop_database(connection, name)


@pytest.fixture
def make_role(admin: Admin) -> Generator[MakeRole, None, None]:
    """Names of this test's own: given what stands after `create role`, the name."""
    made: list[str] = []

    def make(attributes: str) -> str:
        name = f"duly_test_{uuid.uuid4().hex}"
        admin.execute(f"create role {name} {attributes}".encode())
        made.append(name)
        return name

    yield make
    for name in made:
        admin.execute(f"drop owned by {name}".encode())
        admin.execute(f"drop role {name}".encode())


def settings_for(dsn: str | None, **variables: object) -> Settings:
    given: dict[str, Any] = {"DATABASE_URL": dsn or "host=unused", **variables}
    settings = Settings(**given)
    return settings if dsn else settings.model_copy(update={"database_url": None})


def run_check(
    check: str, dsn: str, limits: Limits | None = None, *, embedded: bool = False, **variables: object
) -> Finding:
    """One check on one database, with these settings; every verdict but ok comes with a fix."""
    with open_connection(dsn) as connection:
        finding = load_checks()[check](
            CheckContext(connection, settings_for(None if embedded else dsn, **variables), limits or Limits())
        )
    assert finding.check == check
    assert (finding.fix is None) == (finding.verdict is OK), finding
    assert "\n" not in f"{finding.found}{finding.fix}"
    return finding


def apply_fix(admin: Admin, finding: Finding) -> None:
    """Do what the finding says."""
    assert finding.fix
    admin.execute(finding.fix.encode())


@contextmanager
def open_transaction(dsn: str, statement: str = "select 1") -> Generator[Admin, None, None]:
    """A session that began a transaction and did not end it."""
    with psycopg.connect(make_conninfo(dsn, application_name="forgetful")) as connection:
        connection.execute(statement.encode())
        yield connection


# The server -----------------------------------------------------------------------------------------------------------


def test_tested_server_version_is_ok(database: str) -> None:
    finding = run_check("server", database)
    assert finding.verdict is OK
    assert re.search(r"PostgreSQL 1[5-8]\.\d+ at ", finding.found)


def test_older_server_is_bad_and_newer_server_is_a_warning(database: str) -> None:
    assert run_check("server", database, Limits(oldest_major=90, newest_major=99)).verdict is BAD
    newer = run_check("server", database, Limits(oldest_major=1, newest_major=9))
    assert newer.verdict is WARN
    assert "newer than 9" in newer.found


def test_durability_is_ok_with_the_default_server_settings(plain_database: str) -> None:
    finding = run_check("durability", plain_database)
    assert (finding.verdict, finding.found) == (OK, "fsync on, full_page_writes on, synchronous_commit on")


def test_fsync_off_is_bad_unless_the_database_is_marked_as_a_test_database(fast_server: str) -> None:
    bad = run_check("durability", fast_server)
    assert bad.verdict is BAD
    assert {"fsync is off", "full_page_writes is off", "synchronous_commit is off"} <= set(
        re.findall(r"\w+ is off", bad.found)
    )
    assert "alter system set fsync = on" in str(bad.fix)
    name = f"doctor_test_{uuid.uuid4().hex}"
    for_tests = create_database(fast_server, name)
    assert run_check("durability", for_tests).verdict is WARN
    with psycopg.connect(fast_server, autocommit=True) as connection:
        drop_database(connection, name)


@pytest.mark.parametrize("mode", ["off", "local"])
def test_weak_synchronous_commit_is_a_warning(mode: str, plain_database: str) -> None:
    finding = run_check("durability", make_conninfo(plain_database, options=f"-c synchronous_commit={mode}"))
    assert finding.verdict is WARN
    assert finding.found.startswith(f"synchronous_commit is {mode}")


def test_connections_are_compared_with_max_connections(plain_database: str) -> None:
    fine = run_check("connections", plain_database)
    assert fine.verdict is OK
    assert re.match(r"\d+ of 97 connections in use \(\d+%\), DULY_POOL_SIZE=10", fine.found)
    full = run_check("connections", plain_database, Limits(connections_share=0))
    assert (full.verdict, "max_connections" in str(full.fix)) == (WARN, True)


def test_pool_size_over_max_connections_is_a_warning(plain_database: str) -> None:
    finding = run_check("connections", plain_database, DULY_POOL_SIZE=200)
    assert finding.verdict is WARN
    assert re.match(r"set DULY_POOL_SIZE=\d\d,", str(finding.fix))


@needs_pgbouncer
def test_pool_size_is_not_checked_behind_a_pooler(plain_database: str, home: Path) -> None:
    with pooler(plain_database, home) as pooled:
        assert run_check("connections", pooled, DULY_POOL_SIZE=200).verdict is OK


def test_a_login_without_a_limit_on_idle_transactions_is_a_warning(admin: Admin, make_role: MakeRole) -> None:
    login = make_role("login")
    dsn = make_conninfo(admin.info.dsn, user=login)
    finding = run_check("timeouts", dsn)
    assert finding.verdict is WARN
    apply_fix(admin, finding)
    assert run_check("timeouts", dsn).found == f"{login} is ended after 1min idle in a transaction"


def test_embedded_server_is_checked_for_the_timeouts_of_its_component_roles(admin: Admin, make_role: MakeRole) -> None:
    worker, api = make_role("login"), make_role("login")
    names: dict[str, Any] = {"DULY_WORKER_ROLE": worker, "DULY_API_ROLE": api}
    dsn, here = admin.info.dsn, sql.Identifier(admin.info.dbname)
    assert run_check("timeouts", dsn, embedded=True, **names).verdict is WARN
    admin.execute(f"alter role {worker} set idle_in_transaction_session_timeout = '90s'".encode())
    half = run_check("timeouts", dsn, embedded=True, **names)
    assert (half.verdict, worker in half.found, api in half.found) == (WARN, False, True)
    admin.execute(sql.SQL("alter database {} set idle_in_transaction_session_timeout = '5min'").format(here))
    assert run_check("timeouts", dsn, embedded=True, **names).verdict is OK
    admin.execute(f"alter role {worker} set idle_in_transaction_session_timeout = '0ms'".encode())
    assert run_check("timeouts", dsn, embedded=True, **names).verdict is WARN
    absent: dict[str, Any] = {"DULY_WORKER_ROLE": "duly_test_nobody", "DULY_API_ROLE": "duly_test_nobody_either"}
    assert run_check("timeouts", dsn, embedded=True, **absent).fix == "duly migrate"


def test_jit_is_ok_where_dulys_functions_disable_it(admin: Admin) -> None:
    assert run_check("jit", admin.info.dsn).verdict is OK
    found: dict[str, Any] = {"is_on": True, "above_cost": 100_000.0, "compiled": []}
    (note,) = note_jit(found, "app", 100_000)
    assert (note.verdict, note.found) == (OK, "jit is on; functions of duly disable it for themselves")


def test_function_without_jit_off_and_a_low_jit_threshold_get_a_fix(admin: Admin) -> None:
    admin.execute("alter function ledger.done(uuid[], text[], jsonb[]) reset jit")
    with open_connection(admin.info.dsn) as connection:
        found = get_jit(CheckContext(connection, settings_for(admin.info.dsn)))
    assert found["compiled"] == ["ledger.done(uuid[],text[],jsonb[])"]
    compiled, cheap = note_jit({**found, "is_on": True, "above_cost": 10.0}, "app", 100_000)
    assert compiled.verdict is cheap.verdict is WARN
    assert "jit_above_cost = 10" in cheap.found
    assert str(cheap.fix).startswith('alter role "app" set jit = off')
    admin.execute(str(compiled.fix).encode())
    with open_connection(admin.info.dsn) as connection:
        assert get_jit(CheckContext(connection, settings_for(admin.info.dsn)))["compiled"] == []


def test_disabled_autovacuum_is_reported(plain_database: str, fast_server: str) -> None:
    assert run_check("autovacuum", plain_database).verdict is OK
    finding = run_check("autovacuum", fast_server)
    assert finding.verdict is WARN
    assert str(finding.fix).startswith("alter system set autovacuum = on")


# The clock ------------------------------------------------------------------------------------------------------------


def test_clock_skew_on_one_machine_is_ok(database: str) -> None:
    finding = run_check("clock", database)
    assert finding.verdict is OK
    assert re.match(r"this machine is 0\.\d+ s (ahead of|behind) the database", finding.found)


@pytest.mark.parametrize(("seconds", "verdict"), [(5, WARN), (-5, WARN), (3600, BAD)])
def test_clock_skew_is_reported_in_seconds(seconds: int, verdict: Verdict, admin: Admin) -> None:
    admin.execute("create schema liar")
    lie = f"pg_catalog.clock_timestamp() + interval '{seconds} s'"
    admin.execute(f"create function liar.clock_timestamp() returns timestamptz language sql return {lie}".encode())
    finding = run_check("clock", make_conninfo(admin.info.dsn, options="-c search_path=liar,pg_catalog"))
    assert finding.verdict is verdict
    apart, side = re.findall(r"([\d.]+) s (ahead of|behind)", finding.found)[0]
    assert abs(float(apart) - abs(seconds)) < 1
    assert side == ("behind" if seconds > 0 else "ahead of")


def test_test_clock_is_bad_in_production(admin: Admin) -> None:
    assert run_check("test clock", admin.info.dsn).verdict is OK
    install_test_clock(admin)
    assert run_check("test clock", admin.info.dsn).verdict is BAD


# The way there --------------------------------------------------------------------------------------------------------


def test_direct_connection_receives_notifications(database: str) -> None:
    assert run_check("pooler", database).found == "none"
    assert run_check("listen", database).found.startswith("NOTIFY received after ")


def test_direct_url_equal_to_the_main_url_is_ok(database: str) -> None:
    assert run_check("pooler", database, DATABASE_DIRECT_URL=database).verdict is OK
    assert run_check("listen", database, DATABASE_DIRECT_URL=database).verdict is OK


@needs_pgbouncer
def test_pooler_without_a_direct_url_is_a_warning(database: str, home: Path) -> None:
    with pooler(database, home) as pooled:
        lonely = run_check("pooler", pooled)
        assert lonely.verdict is WARN
        assert "workers poll every 1 s" in lonely.found
        assert run_check("listen", pooled).verdict is WARN


@needs_pgbouncer
def test_pooler_with_a_direct_url_is_ok(database: str, home: Path) -> None:
    with pooler(database, home) as pooled:
        assert run_check("pooler", pooled, DATABASE_DIRECT_URL=database).verdict is OK
        assert run_check("listen", pooled, DATABASE_DIRECT_URL=database).verdict is OK


@needs_pgbouncer
def test_direct_url_of_a_pooler_is_bad(database: str, home: Path) -> None:
    with pooler(database, home) as pooled:
        finding = run_check("pooler", pooled, DATABASE_DIRECT_URL=pooled)
        assert finding.verdict is BAD
        assert "DATABASE_DIRECT_URL" in finding.found
        assert run_check("listen", pooled, DATABASE_DIRECT_URL=pooled).verdict is WARN


def test_direct_url_of_another_database_is_bad_and_receives_no_notification(database: str, server: str) -> None:
    finding = run_check("pooler", database, DATABASE_DIRECT_URL=server)
    assert finding.verdict is BAD
    assert "another database: name" in finding.found
    listening = run_check("listen", database, Limits(listen_seconds=0.1), DATABASE_DIRECT_URL=server)
    assert (listening.verdict, "no NOTIFY received" in listening.found) == (WARN, True)


def test_unreachable_direct_url_is_bad_and_its_password_is_not_shown(database: str) -> None:
    nowhere = "postgresql://user:hunter2@127.0.0.1:1/nowhere"
    for check in ("pooler", "listen"):
        finding = run_check(check, database, DATABASE_DIRECT_URL=nowhere)
        assert finding.verdict is (BAD if check == "pooler" else WARN)
        assert "127.0.0.1" in finding.found
        assert "hunter2" not in f"{finding}"


# What is in it --------------------------------------------------------------------------------------------------------


def test_schema_at_the_newest_revision_is_ok_and_a_newer_one_is_a_warning(admin: Admin) -> None:
    dsn = admin.info.dsn
    assert run_check("schema", dsn).found == f"{', '.join(newest_revisions())}, the newest"
    admin.execute("update duly.alembic_version set version_num = 'of_tomorrow' where version_num = 'posts_0001'")
    ahead = run_check("schema", dsn)
    assert (ahead.verdict, ahead.fix) == (WARN, "upgrade duly")
    assert "of_tomorrow" in ahead.found


@pytest.mark.breaks_invariants
def test_outdated_or_missing_schema_is_bad(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        newer.setattr("duly.db.migrate.newest_revisions", lambda: ("engine_0002", "posts_0001"))
        finding = run_check("schema", database)
        assert (finding.verdict, finding.fix) == (BAD, "duly migrate")
        assert finding.found == "engine_0001, scheduler_0001, ingest_0001 is behind engine_0002, posts_0001"
    migrate(database, Names(), "engine@base")
    finding = run_check("schema", database)
    assert (finding.verdict, finding.fix) == (BAD, "duly migrate")
    assert finding.found.startswith("none")


def test_a_database_without_duly_is_recognized(plain_database: str) -> None:
    assert run_check("schema", plain_database).verdict is BAD
    assert run_check("workers", plain_database).fix == "duly migrate"


def test_tables_applied_as_files_are_distinguished_from_missing_tables(server: str) -> None:
    name = f"duly_test_files_{uuid.uuid4().hex}"
    dsn = create_database(server, name)
    try:
        with supabase_turn(server), psycopg.connect(dsn, autocommit=True) as connection:
            for text in compile_migrations().values():
                connection.execute(text.encode())
        finding = run_check("schema", dsn)
        assert run_check("contracts", dsn).verdict is OK
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            drop_database(connection, name)
    assert finding.verdict is WARN
    assert finding.found.startswith("the tables exist, but duly migrate did not create them")
    assert ", ".join(newest_revisions()) in finding.found
    assert finding.fix
    assert finding.fix.startswith("duly verify")


def test_a_revision_the_login_may_not_read_is_a_warning(admin: Admin, make_role: MakeRole) -> None:
    dsn = make_conninfo(admin.info.dsn, user=make_role("login in role duly_worker"))
    admin.execute("revoke all on duly.alembic_version from duly_worker")
    finding = run_check("schema", dsn)
    assert finding.verdict is WARN
    apply_fix(admin, finding)
    assert run_check("schema", dsn).verdict is OK


def test_differences_from_the_contracts_are_counted(admin: Admin) -> None:
    assert run_check("contracts", admin.info.dsn).verdict is OK
    admin.execute("drop index duly.idx_transition__ts")
    finding = run_check("contracts", admin.info.dsn)
    assert (finding.verdict, finding.fix) == (WARN, "duly verify")
    assert finding.found.startswith("1 differences")


# Who we are -----------------------------------------------------------------------------------------------------------


def test_missing_role_is_bad(database: str) -> None:
    finding = run_check("roles", database, DULY_READONLY_ROLE="duly_test_nobody")
    assert (finding.verdict, finding.found) == (BAD, "missing: duly_test_nobody")


def test_login_without_the_runtime_roles_is_bad_and_gets_the_grant(admin: Admin, make_role: MakeRole) -> None:
    login = make_role("login")
    dsn = make_conninfo(admin.info.dsn, user=login)
    neither = run_check("roles", dsn)
    assert neither.verdict is BAD
    assert neither.fix == f"grant duly_worker, duly_api to {login}"
    admin.execute(f"grant duly_api to {login}".encode())
    one = run_check("roles", dsn)
    assert (one.verdict, one.found) == (WARN, f"{login} may act as duly_api, not as duly_worker")
    apply_fix(admin, neither)
    assert run_check("roles", dsn).found == f"{login} may act as duly_worker and as duly_api"


def test_component_that_logs_in_as_its_role_needs_no_membership(admin: Admin) -> None:
    assert run_check("roles", make_conninfo(admin.info.dsn, user="duly_worker")).verdict is OK


def test_embedded_components_log_in_as_their_own_roles(admin: Admin, make_role: MakeRole) -> None:
    assert run_check("roles", admin.info.dsn, embedded=True).verdict is OK
    finding = run_check("roles", admin.info.dsn, embedded=True, DULY_WORKER_ROLE=make_role("nologin"))
    assert (finding.verdict, finding.fix) == (WARN, "duly up")


def test_component_role_that_is_a_member_of_the_owner_is_bad(admin: Admin, make_role: MakeRole) -> None:
    member = make_role("login in role duly_owner")
    finding = run_check("roles", admin.info.dsn, embedded=True, DULY_API_ROLE=member)
    assert finding.verdict is BAD
    assert f"{member} is a member of duly_owner and has its rights" in finding.found
    assert finding.fix == f"revoke duly_owner from {member}"


def test_row_security_applies_to_a_plain_login_but_not_to_a_superuser(admin: Admin, make_role: MakeRole) -> None:
    plain = make_role("login in role duly_worker, duly_api")
    assert run_check("row security", make_conninfo(admin.info.dsn, user=plain)).verdict is OK
    above = run_check("row security", make_conninfo(admin.info.dsn, user=make_role("login superuser")))
    assert above.verdict is WARN
    assert "row level security does not apply to this login" in above.found
    assert "DATABASE_URL" in str(above.fix)


def test_row_security_does_not_apply_to_a_bypassrls_login(admin: Admin, make_role: MakeRole) -> None:
    dsn = make_conninfo(admin.info.dsn, user=make_role("login bypassrls in role duly_worker, duly_api"))
    finding = run_check("row security", dsn)
    assert (finding.verdict, "BYPASSRLS" in finding.found) == (WARN, True)
    apply_fix(admin, finding)
    assert run_check("row security", dsn).verdict is OK


def test_row_security_does_not_apply_to_the_table_owner(admin: Admin, make_role: MakeRole) -> None:
    finding = run_check("row security", make_conninfo(admin.info.dsn, user=make_role("login in role duly_owner")))
    assert finding.verdict is WARN
    assert re.search(r"it owns \d+ tables", finding.found)
    assert str(finding.fix).startswith("revoke duly_owner from ")
    owner = make_role("login in role duly_worker, duly_api")
    admin.execute(f"create table duly.parcels (); alter table duly.parcels owner to {owner}".encode())
    direct = run_check("row security", make_conninfo(admin.info.dsn, user=owner))
    assert (direct.verdict, "it owns 1 tables" in direct.found) == (WARN, True)
    assert "DATABASE_URL" in str(direct.fix)


def test_embedded_component_roles_must_be_subject_to_row_security(admin: Admin, make_role: MakeRole) -> None:
    dsn = admin.info.dsn
    assert run_check("row security", dsn, embedded=True).verdict is OK
    bypassing = run_check("row security", dsn, embedded=True, DULY_API_ROLE=make_role("bypassrls"))
    assert (bypassing.verdict, "BYPASSRLS" in bypassing.found) == (WARN, True)
    almighty = run_check("row security", dsn, embedded=True, DULY_API_ROLE=make_role("superuser"))
    assert (almighty.verdict, "nosuperuser" in str(almighty.fix)) == (WARN, True)
    owner = make_role("login")
    admin.execute("create function public.mine() returns int language sql return 1")
    admin.execute(f"alter function public.mine() owner to {owner}".encode())
    owning = run_check("row security", dsn, embedded=True, DULY_API_ROLE=owner)
    assert (owning.verdict, owning.found) == (WARN, f"{owner} owns 1 objects")
    apply_fix(admin, owning)
    assert run_check("row security", dsn, embedded=True, DULY_API_ROLE=owner).verdict is OK


# What is in the way ---------------------------------------------------------------------------------------------------


def test_recent_transaction_is_ok_and_counted(database: str) -> None:
    with open_transaction(database):
        finding = run_check("transactions", database)
    assert finding.verdict is OK
    assert re.match(r"\d open, the oldest for \d+ s", finding.found)


@pytest.mark.parametrize(
    ("limits", "verdict"),
    [
        (Limits(transaction_warn_seconds=0), WARN),
        (Limits(transaction_bad_seconds=0), BAD),
        (Limits(idle_warn_seconds=0), WARN),
    ],
)
def test_old_transaction_is_reported_with_its_termination(limits: Limits, verdict: Verdict, admin: Admin) -> None:
    dsn = admin.info.dsn
    with open_transaction(dsn) as forgetful:
        finding = run_check("transactions", dsn, limits)
        assert finding.verdict is verdict
        assert f"pid {forgetful.info.backend_pid} (forgetful, idle in transaction): open for" in finding.found
        assert finding.fix == f"select pg_terminate_backend({forgetful.info.backend_pid})"
        apply_fix(admin, finding)
        with pytest.raises(psycopg.OperationalError):
            forgetful.execute("select 1")


def test_the_age_of_a_snapshot_is_reported_in_transactions(admin: Admin) -> None:
    with open_transaction(admin.info.dsn, "declare slow cursor for select 1"):
        for _ in range(3):
            admin.execute("select pg_current_xact_id()")
        finding = run_check("transactions", admin.info.dsn, Limits(snapshot_warn_age=2))
        assert finding.verdict is WARN
        assert re.search(r"its snapshot \d+ transactions old", finding.found)
        assert run_check("transactions", admin.info.dsn, Limits(snapshot_bad_age=2)).verdict is BAD


def test_sessions_hidden_from_the_login_are_a_warning(admin: Admin, make_role: MakeRole) -> None:
    dsn = make_conninfo(admin.info.dsn, user=make_role("login"))
    finding = run_check("transactions", dsn)
    assert finding.verdict is WARN
    assert "1 sessions of other roles are hidden" in finding.found
    apply_fix(admin, finding)
    assert run_check("transactions", dsn).verdict is OK


@contextmanager
def waiting(dsn: str, statement: str, many: int = 1) -> Generator[Admin, None, None]:
    """Start a session that waits for a lock of another, and return once this many wait."""
    with psycopg.connect(make_conninfo(dsn, application_name="patient"), autocommit=True) as connection:
        asking = Thread(target=connection.execute, args=[f"begin; {statement}; commit".encode()])
        asking.start()
        try:
            wait_until_blocked(dsn, many)
            yield connection
        except BaseException:
            connection.cancel()
            raise
        finally:
            asking.join()


def test_without_lock_waits_no_session_is_reported(database: str) -> None:
    with open_transaction(database, "lock table duly.orgs in share row exclusive mode"):
        finding = run_check("locks", database, AT_ONCE)
    assert (finding.verdict, finding.found) == (OK, "no session has waited for more than 0 s")


@pytest.mark.parametrize(
    ("limits", "verdict"), [(Limits(lock_warn_seconds=0), WARN), (Limits(lock_warn_seconds=0, lock_bad_seconds=0), BAD)]
)
def test_a_session_that_blocks_a_row_is_reported_with_its_termination(
    limits: Limits, verdict: Verdict, admin: Admin
) -> None:
    dsn = admin.info.dsn
    admin.execute("insert into duly.orgs (name) values ('first')")
    with (
        open_transaction(dsn, "update duly.orgs set name = 'confidential'") as forgetful,
        waiting(dsn, "update duly.orgs set name = 'secret' where name = 'first'") as patient,
    ):
        finding = run_check("locks", dsn, limits)
        assert finding.verdict is verdict
        assert re.fullmatch(
            rf"pid {forgetful.info.backend_pid} \(forgetful, idle in transaction, update duly.orgs set name = ...\)"
            rf" keeps 1 waiting: pid {patient.info.backend_pid} \(patient, begin; update duly.orgs set name = ...\)"
            r" for \d+ s",
            finding.found,
        )
        assert finding.fix == f"select pg_terminate_backend({forgetful.info.backend_pid})"
        apply_fix(admin, finding)
        with pytest.raises(psycopg.OperationalError):
            forgetful.execute("select 1")
    assert admin.execute("select name from duly.orgs").fetchone() == ("secret",)


def test_short_lock_wait_is_ok(database: str) -> None:
    with (
        open_transaction(database, "lock table duly.orgs in share mode") as quick,
        waiting(database, "lock table duly.orgs in row exclusive mode"),
    ):
        assert run_check("locks", database, Limits(lock_warn_seconds=600)).verdict is OK
        quick.rollback()


def test_fix_for_a_lock_queue_terminates_the_first_blocker(database: str) -> None:
    with (
        open_transaction(database, "lock table duly.orgs in access share mode") as reader,
        waiting(database, "lock table duly.orgs in access exclusive mode") as changer,
        waiting(database, "select from duly.orgs", many=2) as other,
    ):
        finding = run_check("locks", database, AT_ONCE)
        first, second, third = (each.info.backend_pid for each in (reader, changer, other))
        assert (
            f"pid {first} (forgetful, idle in transaction, lock table duly.orgs in access share mode)" in finding.found
        )
        assert re.search(rf"pid {first} .* keeps 1 waiting: pid {second} ", finding.found)
        assert re.search(
            rf"pid {second} \(patient, begin; lock .*\), which waits itself, keeps 1 waiting: pid {third} ",
            finding.found,
        )
        assert finding.fix == f"select pg_terminate_backend({first})"
        reader.rollback()


def test_sessions_waiting_for_one_blocker_are_counted_and_the_longest_named(database: str) -> None:
    with ExitStack() as others:
        holder = others.enter_context(open_transaction(database, "lock table duly.orgs in exclusive mode"))
        several = [
            others.enter_context(waiting(database, "lock table duly.orgs in row share mode", many))
            for many in range(1, 6)
        ]
        pids = [str(each.info.backend_pid) for each in several]
        finding = run_check("locks", database, AT_ONCE)
        holder.rollback()
    assert re.findall(r"pid (\d+) \(patient", finding.found) == pids[:3]
    assert "keeps 5 waiting" in finding.found
    assert finding.found.endswith(", and 2 more")


def test_without_pg_read_all_stats_waiting_sessions_are_reported_without_queries(
    admin: Admin, make_role: MakeRole
) -> None:
    dsn = make_conninfo(admin.info.dsn, user=make_role("login"))
    with (
        open_transaction(admin.info.dsn, "lock table duly.orgs in exclusive mode") as holder,
        waiting(admin.info.dsn, "lock table duly.orgs in row share mode") as patient,
    ):
        finding = run_check("locks", dsn, AT_ONCE)
        assert f"pid {holder.info.backend_pid} (forgetful, hidden) keeps 1 waiting" in finding.found
        assert f"pid {patient.info.backend_pid} (patient, hidden) for" in finding.found
        assert finding.fix
        grant = finding.fix.partition("; ")[2]
        assert grant.startswith("grant pg_read_all_stats to ")
        admin.execute(grant.encode())
        assert "hidden" not in run_check("locks", dsn, AT_ONCE).found
        holder.rollback()


def test_a_wait_for_a_prepared_transaction_is_reported(plain_database: str) -> None:
    with psycopg.connect(plain_database, autocommit=True) as connection:
        connection.execute("create table things (id bigint)")
        connection.execute("begin; lock table things in exclusive mode; prepare transaction 'half'")
        with waiting(plain_database, "lock table things in row share mode"):
            finding = run_check("locks", plain_database, AT_ONCE)
            connection.execute("rollback prepared 'half'")
    assert "a prepared transaction keeps 1 waiting" in finding.found
    assert finding.fix == "see prepared transactions"


@pytest.mark.parametrize(
    ("query", "summary"),
    [
        ("select 1", "select ..."),
        ("update a.b set c = 'x', d = 1", "update a.b set c = ..."),
        ("  select\n  a,\tb2 from t2 where k = $1", "select a, b2 from t2 where k = $1"),
        ("/* user=anna */ delete from t -- why\n where x > 4.5", "delete from t where x > ..."),
        ("do $body$ begin end $body$", "do ..."),
        ("alter role r password 'cut off by the serv", "alter role r password ..."),
        (
            f"select {', '.join('abcdefghij' * 2 for _ in range(9))}",
            f"select {'abcdefghij' * 2}, {'abcdefghij' * 2}, ...",
        ),
        ("", "nothing yet"),
        (None, "hidden"),
        ("<insufficient privilege>", "hidden"),
    ],
)
def test_a_query_is_summarized_without_literals(query: str | None, summary: str) -> None:
    assert summarize_query(query) == summary


def test_prepared_transaction_is_reported_with_its_rollback(plain_database: str) -> None:
    with psycopg.connect(plain_database, autocommit=True) as connection:
        assert run_check("prepared transactions", plain_database).found == "0 in this database"
        connection.execute("begin; create table half ()")
        connection.execute("prepare transaction 'half ''done'")
        try:
            assert run_check("prepared transactions", plain_database).found == "1 in this database"
            late = run_check("prepared transactions", plain_database, Limits(transaction_warn_seconds=0))
            assert late.verdict is WARN
            assert run_check("prepared transactions", plain_database, Limits(transaction_bad_seconds=0)).verdict is BAD
        finally:
            connection.execute("rollback prepared 'half ''done'")
        assert str(late.fix).startswith("rollback prepared 'half ''done', or ")


def test_an_unused_replication_slot_is_reported(plain_database: str) -> None:
    slot = f"forgotten_{uuid.uuid4().hex}"
    assert run_check("replication slots", plain_database).verdict is OK
    with psycopg.connect(plain_database, autocommit=True) as connection:
        connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
        try:
            finding = run_check("replication slots", plain_database)
            assert finding.verdict is WARN
            assert f"slot {slot} (not in use) holds rows back for " in finding.found
            assert f"select pg_drop_replication_slot('{slot}')" in str(finding.fix)
            assert run_check("replication slots", plain_database, Limits(snapshot_bad_age=-1)).verdict is BAD
        finally:
            connection.execute("select pg_drop_replication_slot(%s)", [slot])
    assert run_check("replication slots", plain_database).verdict is OK


def test_table_with_many_dead_rows_is_reported(admin: Admin) -> None:
    dsn, limits = admin.info.dsn, Limits(dead_rows=50, large_rows=10**9)
    admin.execute("create table duly.litter as select generate_series(1, 100) as n")
    flush_statistics(admin)
    assert run_check("vacuum", dsn, limits).verdict is OK
    admin.execute("delete from duly.litter where n <= 60")
    flush_statistics(admin)
    finding = run_check("vacuum", dsn, limits)
    assert (finding.verdict, finding.found) == (WARN, "duly.litter has 60 dead rows beside 40")
    assert run_check("vacuum", dsn, Limits(dead_rows=50, dead_share=0.7, large_rows=10**9)).verdict is OK
    apply_fix(admin, finding)
    flush_statistics(admin)
    assert run_check("vacuum", dsn, limits).verdict is OK


def test_large_table_that_was_never_vacuumed_is_reported(admin: Admin) -> None:
    dsn, limits = admin.info.dsn, Limits(large_rows=50)
    admin.execute("create table duly.heap as select generate_series(1, 100) as n")
    flush_statistics(admin)
    finding = run_check("vacuum", dsn, limits)
    assert (finding.verdict, finding.found) == (WARN, "duly.heap has 100 rows and was never vacuumed")
    apply_fix(admin, finding)
    flush_statistics(admin)
    assert run_check("vacuum", dsn, limits).verdict is OK


def flush_statistics(admin: Admin) -> None:
    admin.execute("select pg_stat_force_next_flush()")


def test_old_transaction_ids_are_reported_before_the_server_stops(database: str) -> None:
    assert run_check("transaction ids", database).verdict is OK
    assert run_check("transaction ids", database, Limits(database_warn_age=-1)).verdict is WARN
    assert run_check("transaction ids", database, Limits(database_bad_age=-1)).verdict is BAD


# Who works ------------------------------------------------------------------------------------------------------------


def test_heartbeat_check_reports_its_settings(database: str) -> None:
    fine = run_check("heartbeat", database)
    assert fine.found == "LEASE_HEARTBEAT_SECONDS=10, a third of LEASE_TIMEOUT_SECONDS=300 is 100"
    without = run_check("heartbeat", database, ENABLE_LEASE_HEARTBEAT=False)
    assert (without.verdict, "longer than LEASE_TIMEOUT_SECONDS=300" in without.found) == (WARN, True)


def test_heartbeat_interval_too_long_for_the_lease_is_bad(database: str) -> None:
    settings = settings_for(database).model_copy(update={"lease_heartbeat_seconds": 100.0})
    with open_connection(database) as connection:
        finding = load_checks()["heartbeat"](CheckContext(connection, settings))
    assert (finding.verdict, "below 100" in str(finding.fix)) == (BAD, True)


WORKER = """
insert into duly.workers (id, worker_id, host, pid, version, work_types, slots)
values (gen_random_uuid(), 'worker-1', 'alpha', 7, '0', '{outbox}', '{"outbox": 50}')
"""


def test_missing_worker_is_a_warning(admin: Admin) -> None:
    finding = run_check("workers", admin.info.dsn)
    assert (finding.verdict, finding.fix) == (WARN, "start one: duly worker")
    admin.execute(WORKER)
    assert run_check("workers", admin.info.dsn).found == "1 alive with 50 slots, for: outbox"


def test_a_worker_that_vanished_is_reported_for_a_day(admin: Admin) -> None:
    install_test_clock(admin)
    admin.execute(WORKER)
    move_clock(admin, 61)
    finding = run_check("workers", admin.info.dsn)
    assert finding.verdict is WARN
    assert re.search(r"1 vanished without stopping: worker-1 on alpha \(pid 7, 1 min \d s ago\)", finding.found)
    admin.execute(WORKER)
    assert "1 alive, 1 vanished" in run_check("workers", admin.info.dsn).found
    admin.execute("update duly.workers set stopped_at = duly.clock()")
    admin.execute(WORKER)
    assert run_check("workers", admin.info.dsn).verdict is OK
    move_clock(admin, 86_401)
    assert run_check("workers", admin.info.dsn).found == "none alive: no work is done"


def test_login_that_is_only_a_member_of_the_worker_role_sees_the_workers(admin: Admin, make_role: MakeRole) -> None:
    admin.execute(WORKER)
    login = make_role("login noinherit in role duly_worker")
    assert run_check("workers", make_conninfo(admin.info.dsn, user=login)).verdict is OK


# Partitions -----------------------------------------------------------------------------------------------------------


PARTITIONED = "create table duly.parcels (at timestamptz not null) partition by range (at)"


def add_month(admin: Admin, months_later: int, table: str = "duly.parcels") -> None:
    """A partition for one month, counted from the present one."""
    bounds = "date_trunc('month', now() at time zone 'UTC') + make_interval(months => %s)"
    (bound,) = admin.execute(
        f"select format('from (%%L) to (%%L)', ({bounds})::text || '+00', ({bounds})::text || '+00')".encode(),
        [months_later, months_later + 1],
    ).fetchone() or ("",)
    name = f"{table}_m{months_later + 100}"
    admin.execute(f"create table {name} partition of {table} for values {bound}".encode())


@pytest.mark.breaks_invariants
def test_missing_partitioned_tables_are_reported(admin: Admin) -> None:
    for (table,) in admin.execute(
        "select t.oid::regclass::text from pg_partitioned_table p join pg_class t on t.oid = p.partrelid"
    ).fetchall():
        admin.execute(f"drop table {table} cascade".encode())
    assert run_check("partitions", admin.info.dsn).found == "no partitioned tables"


def test_partitions_ahead_are_counted_and_the_fix_creates_the_next_one(admin: Admin) -> None:
    dsn = admin.info.dsn
    admin.execute(PARTITIONED)
    verdicts: list[tuple[Verdict, str]] = []
    for _ in range(4):  # each time the missing partition is created: the present month, then the next ones
        finding = run_check("partitions", dsn)
        verdicts.append(
            (finding.verdict, "".join(re.findall(r"duly\.parcels has partitions for (\d) months", finding.found)))
        )
        if finding.verdict is not OK:
            apply_fix(admin, finding)
    assert verdicts == [(BAD, "0"), (BAD, "0"), (WARN, "1"), (OK, "2")]


def test_missing_month_between_partitions_ends_the_count(admin: Admin) -> None:
    admin.execute(PARTITIONED)
    for months_later in (-1, 0, 1, 3, 4):
        add_month(admin, months_later)
    finding = run_check("partitions", admin.info.dsn)
    assert finding.verdict is WARN
    apply_fix(admin, finding)
    assert "for 4 months ahead" in run_check("partitions", admin.info.dsn).found


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamptz"])
def test_partition_months_are_counted_in_utc_in_every_session_time_zone(kind: str, zone: str, admin: Admin) -> None:
    admin.execute(f"create table duly.parcels (at {kind} not null) partition by range (at)".encode())
    for months_later in range(4):
        add_month(admin, months_later)
    finding = run_check("partitions", make_conninfo(admin.info.dsn, options=f"-c TimeZone={zone} -c DateStyle=German"))
    assert finding.found.startswith("duly.parcels has partitions for 3 months ahead; scheduler.job_runs has")


def test_partitions_ahead_decrease_as_time_passes(admin: Admin) -> None:
    install_test_clock(admin)
    admin.execute(PARTITIONED)
    for months_later in range(4):
        add_month(admin, months_later)
    assert run_check("partitions", admin.info.dsn).verdict is OK
    move_clock(admin, 150 * 86_400)
    assert run_check("partitions", admin.info.dsn).verdict is BAD


def test_rows_in_the_default_partition_are_counted(admin: Admin) -> None:
    admin.execute(PARTITIONED)
    for months_later in range(4):
        add_month(admin, months_later)
    admin.execute("create table duly.parcels_rest partition of duly.parcels default")
    assert run_check("partitions", admin.info.dsn).verdict is OK
    admin.execute("insert into duly.parcels values ('2001-01-01'), ('2001-01-02')")
    finding = run_check("partitions", admin.info.dsn)
    assert finding.verdict is WARN
    assert finding.found == "2 rows in the default partition duly.parcels_rest"


def test_rows_that_the_login_may_not_count_are_estimated(admin: Admin, make_role: MakeRole) -> None:
    admin.execute(f"{PARTITIONED}; create table duly.parcels_rest partition of duly.parcels default".encode())
    admin.execute("insert into duly.parcels values ('2001-01-01')")
    flush_statistics(admin)
    finding = run_check("partitions", make_conninfo(admin.info.dsn, user=make_role("login in role duly_worker")))
    assert "about 1 rows in the default partition" in finding.found


def test_tables_not_partitioned_by_time_are_ignored(admin: Admin) -> None:
    admin.execute("create table duly.lists (n int) partition by list (n)")
    admin.execute("create table duly.ranges (n int) partition by range (n)")
    admin.execute("create table duly.ranges_1 partition of duly.ranges for values from (1) to (9)")
    admin.execute("create table duly.days (d date, n int) partition by range (d, n)")
    everything = "from (minvalue, minvalue) to (maxvalue, maxvalue)"
    admin.execute(f"create table duly.days_all partition of duly.days for values {everything}".encode())
    finding = run_check("partitions", admin.info.dsn)
    assert finding.verdict is OK
    assert "duly.days has no end" in finding.found
    assert "ranges" not in finding.found


# Messages -------------------------------------------------------------------------------------------------------------

LATE, TOO_LATE = "interval '9 minutes'", "interval '11 minutes'"
SENDING = (
    "lease_owner = 'w/1', starts = 1, called_at = duly.clock(), lease_expires_at = duly.clock() + interval '1 minute'"
)
LOST = "lease_owner = null, lease_expires_at = null, last_error = 'its sender ended'"
OUTBOX = (
    "insert into duly.outbox (channel, recipient, kind, payload, due_at) values ('webhook', 'anna', 'test',"
    " '{{}}', duly.clock() - {due})"
)
ABOUT_DAY = (
    "insert into schedule_ingest.schedule_notification (notification_id, user_id, schedule_date, source_session_id,"
    " notification_type, message, event_ids, due_at) values (gen_random_uuid(), 42, '2026-02-10',"
    " '00000000-0000-0000-0000-00000000000a', 'event', 'Hello', '[]', duly.clock() - {due})"
)


@pytest.mark.parametrize(
    ("table", "state", "insert", "about", "sender", "option"),
    [
        ("duly.outbox", "status", OUTBOX, "", "outbox", ""),
        ("schedule_ingest.schedule_notification", "delivery", ABOUT_DAY, "about days ", "notifications", " --days"),
    ],
)
def test_unsent_messages_are_counted_with_the_command_that_lists_them(
    table: str, state: str, insert: str, about: str, sender: str, option: str, admin: Admin
) -> None:
    session = "00000000-0000-0000-0000-00000000000a"
    admin.execute("insert into schedule_ingest.capture_session (id, user_id) values (%s, 42)", [session])

    def insert_message(due: str, *moves: str) -> None:
        admin.execute(insert.format(due=due).encode())
        for move in moves:
            admin.execute(f"update {table} set {state} = {move} where seq = (select max(seq) from {table})".encode())

    insert_message(LATE)
    assert run_check("messages", admin.info.dsn, TELEGRAM_BOT_TOKEN=TOKEN).found == "none is late, uncertain or failed"
    insert_message(TOO_LATE)
    late = run_check("messages", admin.info.dsn, TELEGRAM_BOT_TOKEN=TOKEN)
    assert late.fix == f"start a sender: duly worker --only {sender}; or see DULY_SENDER_OFF"
    insert_message(LATE, f"'sending', {SENDING}", f"'uncertain', {LOST}")
    insert_message(LATE, f"'sending', {SENDING}", f"'failed', {LOST}")
    finding = run_check("messages", admin.info.dsn, TELEGRAM_BOT_TOKEN=TOKEN)
    assert finding.verdict is WARN
    assert finding.found == (
        f"1 {about}are due for more than 10 minutes and not sent; "
        f"1 {about}are uncertain: it is unknown whether they arrived; 1 {about}failed since yesterday"
    )
    assert finding.fix is not None
    assert f"duly notifications list --status uncertain{option}, then resend or resolve each" in finding.fix
    assert finding.fix.endswith(f"duly notifications list --status failed{option}")


# How it looks ---------------------------------------------------------------------------------------------------------


def test_doctor_connection_is_read_only(database: str) -> None:
    with open_connection(database) as connection:
        case = CheckContext(connection, settings_for(database))
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction), case.short_transaction():
            connection.execute("create table duly.doctors_own ()")


def test_check_without_permission_reports_that_and_its_fix(admin: Admin, make_role: MakeRole) -> None:
    login = make_role("login")
    finding = run_check("workers", make_conninfo(admin.info.dsn, user=login))
    assert "could not be checked: permission denied" in finding.found
    apply_fix(admin, finding)
    assert run_check("workers", make_conninfo(admin.info.dsn, user=login)).fix == "start one: duly worker"


def test_doctor_reconnects_after_its_connection_was_cut(admin: Admin) -> None:
    findings = run_checks(admin.info.dsn, settings_for(admin.info.dsn))
    assert next(findings).verdict is OK
    admin.execute(
        "select pg_terminate_backend(pid, 30000) from pg_stat_activity"
        " where datname = current_database() and application_name = 'duly-doctor'"
    )
    assert "could not be checked" in next(findings).found
    assert all("could not be checked" not in finding.found for finding in findings)


def test_dropped_database_raises_unavailable(durable_server: str) -> None:
    name = f"plain_{uuid.uuid4().hex}"
    dsn = create_database(durable_server, name)
    findings = run_checks(dsn, settings_for(dsn))
    next(findings)
    with psycopg.connect(durable_server, autocommit=True) as connection:
        drop_database(connection, name)
    next(findings)
    with pytest.raises(Unavailable, match=name):
        next(findings)


def test_doctor_holds_no_transaction_open_between_checks(admin: Admin) -> None:
    findings = run_checks(admin.info.dsn, settings_for(admin.info.dsn))
    next(findings)
    doctors = "select count(*) from pg_stat_activity where application_name = 'duly-doctor' and xact_start is not null"
    assert admin.execute(f"{doctors} and datname = current_database()".encode()).fetchone() == (0,)
    findings.close()


@pytest.mark.parametrize("embedded", [False, True])
def test_every_check_runs_on_every_major_version(embedded: bool, database: str) -> None:
    settings = settings_for(None if embedded else database)
    findings = list(run_checks(database, settings))
    assert [finding.check for finding in findings] == list(load_checks())
    assert [finding for finding in findings if "could not be checked" in finding.found] == []
    assert {finding.check for finding in findings if finding.verdict is BAD} == set()


@needs_pgbouncer
def test_every_check_runs_through_a_pooler(database: str, home: Path) -> None:
    with pooler(database, home) as pooled:
        findings = list(run_checks(pooled, settings_for(pooled, DATABASE_DIRECT_URL=database)))
    assert [finding for finding in findings if "could not be checked" in finding.found] == []
    assert {finding.check for finding in findings if finding.verdict is BAD} == set()


def test_every_sql_block_of_the_doctor_is_used() -> None:
    files = list(Path(doctor.__file__).parent.glob("*.sql"))
    assert files
    for file in files:
        source = file.with_suffix(".py").read_text()
        assert {name for name in parse_queries(file.read_text()) if not re.search(rf"\b{name}\b", source)} == set()


def test_every_check_has_a_section_in_the_docs() -> None:
    page = (ROOT / "docs" / "doctor.md").read_text()
    assert re.findall(r"^## (.*)$", page, re.MULTILINE)[-len(load_checks()) :] == list(load_checks())
