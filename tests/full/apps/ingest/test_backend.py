"""Tables that a backend owns: one script adds what a worker needs, the owner's rules stay, and a worker works."""

import json
import signal
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from duly.db.fingerprint import fingerprint
from duly.db.migrate import migrate, newest_revisions
from duly.db.migrations import Names
from duly.errors import Misconfigured
from tests.fast.apps.ingest.test_backend import (
    BACKENDS,
    OTHERS,
    SCRIPT_FAILED,
    A,
    B,
    Site,
    backend,
    for_each_backend,
    our_roles,
    owners,
    site,
    site_on,
)
from tests.support.backends import CONTRACT, OWNERS, PHASE_3, PLAIN, Backend
from tests.support.processes import PYTHON, Program

__all__ = ["backend", "owners", "site"]
SESSION_FAILED = 0
PROBLEMS_FOUND = 1


# The script -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made_by", BACKENDS, ids=str)
def test_the_lease_script_runs_on_every_major_version_and_is_idempotent(
    made_by: Backend, server: str, worker_id: str, tmp_path: Path
) -> None:
    with site_on(server, worker_id, tmp_path) as site:
        site.build(made_by)
        before = site.lines()
        assert (site.psql().returncode, site.psql().stderr) == (0, "")
        after = site.lines()
        assert (site.psql().returncode, site.lines()) == (0, after)
        assert [line for line in before if line not in after] == []
        site.add_leases()
        site.capture()
        assert site.rows("select state::text from HOME.capture_session") == [("done",)]


def test_the_lease_script_migrates_a_schema_of_another_name(site: Site) -> None:
    site.schema = "rota"
    site.build(PLAIN)
    wrong = site.psql()
    assert wrong.returncode == SCRIPT_FAILED
    assert 'the schema "schedule_ingest" has no table capture_image, capture_session, day_schedule' in wrong.stderr
    site.add_leases()
    site.capture()
    assert site.rows("select version from HOME.schedule_version") == [(1,)]


def test_a_worker_on_a_backend_without_the_lease_script_names_the_script(site: Site) -> None:
    site.build(OWNERS)
    site.wait()
    refused = site.main()
    assert refused.returncode == 1
    assert "database/migrations/20260212_add_session_leases.sql" in refused.stderr
    assert "Traceback" not in refused.stderr


# A worker -------------------------------------------------------------------------------------------------------------


def test_a_capture_is_written_to_the_tables_of_a_backend(backend: Site) -> None:
    key = backend.capture()
    assert backend.rows("select id, state::text, error, locked_at, locked_by from HOME.capture_session") == [
        (key, "done", None, None, None)
    ]
    assert backend.rows("select version, session_id, canonicalizer from HOME.schedule_version") == [(1, key, 2)]
    assert backend.rows("select current_version from HOME.day_schedule") == [(1,)]
    assert backend.rows("select event_type, seq from HOME.schedule_event") == [("shift_added", 1)]
    assert backend.rows("select status, notification_type from HOME.schedule_notification") == [("pending", "event")]
    assert backend.rows("select source_session_id, events from HOME.day_snapshot") == [(key, 1)]
    assert backend.is_rebuilt()
    again = backend.main()
    assert (again.returncode, "nothing to do" in again.stdout) == (0, True)


def test_a_day_that_changes_back_and_forth_has_every_change_in_a_backend(backend: Site) -> None:
    backend.add_leases("-v", "event_key=replace")
    for day in (A, B, A, B, B):
        backend.capture(day)
    assert backend.rows("select version from HOME.schedule_version order by version") == [(1,), (2,), (3,), (4,)]
    assert backend.rows("select current_version from HOME.day_schedule") == [(4,)]
    assert backend.one("select count(*) from HOME.schedule_event") == 4
    assert backend.one("select count(*) from HOME.schedule_notification") == 4
    assert backend.one("select count(*) from HOME.capture_session where state = 'done'") == 5
    assert backend.is_rebuilt()


