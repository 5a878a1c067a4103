"""Tables that a backend owns: one script adds what a worker needs, the owner's rules stay, and a worker works."""

import json
import shutil
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import AsyncConnection, sql
from psycopg.conninfo import make_conninfo

from duly.db.embedded import EmbeddedServer
from duly.db.fingerprint import fingerprint
from duly.db.migrate import migrate, newest_revision
from duly.db.migrations import Names
from duly.db.pool import connect
from duly.db.supabase import compile_migrations
from duly.errors import Misconfigured
from duly.ingest.diff import replay
from duly.ingest.machine import States
from duly.ingest.reading import FixtureReader
from duly.ingest.shift import read_shift
from duly.ingest.work import CaptureWork, Rules
from duly.kernel.lease import Lease
from duly.kernel.work import Finished, Pace
from duly.launcher import ROOT
from duly.testing import TestDatabases
from tests.ingest.hands import see
from tests.ingest.strategies import payload
from tests.support.backends import OWNERS, PLAIN, PLAIN_WITH_POINTER, Backend
from tests.support.processes import PYTHON, Program, plain_environment

SCRIPT = ROOT / "database" / "migrations" / "20260212_add_session_leases.sql"
BACKENDS = (OWNERS, PLAIN, PLAIN_WITH_POINTER)
of_each_kind = pytest.mark.parametrize("backend", [OWNERS, PLAIN], ids=str, indirect=True)
ENTRY: dict[str, Any] = {
    "start": "10:00",
    "end": "14:00",
    "title": "Anna Svensson • Städning",
    "address": "Storgatan 1, 412 58 Göteborg",
}
A, B = payload(ENTRY), payload({**ENTRY, "start": "11:00"})
SESSION_FAILED = 0
PROBLEMS_FOUND = 1
SCRIPT_FAILED = 3  # how psql says it


