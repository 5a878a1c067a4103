"""Tables that a backend owns: one script adds what a worker needs, the owner's rules stay, and a worker works."""

import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import AsyncConnection, errors, sql
from psycopg.conninfo import make_conninfo

from duly.apps.ingest.diff import replay
from duly.apps.ingest.reading import CaptureInput, FixtureReader
from duly.apps.ingest.shift import shift_from_json
from duly.apps.ingest.states import States
from duly.apps.ingest.table_support import TableSupport
from duly.apps.ingest.work import CaptureOptions, CaptureWork
from duly.db.fingerprint import fingerprint
from duly.db.migrations import Names
from duly.db.pool import connect, open_pool
from duly.db.privileges import TABLES, format_grants, required_privileges
from duly.errors import InvalidArgument, NotMigrated
from duly.launcher import ROOT
from duly.lease.operations import Lease, renew_leases
from duly.lease.work import LeaseOutcome, Tuning
from duly.outcomes import failure_from_exception
from duly.testing import TestDatabases
from duly.worker.registry import WorkerIdentity, note_seen, note_stopped, register
from tests.fast.apps.ingest.test_several_days import MONDAY, TUESDAY, Photographs, page
from tests.support.backends import CONTRACT, OWNERS, PHASE_3, PLAIN, PLAIN_WITH_POINTER, Backend
from tests.support.ingest.actions import read_session
from tests.support.ingest.strategies import payload
from tests.support.locks import supabase_turn
from tests.support.processes import PYTHON, plain_environment
from tools.supabase import compile_migrations