@pytest.mark.parametrize("backend", [OWNERS, PLAIN, CONTRACT], ids=str, indirect=True)
def test_the_polling_worker_claims_complete_sessions_of_a_backend(backend: Site) -> None:
    """A session that the owner closed; or, where sessions are not closed, one whose last image is idle."""
    key = backend.wait()
    if backend.backend is not OWNERS:
        backend.owner.execute(
            "insert into schedule_ingest.capture_image (id, session_id, sequence, r2_key, created_at)"
            " values (gen_random_uuid(), %s, 1, 'one', now())",
            [key],
        )
    backend.fixture.write_text(json.dumps(A))
    environment = backend.environment(
        WORKER_INPUT_MODE="fixture", SESSION_IDLE_TIMEOUT_SECONDS="0", WORKER_POLL_SECONDS="0.1"
    )
    with Program([*PYTHON, "-m", "duly", "worker", "--only", "ingest"], environment=environment) as worker:
        while not ("worker.iteration.end" in (line := worker.line()) and json.loads(line)["sessions"]):
            pass
        assert worker.finish(signal.SIGTERM) == 0, worker.stderr_text()
    assert backend.rows("select id, state::text from HOME.capture_session") == [(key, "done")]
    assert backend.rows("select current_version from HOME.day_schedule") == [(1,)]


def test_an_unreadable_capture_fails_within_the_constraints_of_the_backend(owners: Site) -> None:
    owners.wait()
    done = owners.main({"schedule_date": "never"})
    assert done.returncode == SESSION_FAILED
    ((state, error),) = owners.rows("select state::text, error from HOME.capture_session")
    assert state == "failed"
    assert error.startswith("schedule_date")
    assert owners.one("select count(*) from HOME.schedule_version") == 0


def test_an_open_session_of_a_backend_is_not_claimed(owners: Site) -> None:
    owners.owner.execute("insert into schedule_ingest.capture_session (user_id) values (42)")
    assert owners.main().returncode == 0
    assert owners.rows("select state::text, starts from HOME.capture_session") == [("open", 0)]


def test_a_state_unknown_to_the_backend_is_refused_naming_its_setting(site: Site) -> None:
    site.build(PLAIN)
    site.add_leases()
    refused = site.main(PENDING_STATE="closed")
    assert refused.returncode == 1
    assert "PENDING_STATE=closed: capture_session has the states pending, processing, done, failed" in refused.stderr


@for_each_backend
@pytest.mark.parametrize(
    ("locked_at", "is_claimed"),
    [("null", True), ("now() - interval '301 s'", True), ("now() - interval '290 s'", False)],
)
def test_an_expired_session_of_another_worker_is_claimed(backend: Site, locked_at: str, is_claimed: bool) -> None:
    """A worker that knows nothing of ours writes its name and the time, if that; the length of its lease is ours."""
    backend.wait()
    backend.owner.execute(
        f"update {backend.schema}.capture_session set state = 'processing', locked_by = 'worker-1',"
        f" locked_at = {locked_at}".encode()
    )
    assert backend.main(LEASE_TIMEOUT_SECONDS="300").returncode == 0
    assert backend.one("select state::text from HOME.capture_session") == ("done" if is_claimed else "processing")


def test_a_session_that_was_started_too_often_fails(owners: Site) -> None:
    owners.wait()
    owners.owner.execute(
        "update schedule_ingest.capture_session set state = 'processing', locked_by = 'worker-1', starts = 5,"
        " locked_at = now() - interval '1 hour'"
    )
    assert owners.main().returncode == 0
    ((state, error),) = owners.rows("select state::text, error from HOME.capture_session")
    assert (state, error.startswith("It was started too often")) == ("failed", True)


# Rights ---------------------------------------------------------------------------------------------------------------

