"""Tables that a backend owns: one script adds what a worker needs, the owner's rules stay, and a worker works."""

import json
import signal
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from duly.db.fingerprint import fingerprint
from duly.db.migrate import migrate, newest_revision
from duly.db.migrations import Names
from duly.errors import Misconfigured
from tests.fast.ingest.test_backend import (
    BACKENDS,
    OTHERS,
    SCRIPT_FAILED,
    A,
    B,
    Site,
    backend,
    of_each_kind,
    our_roles,
    owners,
    site,
    site_on,
)
from tests.support.backends import OWNERS, PLAIN, Backend
from tests.support.processes import PYTHON, Program

__all__ = ["backend", "owners", "site"]
SESSION_FAILED = 0
PROBLEMS_FOUND = 1


# The script -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made_by", BACKENDS, ids=str)
def test_the_script_runs_on_every_major_version_and_twice_is_once(
    made_by: Backend, server: str, worker_id: str, tmp_path: Path
) -> None:
    with site_on(server, worker_id, tmp_path) as site:
        site.build(made_by)
        before = site.lines()
        assert (site.psql().returncode, site.psql().stderr) == (0, "")
        after = site.lines()
        assert (site.psql().returncode, site.lines()) == (0, after)
        gone = [line for line in before if line not in after]
        assert all("schedule_event" in line and "old_value_hash" in line for line in gone), gone
        assert len(gone) == (2 if made_by is OWNERS else 1)  # the key that was replaced, and its index
        site.capture()
        assert site.rows("select state::text from HOME.capture_session") == [("done",)]


def test_it_adds_to_another_schema_by_its_name(site: Site) -> None:
    site.schema = "rota"
    site.build(PLAIN)
    wrong = site.psql()
    assert wrong.returncode == SCRIPT_FAILED
    assert 'the schema "schedule_ingest" has no table capture_image, capture_session, day_schedule' in wrong.stderr
    site.add_leases()
    site.capture()
    assert site.rows("select version from HOME.schedule_version") == [(1,)]


def test_a_worker_without_it_says_what_to_run(site: Site) -> None:
    site.build(OWNERS)
    site.wait()
    refused = site.main()
    assert refused.returncode == 1
    assert "database/migrations/20260212_add_session_leases.sql" in refused.stderr
    assert "Traceback" not in refused.stderr


# A worker -------------------------------------------------------------------------------------------------------------


def test_a_capture_is_written_down(backend: Site) -> None:
    key = backend.capture()
    assert backend.rows("select id, state::text, error, locked_at, locked_by from HOME.capture_session") == [
        (key, "done", None, None, None)
    ]
    assert backend.rows("select version, session_id, canonicalizer from HOME.schedule_version") == [(1, key, 1)]
    assert backend.rows("select current_version from HOME.day_schedule") == [(1,)]
    assert backend.rows("select event_type, seq from HOME.schedule_event") == [("shift_added", 1)]
    assert backend.rows("select status, notification_type from HOME.schedule_notification") == [("pending", "event")]
    assert backend.rows("select source_session_id, events from HOME.day_snapshot") == [(key, 1)]
    assert backend.is_rebuilt()
    again = backend.main()
    assert (again.returncode, "0 rows" in again.stdout) == (0, True)


def test_a_day_that_goes_there_and_back_and_there_again_has_every_change(backend: Site) -> None:
    for day in (A, B, A, B, B):
        backend.capture(day)
    assert backend.rows("select version from HOME.schedule_version order by version") == [(1,), (2,), (3,), (4,)]
    assert backend.rows("select current_version from HOME.day_schedule") == [(4,)]
    assert backend.one("select count(*) from HOME.schedule_event") == 4
    assert backend.one("select count(*) from HOME.schedule_notification") == 4
    assert backend.one("select count(*) from HOME.capture_session where state = 'done'") == 5
    assert backend.is_rebuilt()


