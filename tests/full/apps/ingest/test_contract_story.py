"""The ingest contract's own "How To Test", step by step: psql, and the worker that runs once, as people start it."""

import json
import shutil
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from duly.configuration.engine import DATABASE_VARIABLES
from duly.db.admin import create_database, drop_database
from duly.db.migrate import migrate
from duly.db.migrations import Names
from duly.launcher import ROOT
from duly.settings import load_settings
from tests.support.backends import PLAIN_WITH_POINTER
from tests.support.processes import PYTHON, Program, plain_environment
from tests.support.psql import PsqlRefused, psql

NOWHERE = "postgresql://user@127.0.0.1:1/none_test"
MAIN = (*PYTHON, str(ROOT / "main.py"))
WORKER = (*PYTHON, "-m", "duly", "worker", "--only", "ingest", "--once")
SESSION = "insert into schedule_ingest.capture_session (user_id) values (42) returning id"
STALE = (
    "update schedule_ingest.capture_session set state = 'processing', locked_by = 'worker-1', "
    "locked_at = now() - interval '{}' where id = '{}'"
)


class ContractRun:
    """A directory with a fixture in it, psql, and the worker."""

    def __init__(self, dsn: str, directory: Path) -> None:
        self.dsn = dsn
        self.directory = directory
        self.fixture = directory / "fixtures" / "sample_schedule.json"
        self.fixture.parent.mkdir()
        shutil.copy(ROOT / "fixtures" / "sample_schedule.json", self.fixture)

    def query(self, statement: str) -> list[str]:
        """Return the lines that psql prints."""
        return psql(self.dsn, "-c", statement)

    def add(self) -> str:
        """Create a pending session; return its id."""
        (key,) = self.query(SESSION)
        return key

    def state(self, key: str) -> str:
        """Return the state of a session."""
        (state,) = self.query(f"select state from schedule_ingest.capture_session where id = '{key}'")
        return state

    def count_rows(self, table: str) -> int:
        """Count rows."""
        (number,) = self.query(f"select count(*) from {table}")
        return int(number)

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the worker for one cycle, by default on our database; the fixture is where the contract has it."""
        where = {} if environment.keys() & set(DATABASE_VARIABLES) else {"DATABASE_URL": self.dsn}
        given = plain_environment(**where, DULY_LOG_FORMAT="json", **environment)
        arguments = list(command or MAIN)
        return subprocess.run(arguments, env=given, cwd=self.directory, capture_output=True, text=True, timeout=120)

    def work(self, *command: str, **environment: str) -> str:
        """Run it and require success; return its output."""
        answer = self.run(*command, **environment)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    def edit(self, **changes: str) -> None:
        """Change the one entry of the fixture."""
        day = json.loads(self.fixture.read_text())
        day["entries"][0] |= changes
        self.fixture.write_text(json.dumps(day))


@pytest.fixture
def contract_run(database: str, tmp_path: Path) -> ContractRun:
    """A migrated database, and the fixture of the contract."""
    return ContractRun(database, tmp_path)


# How To Test ----------------------------------------------------------------------------------------------------------


def test_the_how_to_test_steps_of_the_contract_pass(contract_run: ContractRun) -> None:
    # 1. Ensure at least one session is claimable.
    pending = contract_run.add()

    # 2. Run the worker once.
    assert f"duly: session {pending}: 2026-02-10 version 1 written" in contract_run.work()

    # 3. Verify for the processed session.
    row = "select user_id, schedule_date, version, session_id from schedule_ingest.schedule_version"
    assert contract_run.query(row) == [f"42|2026-02-10|1|{pending}"]
    pointer = "select user_id, schedule_date, current_version from schedule_ingest.day_schedule"
    assert contract_run.query(pointer) == ["42|2026-02-10|1"]
    lease = "select state, locked_at is null, locked_by is null, error is null from schedule_ingest.capture_session"
    assert contract_run.query(lease) == ["done|t|t|t"]

    # 4. Edit the fixture payload, enqueue a new session, rerun.
    first = contract_run.query("select payload, payload_hash from schedule_ingest.schedule_version")
    contract_run.edit(start="11:00")
    second = contract_run.add()
    contract_run.work()

    # 5. Verify.
    assert contract_run.query(f"{row} order by version") == [f"42|2026-02-10|1|{pending}", f"42|2026-02-10|2|{second}"]
    assert (
        contract_run.query("select payload, payload_hash from schedule_ingest.schedule_version where version = 1")
        == first
    )
    assert contract_run.query(pointer) == ["42|2026-02-10|2"]
    for attempt in (
        "update schedule_ingest.schedule_version set payload = '{}'",
        "delete from schedule_ingest.schedule_version",
        "truncate schedule_ingest.schedule_version",
        "update schedule_ingest.day_schedule set current_version = 7",
    ):
        with pytest.raises(PsqlRefused):
            contract_run.query(attempt)
    assert contract_run.count_rows("schedule_ingest.schedule_version") == 2

    # What the schema contract adds: events, the snapshot, messages; and a day that did not change makes no version.
    assert contract_run.query("select event_type from schedule_ingest.schedule_event order by seq") == [
        "shift_added",
        "shift_time_changed",
    ]
    messages_query = (
        "select message from schedule_ingest.schedule_notification where status = 'pending' order by created_at"
    )
    assert contract_run.query(messages_query) == [
        "New shift on 2026-02-10: 10:00\N{EN DASH}14:00, Cleaning, Billdal.",
        "The 10:00 shift on 2026-02-10 now starts at 11:00.",
    ]
    third = contract_run.add()
    contract_run.work()
    assert contract_run.state(third) == "done"
    assert contract_run.count_rows("schedule_ingest.schedule_version") == 2
    assert contract_run.query("select source_session_id from schedule_ingest.day_snapshot") == [third]


def test_an_expired_session_is_claimed_after_the_pending_ones(contract_run: ContractRun) -> None:
    stale, fresh = contract_run.add(), contract_run.add()
    contract_run.query(STALE.format("301 seconds", stale))
    contract_run.work()
    assert (contract_run.state(stale), contract_run.state(fresh)) == ("processing", "done")
    contract_run.work()
    assert contract_run.state(stale) == "done"
    assert contract_run.query(
        f"select locked_at, locked_by from schedule_ingest.capture_session where id = '{stale}'"
    ) == ["|"]


def test_one_cycle_processes_one_session(contract_run: ContractRun) -> None:
    keys = [contract_run.add() for _ in range(3)]
    contract_run.work()
    assert [contract_run.state(key) for key in keys] == ["done", "pending", "pending"]


# How it ends ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [MAIN, WORKER], ids=["main.py", "duly worker"])
def test_main_exits_with_0_for_every_outcome_of_a_session(command: tuple[str, ...], contract_run: ContractRun) -> None:
    nothing = "nothing to do" if command is MAIN else "0 rows in this cycle"
    assert f"duly: {nothing}" in contract_run.work(*command)
    good = contract_run.add()
    written = f"duly: session {good}: 2026-02-10 version 1 written (1 events, 1 messages, input: fixture)\n"
    assert written in contract_run.work(*command)
    assert contract_run.state(good) == "done"
    same = contract_run.add()
    assert f"duly: session {same}: 2026-02-10 unchanged, still version 1" in contract_run.work(*command)
    contract_run.fixture.write_text("[]")
    bad = contract_run.add()
    output = contract_run.work(*command)
    assert '"event":"session.failed"' in output
    assert f"duly: session {bad}: failed: {contract_run.fixture.name}: must hold an object" in output
    assert contract_run.state(bad) == "failed"
    (error,) = contract_run.query(f"select error from schedule_ingest.capture_session where id = '{bad}'")
    assert error.endswith("must hold an object with schedule_date and entries")


BUSY = {"SIMULATED_WORK_SECONDS": "60", "LEASE_HEARTBEAT_SECONDS": "0.1", "DULY_LOG_FORMAT": "json"}


def busy_main(contract_run: ContractRun) -> Program:
    """`main.py` that has claimed a session and works on it for a minute."""
    environment = plain_environment(DATABASE_URL=contract_run.dsn, **BUSY)
    program = Program(MAIN, environment=environment, directory=contract_run.directory)
    while "worker.iteration.start" not in program.line():
        pass
    return program


def test_main_exits_with_1_and_reports_a_lost_lease(contract_run: ContractRun) -> None:
    key = contract_run.add()
    with busy_main(contract_run) as program:
        contract_run.query(
            "update schedule_ingest.capture_session set state = 'failed', error = 'set by another program',"
            " locked_at = null, locked_by = null, lease_seconds = null"
        )
        assert program.finish() == 1
        assert f"duly: session {key}: lease lost" in program.stderr_text()
    assert contract_run.count_rows("schedule_ingest.schedule_version") == 0


def test_main_exits_with_1_and_reports_a_released_session(contract_run: ContractRun) -> None:
    key = contract_run.add()
    with busy_main(contract_run) as program:
        program.process.send_signal(signal.SIGTERM)
        while "stopping" not in program.line():
            pass
        assert program.finish(signal.SIGTERM) == 1
        assert f"duly: session {key}: released" in program.stderr_text()
    assert "version 1 written" in contract_run.work()  # at once


# The fixture ----------------------------------------------------------------------------------------------------------


def test_main_finds_the_sample_fixture_from_any_directory(contract_run: ContractRun, tmp_path: Path) -> None:
    other_directory = tmp_path / "elsewhere"
    other_directory.mkdir()
    key = contract_run.add()
    environment = plain_environment(DATABASE_URL=contract_run.dsn)
    answer = subprocess.run(MAIN, env=environment, cwd=other_directory, capture_output=True, text=True, timeout=60)
    assert (answer.returncode, contract_run.state(key)) == (0, "done"), answer.stderr
    assert contract_run.query("select schedule_date from schedule_ingest.schedule_version") == ["2026-02-10"]


@pytest.mark.parametrize("command", [MAIN, WORKER], ids=["main.py", "duly worker"])
def test_a_missing_fixture_path_is_refused_naming_its_setting_before_claiming(
    command: tuple[str, ...], contract_run: ContractRun
) -> None:
    key = contract_run.add()
    answer = contract_run.run(*command, FIXTURE_PAYLOAD_PATH="gone/day.json")
    assert answer.returncode != 0
    assert "FIXTURE_PAYLOAD_PATH=gone/day.json: cannot be read (No such file or directory)" in answer.stderr
    assert contract_run.query("select state, starts from schedule_ingest.capture_session") == ["pending|0"]
    contract_run.work()
    assert contract_run.state(key) == "done"


def test_a_fixture_removed_while_a_worker_runs_fails_no_session(contract_run: ContractRun) -> None:
    """The endless worker releases its session, and claims it again when the file is there."""
    key = contract_run.add()
    contract_run.query("update schedule_ingest.capture_session set closed_at = now()")
    hidden = contract_run.fixture.with_suffix(".hidden")
    settings = {"WORKER_INPUT_MODE": "fixture", "WORKER_POLL_SECONDS": "0.1", "SIMULATED_WORK_SECONDS": "2"}
    environment = plain_environment(DATABASE_URL=contract_run.dsn, DULY_LOG_FORMAT="json", **settings)
    command = [*PYTHON, "-m", "duly", "worker", "--only", "ingest"]
    with Program(command, environment=environment, directory=contract_run.directory) as worker:
        while not ("iteration.start" in (line := worker.line()) and json.loads(line)["sessions"]):
            pass
        contract_run.fixture.rename(hidden)
        while "ingest.misconfigured" not in (line := worker.line()):
            pass
        assert "FIXTURE_PAYLOAD_PATH=fixtures/sample_schedule.json" in line
        hidden.rename(contract_run.fixture)
        while not ("iteration.end" in (line := worker.line()) and json.loads(line)["sessions"]):
            pass
        assert worker.finish(signal.SIGTERM) == 0
    assert contract_run.state(key) == "done"


def test_main_without_a_database_address_names_the_three_variables(contract_run: ContractRun) -> None:
    answer = contract_run.run(DATABASE_URL="")
    assert answer.returncode == 1
    environment = plain_environment()
    answer = subprocess.run(
        MAIN, env=environment, cwd=contract_run.directory, capture_output=True, text=True, timeout=60
    )
    assert answer.returncode == 1
    assert all(name in answer.stderr for name in ("DATABASE_URL", "POSTGRES_DSN", "TEST_DATABASE_URL"))
    assert not (contract_run.directory / ".duly").exists()


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"LEASE_HEARTBEAT_SECONDS": "100"}, "LEASE_HEARTBEAT_SECONDS"),
        ({"LEASE_TIMEOUT_SECONDS": "soon"}, "LEASE_TIMEOUT_SECONDS"),
        ({"DB_SCHEMA": "nowhere"}, "DB_SCHEMA=nowhere"),
        (
            {"PENDING_STATE": "ready"},
            "PENDING_STATE=ready: capture_session has the states pending, processing, done, failed",
        ),
        ({"PROCESSING_STATE": "busy"}, "PROCESSING_STATE=busy"),
        ({"DONE_STATE": "ready"}, "DONE_STATE=ready"),
        ({"FAILED_STATE": "broken"}, "FAILED_STATE=broken"),
        ({"DATABASE_URL": NOWHERE}, "cannot connect to 127.0.0.1:1/none_test"),
    ],
    ids=["beat", "timeout", "schema", "pending", "processing", "done", "failed", "away"],
)
def test_main_exits_with_1_when_it_cannot_work(
    environment: dict[str, str], message: str, contract_run: ContractRun
) -> None:
    key = contract_run.add()
    answer = contract_run.run(**environment)
    assert answer.returncode == 1
    assert message in answer.stderr
    assert "Traceback" not in answer.stderr
    assert contract_run.state(key) == "pending"


# The variables --------------------------------------------------------------------------------------------------------


def test_the_default_settings_match_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DB_SCHEMA", "FIXTURE_PAYLOAD_PATH", "LEASE_TIMEOUT_SECONDS", "LEASE_HEARTBEAT_SECONDS"):
        monkeypatch.delenv(name, raising=False)
    settings = load_settings()
    assert (settings.db_schema, str(settings.fixture_payload_path)) == (
        "schedule_ingest",
        "fixtures/sample_schedule.json",
    )
    assert (settings.lease_timeout_seconds, settings.lease_heartbeat_seconds) == (300, 10)
    assert settings.enable_lease_heartbeat
    assert settings.simulated_work_seconds == 0
    assert (settings.pending_state, settings.processing_state) == ("pending", "processing")
    assert (settings.done_state, settings.failed_state) == ("done", "failed")


def test_main_uses_the_first_database_variable_that_is_set(contract_run: ContractRun) -> None:
    first, second, third = DATABASE_VARIABLES
    for environment in (
        {first: contract_run.dsn, second: NOWHERE, third: NOWHERE},
        {second: contract_run.dsn, third: NOWHERE},
        {third: contract_run.dsn},
    ):
        key = contract_run.add()
        contract_run.work(**environment)
        assert contract_run.state(key) == "done"


def test_the_fixture_and_the_workers_name_come_from_their_settings(contract_run: ContractRun) -> None:
    other = contract_run.directory / "other.json"
    other.write_text('{"schedule_date": "2026-03-01", "entries": []}')
    contract_run.add()
    contract_run.work(FIXTURE_PAYLOAD_PATH=str(other), WORKER_ID="night-shift")
    assert contract_run.query("select schedule_date from schedule_ingest.schedule_version") == ["2026-03-01"]
    (owner,) = contract_run.query("select actor from duly.transition where next_status = 'processing'")
    assert owner.startswith("night-shift/")
    contract_run.add()
    contract_run.work()
    (owner,) = contract_run.query(
        "select actor from duly.transition where next_status = 'processing' order by ts desc limit 1"
    )
    assert owner.startswith("worker-")
    assert owner.removeprefix("worker-").partition("/")[0].isdigit()


@contextmanager
def database_of(server: str) -> Generator[str, None, None]:
    """An empty database, dropped afterwards."""
    name = f"duly_test_{uuid4().hex}"
    dsn = create_database(server, name)
    try:
        yield dsn
    finally:
        with psycopg.connect(server, autocommit=True) as admin:
            drop_database(admin, name)


def test_the_schema_comes_from_its_setting(server: str, tmp_path: Path) -> None:
    with database_of(server) as dsn:
        migrate(dsn, Names(ingest="night_ingest"))
        contract_run = ContractRun(dsn, tmp_path)
        contract_run.query("insert into night_ingest.capture_session (user_id) values (42)")
        contract_run.work(DB_SCHEMA="night_ingest")
        assert contract_run.query("select state from night_ingest.capture_session") == ["done"]
        assert contract_run.count_rows("night_ingest.schedule_version") == 1
        assert contract_run.query("select to_regnamespace('schedule_ingest') is null") == ["t"]


RENAMED = {"pending": "closed", "processing": "busy", "done": "processed", "failed": "broken"}


def test_the_names_of_the_four_states_come_from_their_settings(server: str, tmp_path: Path) -> None:
    """On tables that a backend made, whose words for them are others."""
    with database_of(server) as dsn:
        contract_run = ContractRun(dsn, tmp_path)
        contract_run.query(PLAIN_WITH_POINTER.schema_sql("schedule_ingest"))
        psql(dsn, "-f", str(ROOT / "database" / "migrations" / "20260212_add_session_leases.sql"))
        for old, new in RENAMED.items():
            contract_run.query(f"alter type schedule_ingest.capture_session_state rename value '{old}' to '{new}'")
        columns = "(id, user_id, state, created_at)"
        add = f"insert into schedule_ingest.capture_session {columns} values ('{{}}', 42, '{{}}', now())"
        good, stale, bad = (str(uuid4()) for _ in range(3))
        states = {f"{name.upper()}_STATE": state_name for name, state_name in RENAMED.items()}
        contract_run.query(add.format(good, "closed"))
        contract_run.work(**states)
        contract_run.query(add.format(stale, "closed"))
        contract_run.query(STALE.replace("'processing'", "'busy'").format("301 seconds", stale))
        contract_run.work(**states)
        contract_run.fixture.write_text("[]")
        contract_run.query(add.format(bad, "closed"))
        contract_run.work(**states)
        assert [contract_run.state(key) for key in (good, stale, bad)] == ["processed", "processed", "broken"]
        assert contract_run.count_rows("schedule_ingest.schedule_version") == 1


def test_the_lease_timeout_sets_how_long_a_claim_lasts(contract_run: ContractRun) -> None:
    key = contract_run.add()
    contract_run.query(STALE.format("100 seconds", key))
    assert "duly: nothing to do" in contract_run.work()
    assert contract_run.state(key) == "processing"
    contract_run.work(LEASE_TIMEOUT_SECONDS="60")
    assert contract_run.state(key) == "done"


BEATS = """
create table public.beat (lease_seconds double precision, seconds_held double precision);
create function public.note_beat() returns trigger language plpgsql security definer as $$
begin
    insert into public.beat select new.lease_seconds, extract(epoch from new.locked_at - old.locked_at);
    return null;