SNAPSHOTS = "revoke insert on schedule_ingest.day_snapshot from {}"
SNAPSHOTS_GRANT = "grant insert on schedule_ingest.day_snapshot to {}"
POINTERS = "revoke insert on schedule_ingest.day_schedule from {}"  # which the owner's trigger needs, and we do not


@pytest.fixture
def contracts(site: Site) -> Site:
    """The backend that is the contract, word for word."""
    site.build(CONTRACT)
    site.add_leases()
    return site


def test_main_without_a_privilege_prints_the_grant_and_claims_nothing(contracts: Site) -> None:
    contracts.owner.execute(SNAPSHOTS.format(contracts.worker).encode())
    contracts.wait()
    refused = contracts.main()
    assert refused.returncode == 1
    (line,) = refused.stderr.splitlines()
    assert line.endswith(f"run: {SNAPSHOTS_GRANT.format(contracts.worker)}")
    assert contracts.rows("select state::text, starts from HOME.capture_session") == [("pending", 0)]
    contracts.owner.execute(SNAPSHOTS_GRANT.format(contracts.worker).encode())
    assert contracts.main().returncode == 0


def test_a_privilege_missing_in_a_trigger_of_the_backend_releases_the_session(contracts: Site) -> None:
    contracts.owner.execute(POINTERS.format(contracts.worker).encode())
    key = contracts.wait()
    refused = contracts.main()
    assert refused.returncode == 1
    assert f"session {key}: released: permission denied for table day_schedule" in refused.stderr
    assert "SECURITY DEFINER" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert contracts.rows("select starts, error from HOME.capture_session") == [(0, None)]
    assert contracts.one("select count(*) from HOME.schedule_version") == 0
    contracts.owner.execute(f"grant insert on schedule_ingest.day_schedule to {contracts.worker}".encode())
    assert contracts.main().returncode == 0  # at once: the lease was given back
    assert contracts.rows("select state::text from HOME.capture_session") == [("done",)]


def test_a_worker_without_rights_to_schema_duly_names_the_grants(site: Site) -> None:
    site.build(CONTRACT)
    grants = site.add_leases()
    site.revoke([grant.removesuffix(";") for grant in grants if "duly" in grant])
    refused = site.main()
    assert refused.returncode == 1
    assert f"run: grant usage on schema duly to {site.worker}" in refused.stderr
    assert f"grant select, insert, update, delete on duly.workers to {site.worker}" in refused.stderr


@pytest.mark.parametrize(
    ("revoked", "named"),
    [(SNAPSHOTS, SNAPSHOTS_GRANT), (POINTERS, "permission denied for table day_schedule")],
    ids=["seen at the start", "met while it works"],
)
def test_the_polling_worker_without_a_privilege_releases_logs_the_grant_once_and_waits(
    revoked: str, named: str, contracts: Site
) -> None:
    contracts.owner.execute(revoked.format(contracts.worker).encode())
    key = contracts.wait()
    contracts.owner.execute("update schedule_ingest.capture_session set closed_at = now()")
    contracts.fixture.write_text(json.dumps(A))
    tuning = {"WORKER_POLL_SECONDS": "0.05", "DULY_SWEEP_SECONDS": "0.05"}
    environment = contracts.environment(WORKER_INPUT_MODE="fixture", **tuning)
    with Program([*PYTHON, "-m", "duly", "worker", "--only", "ingest"], environment=environment) as worker:
        while "ingest.claims_paused" not in (paused := worker.line()):
            pass
        assert named.format(contracts.worker) in paused
        worker.process.send_signal(signal.SIGTERM)
        while "worker.stopped" not in (line := worker.line()):
            assert "ingest.claims_paused" not in line
        assert worker.finish() == 0, worker.stderr_text()
    assert contracts.rows("select id, starts, error from HOME.capture_session") == [(key, 0, None)]