class Site:
    """A database of a backend's, as its owner sees it, with a login for the worker; neither is a superuser."""

    def __init__(self, dsn: str, owner: str, worker: str, directory: Path, *, schema: str = "schedule_ingest") -> None:
        self.schema = schema
        self.owner_dsn = make_conninfo(dsn, user=owner)
        self.worker_dsn = make_conninfo(dsn, user=worker)
        self.worker = worker
        self.fixture = directory / "day.json"
        self.owner = psycopg.connect(self.owner_dsn, autocommit=True)

    def build(self, backend: Backend) -> None:
        """The owner makes its tables."""
        self.backend = backend
        self.owner.execute(backend.schema_sql(self.schema, self.worker).encode())

    def psql(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the script as its head says."""
        program = shutil.which("psql")
        assert program, "these tests need a psql"
        command = [program, self.owner_dsn, "-X", *arguments, "-f", str(SCRIPT)]
        return subprocess.run(command, capture_output=True, text=True, env=plain_environment())

    def add_leases(self) -> None:
        """The script has run."""
        done = self.psql("-v", f"schema={self.schema}")
        assert (done.returncode, done.stderr) == (0, "")

    def wait(self, user: int = 42) -> UUID:
        """A session that waits for a worker, made as the backend makes it."""
        key = self.one(f"insert into HOME.capture_session {self.backend.waiting} returning id", user)
        assert isinstance(key, UUID)
        return key

    def main(self, day: object = A, **settings: str) -> subprocess.CompletedProcess[str]:
        """`main.py` as a process, with this day for what it reads."""
        self.fixture.write_text(json.dumps(day))
        command, environment = [PYTHON[0], "main.py"], self.environment(**settings)
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)

    def environment(self, **settings: str) -> dict[str, str]:
        """What a worker is told of this place."""
        return plain_environment(
            DATABASE_URL=self.worker_dsn,
            FIXTURE_PAYLOAD_PATH=str(self.fixture),
            DB_SCHEMA=self.schema,
            **{"PENDING_STATE": self.backend.pending, **settings},
        )

    def duly(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """A command, as the owner."""
        environment = plain_environment(DATABASE_URL=self.owner_dsn, DB_SCHEMA=self.schema, **settings)
        command = [*PYTHON, "-m", "duly", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)

    def capture(self, day: object = A) -> UUID:
        """A session that was worked on."""
        key = self.wait()
        done = self.main(day)
        assert done.returncode == 0, done.stdout + done.stderr
        return key

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """What a statement answers, the schema filled in."""
        return self.owner.execute(statement.replace("HOME", self.schema).encode(), values).fetchall()

    def one(self, statement: str, *values: object) -> Any:
        """The one value that it answers."""
        ((value,),) = self.rows(statement, *values)
        return value

    def lines(self) -> list[str]:
        """Everything that makes behaviour in its schema."""
        return fingerprint(self.owner, (self.schema, "duly"))

    def is_rebuilt(self) -> bool:
        """Do the events of the only day rebuild it?"""
        events = self.rows("select old_value, new_value from HOME.schedule_event order by seq")
        known = self.one("select snapshot_payload from HOME.day_snapshot")
        return replay((old, new) for old, new in events) == sorted(map(read_shift, known), key=lambda each: each.order)


@contextmanager
def site_on(server: str, worker_id: str, directory: Path) -> Generator[Site, None, None]:
    """An empty database, and two logins that end with it."""
    databases = TestDatabases(server, f"duly_test_backend_{worker_id}", template="template0")
    roles = [f"backend_{worker_id}", f"ocr_{worker_id}"]
    with databases.clone(worker_id) as dsn, psycopg.connect(dsn, autocommit=True) as admin:
        for role in roles:
            admin.execute(sql.SQL("create role {} login").format(sql.Identifier(role)))
        name, owner = sql.Identifier(admin.info.dbname), sql.Identifier(roles[0])
        admin.execute(sql.SQL("alter role {} createrole").format(owner))
        admin.execute(sql.SQL("grant create on database {} to {}").format(name, owner))
        site = Site(dsn, roles[0], roles[1], directory)
        try:
            yield site
        finally:
            site.owner.close()
            for role in [*our_roles(worker_id), *roles]:
                if admin.execute("select from pg_roles where rolname = %s", [role]).fetchone() is not None:
                    admin.execute(sql.SQL("drop owned by {} cascade").format(sql.Identifier(role)))
                    admin.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))


OTHERS = ("owner", "worker", "api", "readonly")


def our_roles(worker_id: str) -> list[str]:
    """The names of our roles on this site: those of the server belong to somebody else."""
    return [f"backend_duly_{part}_{worker_id}" for part in OTHERS]


@pytest.fixture
def site(server: str, worker_id: str, tmp_path: Path) -> Generator[Site, None, None]:
    """A database without any table."""
    with site_on(server, worker_id, tmp_path) as found:
        yield found


@pytest.fixture(params=BACKENDS, ids=str)
def backend(request: pytest.FixtureRequest, site: Site) -> Site:
    """Each backend in turn, with what the script adds."""
    site.build(request.param)
    site.add_leases()
    return site


@pytest.fixture
def owners(site: Site) -> Site:
    """The backend with states and triggers of its own."""
    site.build(OWNERS)
    site.add_leases()
    return site


# The script -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made_by", BACKENDS, ids=str)
def test_the_script_runs_on_every_major_version_and_twice_is_once(
    made_by: Backend, server_of_each_major: EmbeddedServer, worker_id: str, tmp_path: Path
) -> None:
    with site_on(server_of_each_major.dsn(), worker_id, tmp_path) as site:
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


def test_without_the_tables_it_says_which_and_changes_nothing(site: Site) -> None:
    site.build(PLAIN)
    site.owner.execute("drop table schedule_ingest.day_snapshot")
    before = site.lines()
    refused = site.psql()
    assert refused.returncode == SCRIPT_FAILED
    assert 'the schema "schedule_ingest" has no table day_snapshot' in refused.stderr
    assert "psql -v schema=NAME" in refused.stderr
    assert site.lines() == before


@pytest.mark.parametrize("name", ["x; drop schema schedule_ingest cascade", 'a"b', "a'b", "", "%I", "$tables$"])
def test_a_hostile_name_of_a_schema_is_only_a_name(name: str, site: Site) -> None:
    site.build(PLAIN)
    before = site.lines()
    refused = site.psql("-v", f"schema={name}")
    assert refused.returncode == SCRIPT_FAILED
    assert f'the schema "{name}" has no table' in refused.stderr
    assert site.lines() == before


def test_on_tables_that_duly_made_it_has_nothing_to_add(database: str) -> None:
    with psycopg.connect(database) as admin:
        before = fingerprint(admin, ("schedule_ingest", "duly"))
    program = shutil.which("psql")
    assert program
    subprocess.run([program, database, "-X", "-f", str(SCRIPT)], check=True, capture_output=True)
    with psycopg.connect(database) as admin:
        assert fingerprint(admin, ("schedule_ingest", "duly")) == before


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


def work_of(site: Site) -> CaptureWork:
    """The same work in this process, for what needs a worker that is stopped in the middle."""
    site.fixture.write_text(json.dumps(A))
    pace = Pace(lease_seconds=60, heartbeat_seconds=15)
    states = States(pending=site.backend.pending)
    return CaptureWork(FixtureReader(site.fixture), pace, Rules(site.schema, states, due="created_at"))


async def finish(connection: AsyncConnection[Any], work: CaptureWork, leases: list[Lease]) -> frozenset[UUID]:
    """See and settle, in one transaction."""
    finished = [Finished(lease, await see(work, lease)) for lease in leases]
    async with connection.transaction():
        return await work.settle(connection, finished)


async def test_a_worker_that_lost_its_session_writes_nothing(backend: Site) -> None:
    key, work = backend.wait(), work_of(backend)
    async with await connect(backend.worker_dsn) as connection:
        stale = await work.claim(connection, "worker-1", 1)
        backend.owner.execute(
            f"update {backend.schema}.capture_session set locked_at = now() - interval '61 s'".encode()
        )
        taken = await work.claim_lapsed(connection, "worker-1", 1)
        assert [lease.key for lease in (*stale, *taken)] == [key, key]
        assert await finish(connection, work, stale) == frozenset()
        assert backend.one("select count(*) from HOME.schedule_version") == 0
        assert await finish(connection, work, taken) == {key}
    assert backend.rows("select version from HOME.schedule_version") == [(1,)]


@of_each_kind
async def test_the_claim_finds_its_index(backend: Site) -> None:
    """However many sessions there are, and whatever is ready is called."""
    with backend.owner.cursor() as cursor:
        insert = f"insert into {backend.schema}.capture_session {backend.backend.waiting}"
        cursor.executemany(insert.encode(), [[user] for user in range(5000)])
    backend.owner.execute(f"analyze {backend.schema}.capture_session".encode())
    plan = backend.rows(
        "explain select id from HOME.capture_session where state = %s and created_at <= duly.now()"
        " order by created_at, id limit 10",
        backend.backend.pending,
    )
    assert "idx_capture_session__state_created_at_id" in str(plan)


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


def test_the_files_for_supabase_apply_beside_the_backend(owners: Site, server: str, worker_id: str) -> None:
    """With a guest whom they shut out of our schemas; the backend's are not ours to shut."""
    owners.owner.execute("create role anon")
    try:
        owners.owner.execute("grant usage on schema schedule_ingest to anon")
        before = fingerprint(owners.owner, (owners.schema,))
        for text in compile_migrations(Names(*our_roles(worker_id))).values():
            owners.owner.execute(text.encode())
        assert fingerprint(owners.owner, (owners.schema,)) == before
        assert "anon" not in str(fingerprint(owners.owner, ("duly", "user", "ledger", "posts")))
    finally:
        with psycopg.connect(make_conninfo(server, dbname=owners.owner.info.dbname), autocommit=True) as admin:
            admin.execute("drop owned by anon")
            admin.execute("drop role anon")


def test_whoever_may_not_replace_the_little_schema_is_told_who_may(owners: Site, server: str, worker_id: str) -> None:
    login, database = sql.Identifier(owners.worker), owners.owner.info.dbname
    with psycopg.connect(make_conninfo(server, dbname=database), autocommit=True) as admin:
        admin.execute(sql.SQL("alter role {} createrole").format(login))
        admin.execute(sql.SQL("grant create on database {} to {}").format(sql.Identifier(database), login))
    with pytest.raises(Misconfigured, match=f"migrate as the role .*backend_{worker_id}"):
        migrate(owners.worker_dsn, Names(*our_roles(worker_id)))
    assert owners.capture()