end
$$;
create trigger beat after update on schedule_ingest.capture_session for each row
when (old.locked_by = new.locked_by and old.locked_at < new.locked_at) execute function public.note_beat();
"""


def test_the_heartbeat_interval_and_the_simulated_work_come_from_their_settings(contract_run: ContractRun) -> None:
    contract_run.query(BEATS)
    took = (
        "select extract(epoch from max(ts) filter (where next_status = 'done') - "
        "max(ts) filter (where next_status = 'processing')) >= 1 from duly.transition where key = '{}'"
    )
    for environment, beats in (
        ({"LEASE_HEARTBEAT_SECONDS": "0.1", "LEASE_TIMEOUT_SECONDS": "40"}, range(3, 12)),
        ({"LEASE_HEARTBEAT_SECONDS": "200", "ENABLE_LEASE_HEARTBEAT": "false"}, range(1)),  # nor need it fit
        ({}, range(2)),  # the first, and another ten seconds later
    ):
        key = contract_run.add()
        contract_run.work(SIMULATED_WORK_SECONDS="1", **environment)
        assert contract_run.state(key) == "done"
        assert contract_run.query(took.format(key)) == ["t"]
        assert contract_run.count_rows("public.beat") in beats, environment
        if environment and beats.stop > 1:
            assert contract_run.query("select distinct lease_seconds from public.beat") == ["40"]
        contract_run.query("truncate public.beat")
    contract_run.query(
        "drop trigger beat on schedule_ingest.capture_session"
    )  # ours alone: the catalogue is looked at next