def test_a_misspelt_schema_is_refused_naming_its_setting(contracts: Site) -> None:
    contracts.wait()
    refused = contracts.main(DB_SCHEMA="schedule_ingets")
    assert refused.returncode == 1
    assert "DB_SCHEMA=schedule_ingets: there is no table schedule_ingets.capture_session" in refused.stderr
    assert "this database has one in schedule_ingest: set DB_SCHEMA to that" in refused.stderr


def test_main_processes_a_session_of_a_phase_3_backend(site: Site) -> None:
    site.build(PHASE_3)
    site.add_leases()
    key = site.wait()
    done = site.main()
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(
        f"duly: session {key}: 2026-02-10 version 1 written (0 events, 0 messages, input: fixture)\n"
    )
    assert site.rows("select version, session_id from HOME.schedule_version") == [(1, key)]


# What differs ---------------------------------------------------------------------------------------------------------

NOT_ASKED = {  # of the log and the delivery that only ours have
    "captures_are_finished_by_their_lease_owner",
    "captures_are_leased_exactly_while_processing",
    "captures_match_the_end_of_their_log",
    "captures_follow_their_state_machine",
    "expired_leases_of_captures_are_recovered",
    "starts_of_captures_match_their_log",
    "changed_days_have_events",
    "notifications_are_leased_exactly_while_sending",
    "notifications_are_sent_by_their_lease_owner",
    "notifications_follow_their_state_machine",
    "expired_leases_of_notifications_are_recovered",
    "notifications_match_their_delivery",
    "starts_of_notifications_match_their_log",
}


@pytest.mark.parametrize("made_by", [*BACKENDS, PHASE_3], ids=str)
def test_verify_compares_a_backends_tables_with_the_contract(made_by: Backend, site: Site) -> None:
    site.build(made_by)
    site.add_leases()
    site.capture()
    settings = {"PENDING_STATE": made_by.pending}
    found = site.duly("verify", "--json", **settings)
    assert found.returncode == 0, found.stdout + found.stderr
    answer = json.loads(found.stdout)
    assert answer["differences"] == []
    assert [each for each in answer["violations"] if each["kind"] == "broken"] == []
    unchecked = {each["invariant"] for each in answer["violations"]}
    assert unchecked >= NOT_ASKED if made_by is PHASE_3 else unchecked == NOT_ASKED
    printed = site.duly("verify", **settings)
    assert printed.returncode == 0
    assert "contracts ingest (a backend's tables)" in printed.stdout
    assert "0 differences, 0 violations" in printed.stdout


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ("alter table schedule_ingest.capture_session drop locked_by", "column capture_session.locked_by text null"),
        (
            "alter table schedule_ingest.day_schedule alter current_version type bigint",
            "column day_schedule.current_version integer not null",
        ),
        (
            "alter table schedule_ingest.schedule_event alter event_type drop not null",
            "column schedule_event.event_type text not null",
        ),
        (
            "alter table schedule_ingest.capture_session alter locked_by set not null",
            "column capture_session.locked_by text null",
        ),
        ('drop index schedule_ingest."UX_schedule_version_session"', "unique key of schedule_version (session_id)"),
        (
            'alter table schedule_ingest.capture_image drop constraint "FK_capture_image_session"',
            "foreign key of capture_image (session_id) to capture_session (id)",
        ),
        (
            "drop trigger zz_duly_advances_the_day on schedule_ingest.schedule_version",
            "trigger zz_duly_advances_the_day on schedule_version: run the lease migration",
        ),
        (
            'drop index schedule_ingest."UX_schedule_event_dedupe"',
            "unique key of schedule_event (user_id, schedule_date, location_fingerprint, event_type, old_value_hash,"
            " new_value_hash), with or without source_session_id",
        ),
    ],
    ids=["column", "type", "may be empty", "may not be empty", "key", "reference", "trigger", "events' key"],
)
def test_verify_names_what_the_contract_has_and_a_backend_lacks(change: str, line: str, contracts: Site) -> None:
    contracts.owner.execute(change.encode())
    found = contracts.duly("verify", "--contract", "ingest", "--json")
    assert found.returncode == PROBLEMS_FOUND, found.stderr
    assert [each["line"] for each in json.loads(found.stdout)["differences"]] == [line]