SCRIPT = ROOT / "database" / "migrations" / "20260212_add_session_leases.sql"
BACKENDS = (OWNERS, PLAIN, PLAIN_WITH_POINTER, CONTRACT)
for_each_backend = pytest.mark.parametrize("backend", [OWNERS, PLAIN], ids=str, indirect=True)
ENTRY: dict[str, Any] = {
    "start": "10:00",
    "end": "14:00",
    "title": "Anna Svensson • Städning",
    "address": "Storgatan 1, 412 58 Göteborg",
}
A, B = payload(ENTRY), payload({**ENTRY, "start": "11:00"})
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
        """Create the tables of the backend, as their owner."""
        self.backend = backend
        self.owner.execute(backend.schema_sql(self.schema).encode())

    def psql(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the script in the way that its header says."""
        program = shutil.which("psql")
        assert program, "these tests need a psql"
        command = [program, self.owner_dsn, "-X", *arguments, "-f", str(SCRIPT)]
        return subprocess.run(command, capture_output=True, text=True, env=plain_environment())

    def add_leases(self, *arguments: str) -> list[str]:
        """Run the script; grant the worker's login what it prints, and nothing else."""
        done = self.psql("-v", f"schema={self.schema}", "-v", f"worker={self.worker}", *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        grants = [line for line in done.stdout.splitlines() if not line.startswith("--")]
        for grant in grants:
            self.owner.execute(grant.encode())
        return grants

    def revoke(self, grants: Sequence[str]) -> None:
        """Revoke grants."""
        for grant in grants:
            privileges, _, rest = grant.partition(" on ")
            target, _, login = rest.rpartition(" to ")
            self.owner.execute(f"revoke {privileges.removeprefix('grant ')} on {target} from {login}".encode())

    def wait(self, user: int = 42) -> UUID:
        """Create a session that waits for a worker, as the backend does."""
        key = self.one(f"insert into HOME.capture_session {self.backend.waiting} returning id", user)
        assert isinstance(key, UUID)
        return key

    def main(self, day: object = A, **settings: str) -> subprocess.CompletedProcess[str]:
        """`main.py` as a process, with this day for what it reads."""
        self.fixture.write_text(json.dumps(day))
        command, environment = [PYTHON[0], "main.py"], self.environment(**settings)
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)

    def environment(self, **settings: str) -> dict[str, str]:
        """Return the environment of a worker on this site."""
        return plain_environment(
            DATABASE_URL=self.worker_dsn,
            FIXTURE_PAYLOAD_PATH=str(self.fixture),
            **{"DB_SCHEMA": self.schema, "PENDING_STATE": self.backend.pending, **settings},
        )

    def duly(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """A command, as the owner."""
        given = {"DATABASE_URL": self.owner_dsn, "DB_SCHEMA": self.schema, **settings}
        environment = plain_environment(**given)
        command = [*PYTHON, "-m", "duly", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)

    def capture(self, day: object = A) -> UUID:
        """Create a session and process it."""
        key = self.wait()
        done = self.main(day)
        assert done.returncode == 0, done.stdout + done.stderr
        return key

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, with the schema filled in."""
        return self.owner.execute(statement.replace("HOME", self.schema).encode(), values).fetchall()

    def one(self, statement: str, *values: object) -> Any:
        """Return the one value of a statement."""
        ((value,),) = self.rows(statement, *values)
        return value

    def lines(self) -> list[str]:
        """Everything that makes behaviour in its schema."""
        return fingerprint(self.owner, (self.schema, "duly"))

    def is_rebuilt(self) -> bool:
        """Do the events of the only day rebuild it?"""
        events = self.rows("select old_value, new_value from HOME.schedule_event order by seq")
        known = self.one("select snapshot_payload from HOME.day_snapshot")
        return replay((old, new) for old, new in events) == sorted(
            map(shift_from_json, known), key=lambda each: each.sort_key
        )


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
    """The names of our roles on this site: those of the server belong to other tests."""
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


def test_script_names_missing_tables_and_changes_nothing(site: Site) -> None:
    site.build(PLAIN)
    site.owner.execute("drop table schedule_ingest.day_snapshot")
    before = site.lines()
    result = site.psql()
    assert result.returncode == SCRIPT_FAILED
    assert 'the schema "schedule_ingest" has no table day_snapshot' in result.stderr
    assert "psql -v schema=NAME" in result.stderr
    assert site.lines() == before


@pytest.mark.parametrize("name", ["x; drop schema schedule_ingest cascade", 'a"b', "a'b", "", "%I", "$tables$"])
def test_hostile_schema_name_is_quoted(name: str, site: Site) -> None:
    site.build(PLAIN)
    before = site.lines()
    result = site.psql("-v", f"schema={name}")
    assert result.returncode == SCRIPT_FAILED
    assert f'the schema "{name}" has no table' in result.stderr
    assert site.lines() == before


def test_script_changes_nothing_on_tables_created_by_duly(database: str) -> None:
    with psycopg.connect(database) as admin:
        before = fingerprint(admin, ("schedule_ingest", "duly"))
    program = shutil.which("psql")
    assert program
    subprocess.run([program, database, "-X", "-f", str(SCRIPT)], check=True, capture_output=True)
    with psycopg.connect(database) as admin:
        assert fingerprint(admin, ("schedule_ingest", "duly")) == before


def work_of(site: Site, **rules: Any) -> CaptureWork:
    """The same work in this process, for what needs a worker that is stopped in the middle."""
    site.fixture.write_text(json.dumps(A))
    tuning = Tuning(lease_seconds=60, heartbeat_seconds=15)
    states = States(pending=site.backend.pending)
    rules.setdefault("due", "created_at")
    return CaptureWork(FixtureReader(site.fixture), tuning, CaptureOptions(site.schema, states, **rules))


async def finish(connection: AsyncConnection[Any], work: CaptureWork, leases: list[Lease]) -> frozenset[UUID]:
    """See and settle, in one transaction."""
    finished = [LeaseOutcome(lease, await read_session(work, lease)) for lease in leases]
    async with connection.transaction():
        return await work.settle(connection, finished)


async def test_a_worker_that_lost_its_session_writes_nothing(backend: Site) -> None:
    key, work = backend.wait(), work_of(backend)
    async with await connect(backend.worker_dsn) as connection:
        stale = await work.claim(connection, "worker-1", 1)
        backend.owner.execute(
            f"update {backend.schema}.capture_session set locked_at = now() - interval '61 s'".encode()
        )
        claimed = await work.claim_expired(connection, "worker-1", 1)
        assert [lease.key for lease in (*stale, *claimed)] == [key, key]
        assert await finish(connection, work, stale) == frozenset()
        assert backend.one("select count(*) from HOME.schedule_version") == 0
        assert await finish(connection, work, claimed) == {key}
    assert backend.rows("select version from HOME.schedule_version") == [(1,)]


@for_each_backend
async def test_claim_uses_its_index(backend: Site) -> None:
    """With any number of sessions, and any name of the ready state."""
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


def test_supabase_files_apply_beside_the_backend(owners: Site, server: str, worker_id: str) -> None:
    """Public roles lose access to our schemas, and keep that to the backend's."""
    with supabase_turn(server):
        owners.owner.execute("create role anon")
        try:
            owners.owner.execute("grant usage on schema schedule_ingest to anon")
            before = fingerprint(owners.owner, (owners.schema,))
            *ours, ingest = compile_migrations(Names(*our_roles(worker_id))).values()
            for text in ours:
                owners.owner.execute(text.encode())
            with pytest.raises(psycopg.errors.DuplicateTable, match="a backend owns it"):
                owners.owner.execute(ingest.encode())
            owners.owner.execute("reset role")
            assert fingerprint(owners.owner, (owners.schema,)) == before
            assert "anon" not in str(fingerprint(owners.owner, ("duly", "user", "ledger", "posts")))
        finally:
            with psycopg.connect(make_conninfo(server, dbname=owners.owner.info.dbname), autocommit=True) as admin:
                admin.execute("drop owned by anon")
                admin.execute("drop role anon")


# The grants -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event_key", ["keep", "replace"])
def test_script_prints_the_grants_that_a_worker_checks(event_key: str, site: Site) -> None:
    site.build(PLAIN)
    printed = site.add_leases("-v", f"event_key={event_key}")
    rights = required_privileges(site.schema, list(TABLES), reads_events=event_key == "keep")
    clocks = "execute on function duly.clock(), duly.now()"
    ours = [
        grant.replace("execute on function duly.clock()", clocks) + ";"
        for grant in format_grants(rights, site.worker)
        if "duly.now()" not in grant
    ]
    assert printed == ours


@for_each_backend
async def test_photographs_of_several_days_fail_where_a_backend_creates_sessions(backend: Site) -> None:
    key, work = backend.wait(), work_of(backend)
    work.reader = Photographs(page(MONDAY, "08:00"), page(TUESDAY, "09:00"))
    async with await connect(backend.worker_dsn) as connection, open_pool(backend.worker_dsn, size=1) as pool:
        await work.prepare(connection)
        work.use_handler_pool(pool)
        (lease,) = await work.claim(connection, "worker-1", 1)
        with pytest.raises(InvalidArgument) as result:
            await work.read(CaptureInput(key, lease.row["user_id"]), None)
        await work.settle(connection, [LeaseOutcome(lease, failure_from_exception(result.value))])
    assert backend.rows("select state::text, error from HOME.capture_session") == [
        (
            "failed",
            "schedule_date: the photographs show several days, 2026-09-07 and 2026-09-08; a session here accepts one "
            "day, so send each day by itself",
        )
    ]


async def do_everything(site: Site) -> None:
    """All that an endless worker does: a new day, a changed one, one that fails, one that is released."""
    work, identity = work_of(site, due="closed_at", idle_seconds=0), WorkerIdentity("worker-1", ["ingest"], {})
    work.recorder.support = TableSupport(has_contract_event_key=True)
    async with await connect(site.worker_dsn) as connection, connection.transaction(force_rollback=True):
        await register(connection, identity)
        await note_seen(connection, identity)
        for day in (A, B, {"schedule_date": "never"}):
            site.fixture.write_text(json.dumps(day))
            (lease,) = await work.claim(connection, "worker-1", 1)
            await renew_leases(connection, [lease], lease_seconds=60)
            await finish(connection, work, [lease])
        await work.release(connection, await work.claim(connection, "worker-1", 1))
        await work.claim_expired(connection, "worker-1", 1)
        await note_stopped(connection, identity)


def every_right(grants: Sequence[str]) -> list[str]:
    """Each privilege, of each column, by itself."""
    singles: list[str] = []
    for grant in grants:
        privileges, _, rest = grant.removeprefix("grant ").partition(" on ")
        for privilege in re.findall(r"\w+ \([^)]*\)|\w+", privileges):
            name, _, columns = privilege.partition(" (")
            names = [f"{name} ({column})" for column in columns.rstrip(")").split(", ")] if columns else [name]
            targets = [f"function {each}" for each in ("duly.clock()", "duly.now()")] if name == "execute" else [None]
            for one, target in itertools.product(names, targets):
                singles.append(f"grant {one} on {target or rest.rpartition(' to ')[0]} to {rest.rpartition(' to ')[2]}")
    return singles


async def test_worker_needs_exactly_the_printed_grants(site: Site) -> None:
    site.build(CONTRACT)
    singles = every_right(site.add_leases())
    site.owner.execute("revoke execute on function duly.clock(), duly.now() from public")
    for _ in range(4):
        key = site.wait()
        site.owner.execute(
            "insert into schedule_ingest.capture_image (id, session_id, sequence, r2_key, created_at)"
            " values (gen_random_uuid(), %s, 1, %s, now())",
            [key, str(key)],
        )
    await do_everything(site)
    unneeded: list[str] = []
    for single in singles:
        site.revoke([single.removesuffix(";")])
        try:
            await do_everything(site)
            unneeded.append(single)
        except errors.InsufficientPrivilege:
            pass
        site.owner.execute(single.encode())
    assert unneeded == []


# A key of the owner's -------------------------------------------------------------------------------------------------

RESULTS = "select result ->> 'outcome', result ->> 'events' from HOME.capture_session order by created_at"
OWNERS_KEY = "select count(*) from pg_indexes where indexname in ('UX_schedule_event_dedupe', 'the_old_key')"


async def days_in_turn(site: Site, *days: object) -> None:
    """Capture each of these days, one after another, by a worker in this process."""
    work = work_of(site)
    async with await connect(site.worker_dsn) as connection:
        await work.prepare(connection)
        for day in days:
            site.fixture.write_text(json.dumps(day))
            key = site.wait()
            assert await finish(connection, work, await work.claim(connection, "worker-1", 1)) == {key}


@pytest.mark.parametrize("made_by", [PLAIN, CONTRACT], ids=str)
async def test_contract_event_key_is_kept_and_a_repeated_change_has_no_second_event(
    made_by: Backend, site: Site
) -> None:
    site.build(made_by)
    site.add_leases()
    await days_in_turn(site, A, B, A, B, B)
    assert site.one(OWNERS_KEY) == 1
    assert site.rows("select version from HOME.schedule_version order by version") == [(1,), (2,), (3,), (4,)]
    assert site.rows("select seq from HOME.schedule_event order by seq") == [(1,), (2,), (3,)]
    assert site.one("select count(*) from HOME.schedule_notification") == 3  # without an event there is no notification
    assert site.one("select snapshot_payload -> 0 ->> 'start' from HOME.day_snapshot") == "11:00"
    assert site.one("select events from HOME.day_snapshot") == 3
    results = site.rows(
        "select result ->> 'outcome', result ->> 'events' from HOME.capture_session order by created_at"
    )
    assert results == [("changed", "1")] * 3 + [("changed", "0"), ("unchanged", "0")]


@pytest.mark.parametrize("made_by", [OWNERS, PLAIN, CONTRACT], ids=str)
async def test_replaced_event_key_gives_every_change_its_event(made_by: Backend, site: Site) -> None:
    site.build(made_by)
    site.add_leases()
    site.add_leases("-v", "event_key=replace")
    await days_in_turn(site, A, B, A, B, B)
    assert site.one(OWNERS_KEY) == 0
    assert site.one("select count(*) from HOME.schedule_event") == 4
    assert site.one("select count(*) from HOME.schedule_notification") == 4
    assert site.is_rebuilt()


def test_an_unknown_value_of_event_key_is_refused(site: Site) -> None:
    site.build(PLAIN)
    before = site.lines()
    result = site.psql("-v", "event_key=yes")
    assert (result.returncode, "event_key=yes" in result.stderr) == (SCRIPT_FAILED, True)
    assert site.lines() == before


# Phases ---------------------------------------------------------------------------------------------------------------


async def test_backend_of_phase_3_gets_only_versions(site: Site) -> None:
    site.build(PHASE_3)
    assert not [grant for grant in site.add_leases() if "snapshot" in grant or "event" in grant]
    await days_in_turn(site, A, B, B)
    assert site.rows("select version from HOME.schedule_version order by version") == [(1,), (2,)]
    assert site.rows("select current_version from HOME.day_schedule") == [(2,)]
    results = site.rows(
        "select result ->> 'outcome', result ->> 'events' from HOME.capture_session order by created_at"
    )
    assert results == [("changed", "0"), ("changed", "0"), ("unchanged", "0")]


async def test_script_run_again_after_later_phases_enables_events(site: Site) -> None:
    site.build(PHASE_3)
    site.add_leases()
    await days_in_turn(site, A)
    later = CONTRACT.made_by.removeprefix(PHASE_3.made_by).replace("HOME", site.schema)
    site.owner.execute(later.encode())
    async with await connect(site.worker_dsn) as connection:
        with pytest.raises(NotMigrated, match=r"day_snapshot, schedule_event.*add_session_leases"):
            await work_of(site).prepare(connection)
    site.add_leases()
    await days_in_turn(site, A, B)
    assert site.rows("select event_type, seq from HOME.schedule_event order by seq") == [
        ("shift_added", 1),
        ("shift_time_changed", 2),
    ]
    assert site.is_rebuilt()


@pytest.mark.parametrize(
    ("there", "missing"),
    [("day_snapshot", "schedule_event"), ("schedule_notification", "day_snapshot, schedule_event")],
)
def test_incomplete_phase_is_refused_with_the_missing_tables(there: str, missing: str, site: Site) -> None:
    site.build(CONTRACT)
    for table in {"day_snapshot", "schedule_event", "schedule_notification"} - {there}:
        site.owner.execute(f"drop table schedule_ingest.{table}".encode())
    result = site.psql()
    assert result.returncode == SCRIPT_FAILED
    assert f'the schema "schedule_ingest" has no table {missing}' in result.stderr