@of_each_kind
def test_the_endless_worker_takes_what_is_complete(backend: Site) -> None:
    """A session that the owner closed; or, where nobody closes, one whose last image is idle."""
    key = backend.wait()
    if backend.backend is PLAIN:
        backend.owner.execute(
            "insert into schedule_ingest.capture_image (session_id, sequence, r2_key) values (%s, 1, 'one')", [key]
        )
    backend.fixture.write_text(json.dumps(A))
    environment = backend.environment(
        WORKER_INPUT_MODE="fixture", SESSION_IDLE_TIMEOUT_SECONDS="0", WORKER_POLL_SECONDS="0.1"
    )
    with Program([*PYTHON, "-m", "duly", "worker", "--only", "ingest"], environment=environment) as worker:
        while not ("worker.iteration.end" in (line := worker.line()) and json.loads(line)["sessions"]):
            pass
        assert worker.finish(signal.SIGTERM) == 0, worker.said()
    assert backend.rows("select id, state::text from HOME.capture_session") == [(key, "done")]
    assert backend.rows("select current_version from HOME.day_schedule") == [(1,)]


def test_what_cannot_be_read_fails_by_the_owners_rules(owners: Site) -> None:
    owners.wait()
    done = owners.main({"schedule_date": "never"})
    assert done.returncode == SESSION_FAILED
    ((state, error),) = owners.rows("select state::text, error from HOME.capture_session")
    assert state == "failed"
    assert error.startswith("schedule_date")
    assert owners.one("select count(*) from HOME.schedule_version") == 0


def test_a_session_that_is_still_open_is_left_alone(owners: Site) -> None:
    owners.owner.execute("insert into schedule_ingest.capture_session (user_id) values (42)")
    assert owners.main().returncode == 0
    assert owners.rows("select state::text, starts from HOME.capture_session") == [("open", 0)]


def test_a_state_that_the_owner_does_not_know_is_refused_by_its_setting(site: Site) -> None:
    site.build(PLAIN)
    site.add_leases()
    refused = site.main(PENDING_STATE="closed")
    assert refused.returncode == 1
    assert "PENDING_STATE=closed: capture_session knows pending, processing, done, failed" in refused.stderr


@of_each_kind
@pytest.mark.parametrize(
    ("locked_at", "is_taken"),
    [("null", True), ("now() - interval '301 s'", True), ("now() - interval '290 s'", False)],
)
def test_what_another_worker_let_lapse_is_taken_over(backend: Site, locked_at: str, is_taken: bool) -> None:
    """A worker that knows nothing of ours writes its name and the time, if that; the length of its lease is ours."""
    backend.wait()
    backend.owner.execute(
        f"update {backend.schema}.capture_session set state = 'processing', locked_by = 'worker-1',"
        f" locked_at = {locked_at}".encode()
    )
    assert backend.main(LEASE_TIMEOUT_SECONDS="300").returncode == 0
    assert backend.one("select state::text from HOME.capture_session") == ("done" if is_taken else "processing")


def test_a_session_that_kills_its_worker_ends_as_failed(owners: Site) -> None:
    owners.wait()
    owners.owner.execute(
        "update schedule_ingest.capture_session set state = 'processing', locked_by = 'worker-1', starts = 5,"
        " locked_at = now() - interval '1 hour'"
    )
    assert owners.main().returncode == 0
    ((state, error),) = owners.rows("select state::text, error from HOME.capture_session")
    assert (state, error.startswith("It was started too often")) == ("failed", True)


# What differs ---------------------------------------------------------------------------------------------------------