def test_verify_names_a_column_that_no_worker_fills(contracts: Site) -> None:
    contracts.owner.execute("alter table schedule_ingest.schedule_version add tenant text not null")
    found = json.loads(contracts.duly("verify", "--contract", "ingest", "--json").stdout)
    assert [(each["kind"], each["line"]) for each in found["differences"]] == [
        ("unexpected", "column schedule_version.tenant, not null and without a default: workers do not set it")
    ]


def test_verify_accepts_the_change_lost_by_the_unique_key_of_a_backend(contracts: Site) -> None:
    for day in (A, B, A, B):
        contracts.capture(day)
    assert contracts.duly("verify", "--contract", "ingest").returncode == 0


def test_verify_finds_violations_in_the_tables_of_a_backend(owners: Site) -> None:
    owners.add_leases("-v", "event_key=replace")
    owners.capture()
    owners.owner.execute("delete from schedule_ingest.schedule_event")
    answer = owners.duly("verify", "--contract", "ingest", "--json", PENDING_STATE="closed")
    assert answer.returncode == PROBLEMS_FOUND
    broken = {each["invariant"] for each in json.loads(answer.stdout)["violations"] if each["kind"] == "broken"}
    assert broken == {"events_rebuild_their_day", "events_of_a_day_are_counted", "notifications_are_about_events"}


def test_verify_works_before_the_lease_script_has_run(site: Site) -> None:
    site.build(OWNERS)
    found = site.duly("verify", "--contract", "ingest", "--json", PENDING_STATE="closed")
    assert found.returncode == PROBLEMS_FOUND, found.stderr
    answer = json.loads(found.stdout)
    assert "column capture_session.lease_seconds double precision null: run the lease migration" in {
        each["line"] for each in answer["differences"]
    }
    assert {each["kind"] for each in answer["violations"]} == {"unchecked"}


@pytest.mark.parametrize("made_by", [CONTRACT, PHASE_3], ids=str)
def test_doctor_finds_no_problem_in_the_database_of_a_backend(made_by: Backend, site: Site) -> None:
    site.build(made_by)
    site.add_leases()
    site.capture()
    examined = site.duly("doctor", "--json", DATABASE_URL=site.worker_dsn)
    findings = {each["check"]: each for each in json.loads(examined.stdout)}
    assert examined.returncode == 0, examined.stdout
    assert not [each for each in findings.values() if "duly migrate" in (each["fix"] or "")]
    for check in ("schema", "contracts", "roles", "row security", "messages", "posts"):
        assert findings[check]["verdict"] == "ok", findings[check]


def test_doctor_names_the_grant_that_a_worker_lacks(contracts: Site) -> None:
    contracts.owner.execute(SNAPSHOTS.format(contracts.worker).encode())
    examined = contracts.duly("doctor", "--json", DATABASE_URL=contracts.worker_dsn)
    assert examined.returncode == PROBLEMS_FOUND
    (bad,) = [each for each in json.loads(examined.stdout) if each["verdict"] == "bad"]
    assert (bad["check"], bad["fix"]) == ("roles", SNAPSHOTS_GRANT.format(contracts.worker))


WITHOUT_INGEST = tuple(each for each in newest_revisions() if not each.startswith("ingest"))

# Migrating afterwards -------------------------------------------------------------------------------------------------


@for_each_backend
def test_duly_can_be_migrated_beside_the_backend(backend: Site, worker_id: str) -> None:
    backend.capture()
    before = fingerprint(backend.owner, (backend.schema,))
    names = Names(*our_roles(worker_id), ingest=backend.schema)
    assert migrate(backend.owner_dsn, names) == WITHOUT_INGEST
    assert migrate(backend.owner_dsn, names) == WITHOUT_INGEST
    assert fingerprint(backend.owner, (backend.schema,)) == before
    roles = {f"DULY_{part.upper()}_ROLE": getattr(names, part) for part in OTHERS}
    for contract in ("duly", "ledger", "posts"):
        found = backend.duly("verify", "--contract", contract, **roles)
        assert found.returncode == 0, found.stdout + found.stderr
    backend.wait()
    done = backend.main(B, **roles)  # the login that worked before works on
    assert done.returncode == 0, done.stderr
    assert backend.rows("select version from HOME.schedule_version order by version") == [(1,), (2,)]
    assert backend.psql().returncode == 0
    for command in ("verify", "doctor"):
        found = backend.duly(command, PENDING_STATE=backend.backend.pending, **roles)
        assert found.returncode == 0, found.stdout + found.stderr
    assert migrate(backend.owner_dsn, names, to="engine@base") == ()
    assert fingerprint(backend.owner, (backend.schema,)) == before


@pytest.mark.parametrize("is_migrated", [False, True], ids=["beside the small schema", "beside duly"])
def test_a_login_that_got_the_printed_grants_later_can_work(
    is_migrated: bool, contracts: Site, server: str, worker_id: str
) -> None:
    """The grants that were printed are enough, no matter who made the schema `duly` meanwhile."""
    grants = contracts.add_leases()
    names = Names(*our_roles(worker_id))
    if is_migrated:
        migrate(contracts.owner_dsn, names)
    late = f"late_{worker_id}"
    with psycopg.connect(make_conninfo(server, dbname=contracts.owner.info.dbname), autocommit=True) as admin:
        admin.execute(f"create role {late} login".encode())
        try:
            for grant in grants:
                admin.execute(grant.replace(contracts.worker, late).encode())
            contracts.worker_dsn = make_conninfo(contracts.worker_dsn, user=late)
            contracts.wait()
            done = contracts.main(DULY_WORKER_ROLE=names.worker)
            assert done.returncode == 0, done.stderr
        finally:
            admin.execute(f"drop owned by {late}".encode())
            admin.execute(f"drop role {late}".encode())


def test_a_login_on_a_public_schema_does_not_switch_to_the_worker_role(contracts: Site, worker_id: str) -> None:
    contracts.owner.execute("grant usage on schema schedule_ingest to public")
    names = Names(*our_roles(worker_id))
    migrate(contracts.owner_dsn, names)
    contracts.wait()
    done = contracts.main(DULY_WORKER_ROLE=names.worker)
    assert done.returncode == 0, done.stderr


def test_a_worker_logged_in_as_owner_keeps_working_after_a_migration(
    contracts: Site, server: str, worker_id: str
) -> None:
    contracts.worker_dsn = contracts.owner_dsn
    contracts.capture()
    names = Names(*our_roles(worker_id))
    migrate(make_conninfo(server, dbname=contracts.owner.info.dbname), names)
    contracts.wait()
    done = contracts.main(B, DULY_WORKER_ROLE=names.worker)
    assert done.returncode == 0, done.stderr


def test_a_login_that_may_not_replace_the_schema_gets_an_error_that_names_the_owner(
    owners: Site, server: str, worker_id: str
) -> None:
    login, database = sql.Identifier(owners.worker), owners.owner.info.dbname
    with psycopg.connect(make_conninfo(server, dbname=database), autocommit=True) as admin:
        admin.execute(sql.SQL("alter role {} createrole").format(login))
        admin.execute(sql.SQL("grant create on database {} to {}").format(sql.Identifier(database), login))
    with pytest.raises(Misconfigured, match=f"migrate as the role .*backend_{worker_id}"):
        migrate(owners.worker_dsn, Names(*our_roles(worker_id)))
    assert owners.capture()