@of_each_kind
def test_verify_says_what_differs_there(backend: Site) -> None:
    backend.capture()
    found = backend.duly("verify", "--contract", "ingest", "--json")
    assert found.returncode == PROBLEMS_FOUND, found.stderr
    answer = json.loads(found.stdout)
    lines = {(each["kind"], each["line"]) for each in answer["differences"]}
    assert ("missing", "column schedule_ingest.capture_session.revision bigint not null default 0") in lines
    assert any(kind == "unexpected" and "zz_duly_advances_the_day" in line for kind, line in lines)
    assert [each["invariant"] for each in answer["offences"] if each["kind"] == "broken"] == []
    assert {each["invariant"] for each in answer["offences"]} == {  # of the log and the delivery that only ours have
        "captures_are_finished_by_their_holder",
        "captures_are_held_exactly_while_processing",
        "captures_are_where_their_log_ends",
        "captures_move_as_drawn",
        "captures_of_the_dead_are_taken_up",
        "captures_started_as_often_as_their_log_tells",
        "notifications_are_held_exactly_while_sending",
        "notifications_are_sent_by_their_holder",
        "notifications_move_as_drawn",
        "notifications_of_the_dead_are_taken_up",
        "notifications_say_what_became_of_them",
        "notifications_started_as_often_as_their_log_tells",
    }
    told = backend.duly("verify", "--contract", "ingest")
    assert told.returncode == PROBLEMS_FOUND
    assert "0 offences" in told.stdout


def test_verify_finds_what_is_broken_there(owners: Site) -> None:
    owners.capture()
    owners.owner.execute("delete from schedule_ingest.schedule_event")
    found = json.loads(owners.duly("verify", "--contract", "ingest", "--json").stdout)
    broken = {each["invariant"] for each in found["offences"] if each["kind"] == "broken"}
    assert broken == {"events_rebuild_their_day", "events_of_a_day_are_counted", "notifications_are_about_events"}


def test_verify_works_before_the_script_has_run(site: Site) -> None:
    site.build(OWNERS)
    found = site.duly("verify", "--contract", "ingest", "--json")
    assert found.returncode == PROBLEMS_FOUND, found.stderr
    answer = json.loads(found.stdout)
    assert "missing" in {each["kind"] for each in answer["differences"]}
    assert {each["kind"] for each in answer["offences"]} == {"unasked"}


# Migrating afterwards -------------------------------------------------------------------------------------------------


@of_each_kind
def test_duly_can_be_migrated_beside_the_backend(backend: Site, worker_id: str) -> None:
    backend.capture()
    before = fingerprint(backend.owner, (backend.schema,))
    names = Names(*our_roles(worker_id), ingest=backend.schema)
    assert migrate(backend.owner_dsn, names) == newest_revision()
    assert migrate(backend.owner_dsn, names) == newest_revision()
    assert fingerprint(backend.owner, (backend.schema,)) == before
    roles = {f"DULY_{part.upper()}_ROLE": getattr(names, part) for part in OTHERS}
    for contract in ("duly", "ledger", "posts"):
        found = backend.duly("verify", "--contract", contract, **roles)
        assert found.returncode == 0, found.stdout + found.stderr
    backend.worker_dsn = backend.owner_dsn  # who migrated may use what duly made
    backend.wait()
    done = backend.main(B, **roles)
    assert done.returncode == 0, done.stderr
    assert backend.rows("select version from HOME.schedule_version order by version") == [(1,), (2,)]
    assert backend.psql().returncode == 0
    assert migrate(backend.owner_dsn, names, to="base") is None
    assert fingerprint(backend.owner, (backend.schema,)) == before


def test_whoever_may_not_replace_the_little_schema_is_told_who_may(owners: Site, server: str, worker_id: str) -> None:
    login, database = sql.Identifier(owners.worker), owners.owner.info.dbname
    with psycopg.connect(make_conninfo(server, dbname=database), autocommit=True) as admin:
        admin.execute(sql.SQL("alter role {} createrole").format(login))
        admin.execute(sql.SQL("grant create on database {} to {}").format(sql.Identifier(database), login))
    with pytest.raises(Misconfigured, match=f"migrate as the role .*backend_{worker_id}"):
        migrate(owners.worker_dsn, Names(*our_roles(worker_id)))
    assert owners.capture()
