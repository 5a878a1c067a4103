"""The embedded server under races, kills and hostile places: real processes, real signals."""

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from duly.db.embedded import EmbeddedServer
from duly.db.embedded.plan import make_plan
from duly.db.embedded.supervisor import MAX_LOG_BYTES
from duly.errors import Unavailable
from tests.support import use_server
from tests.support.postmaster import postmaster_of
from tests.support.processes import PYTHON, Program, has_ended, wait_unlocked, wait_until_ended

ROWS = 20_000


def start_user(home: Path) -> Program:
    return Program([*PYTHON, use_server.__file__, home])


def find_parent(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("PPid:"))


@pytest.fixture
def embedded(home: Path) -> Generator[EmbeddedServer, None, None]:
    with EmbeddedServer.start(home) as server:
        yield server


def test_six_processes_that_start_at_once_share_one_server(home: Path) -> None:
    with ExitStack() as stack:
        users = [stack.enter_context(start_user(home)) for _ in range(6)]
        answers = [json.loads(user.line()) for user in users]
        assert len({answer["postmaster"] for answer in answers}) == 1
        assert len({answer["dsn"] for answer in answers}) == 1


def test_the_server_runs_until_the_last_of_its_users_is_killed(home: Path) -> None:
    with ExitStack() as stack:
        users = [stack.enter_context(start_user(home)) for _ in range(3)]
        answers = [json.loads(user.line()) for user in users]
        for user in users[:-1]:
            user.kill()
        with psycopg.connect(answers[-1]["dsn"]) as connection:
            assert connection.execute("select 1").fetchone() == (1,)
        users[-1].kill()
        wait_until_ended(answers[-1]["postmaster"])
    wait_unlocked(home / "supervisor.lock")
    assert "shut down" in control_data(home)


def test_the_server_stops_when_its_only_user_exits(home: Path) -> None:
    with start_user(home) as user:
        postmaster = json.loads(user.line())["postmaster"]
        assert user.finish() == 0
        wait_until_ended(postmaster)
    assert "shut down" in control_data(home)


def control_data(home: Path) -> str:
    plan = make_plan(home)
    command = [plan.binaries.program("pg_controldata"), "-D", plan.data]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_a_user_that_starts_while_the_server_stops_gets_a_running_server(home: Path) -> None:
    for _ in range(3):
        with EmbeddedServer.start(home, linger_seconds=0) as server:
            postmaster = postmaster_of(server.plan.home)
        with EmbeddedServer.start(home, linger_seconds=0) as again, psycopg.connect(again.dsn()) as connection:
            assert connection.execute("select 1").fetchone() == (1,)
        wait_unlocked(home / "supervisor.lock")
        assert has_ended(postmaster)


def test_kill_9_of_the_postmaster_loses_no_committed_row_and_users_reconnect(embedded: EmbeddedServer) -> None:
    with psycopg.connect(embedded.dsn()) as connection:
        connection.execute("create table kept as select generate_series(1, %s) as n", [ROWS])
    bystander = psycopg.connect(embedded.dsn())
    killed = postmaster_of(embedded.plan.home)
    os.kill(killed, signal.SIGKILL)
    with bystander, pytest.raises(psycopg.OperationalError):
        bystander.execute("select pg_sleep(60)")  # ends when the server notices, long before
    embedded.ensure()
    with psycopg.connect(embedded.dsn()) as connection:
        assert connection.execute("select count(*) from kept").fetchone() == (ROWS,)
    assert postmaster_of(embedded.plan.home) != killed


def test_kill_9_of_the_supervisor_stops_the_server_and_the_next_use_restarts_it(embedded: EmbeddedServer) -> None:
    with psycopg.connect(embedded.dsn()) as connection:
        connection.execute("create table kept as select generate_series(1, %s) as n", [ROWS])
    postmaster = postmaster_of(embedded.plan.home)
    os.kill(find_parent(postmaster), signal.SIGKILL)
    wait_until_ended(postmaster)
    embedded.ensure()
    with psycopg.connect(embedded.dsn()) as connection:
        assert connection.execute("select count(*) from kept").fetchone() == (ROWS,)


def test_a_stale_postmaster_pid_does_not_prevent_a_start(home: Path) -> None:
    with EmbeddedServer.start(home) as server:
        note = server.plan.data / "postmaster.pid"
        lines = note.read_text().splitlines()
    wait_unlocked(home / "supervisor.lock")
    note.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")  # as after a reboot: the pid of another program
    with EmbeddedServer.start(home) as server, psycopg.connect(server.dsn()) as connection:
        assert connection.execute("select 1").fetchone() == (1,)


def test_an_incomplete_cluster_is_never_used(home: Path) -> None:
    home.mkdir()
    (home / "data.new-1").mkdir()
    (home / "data.new-1" / "PG_VERSION").write_text("18")
    with EmbeddedServer.start(home) as server, psycopg.connect(server.dsn()) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    assert not list(home.glob("data.new*"))


def test_kill_9_of_the_supervisor_during_initdb_ends_initdb(home: Path) -> None:
    programs = home.parent / "programs"
    programs.mkdir()
    for program in make_plan(home).binaries.directory.iterdir():
        (programs / program.name).symlink_to(program)
    fifo = home.parent / "report"
    os.mkfifo(fifo)
    fifo.chmod(0o666)
    (programs / "initdb").unlink()
    (programs / "initdb").write_text(f"#!/bin/sh\necho $$ $PPID > {fifo}\nexec sleep 600\n")
    (programs / "initdb").chmod(0o755)
    with Program([*PYTHON, use_server.__file__, home, programs]) as user:
        initdb, supervisor = map(int, fifo.read_text().split())
        os.kill(supervisor, signal.SIGKILL)
        wait_until_ended(initdb)
        user.kill()
    with EmbeddedServer.start(home) as server, psycopg.connect(server.dsn()) as connection:
        assert connection.execute("select 1").fetchone() == (1,)


def test_the_server_runs_beside_a_system_server_that_listens_on_a_port(home: Path) -> None:
    system = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"))), None)
    if system is None:
        pytest.skip("no PostgreSQL of a distribution on this machine")
    account = make_plan(home).account
    theirs = home.parent / "theirs"
    theirs.mkdir()
    os.chown(theirs, account.uid, account.gid)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]

    def run(*command: str | Path) -> None:
        subprocess.run(command, check=True, cwd="/", stdout=subprocess.DEVNULL, **account.subprocess_identity())

    options = f"-p {port} -k {theirs} -c listen_addresses=127.0.0.1"
    run(system / "initdb", "-D", theirs / "data", "-U", "postgres", "--auth=trust")
    run(system / "pg_ctl", "-D", theirs / "data", "-l", theirs / "log", "-o", options, "-w", "start")
    try:
        with (
            EmbeddedServer.start(home) as ours,
            psycopg.connect(ours.dsn()) as connection,
            psycopg.connect(f"host=127.0.0.1 port={port} user=postgres dbname=postgres") as other,
        ):
            directories = [each.execute("show data_directory").fetchone() for each in (connection, other)]
            assert directories == [(str(home / "data"),), (str(theirs / "data"),)]
    finally:
        run(system / "pg_ctl", "-D", theirs / "data", "-m", "fast", "-w", "stop")


@pytest.mark.parametrize("name", ["with space", "it's", 'a"b', "åäö", "back\\slash"])
def test_the_home_directory_may_have_any_name(name: str, home: Path) -> None:
    with EmbeddedServer.start(home / name) as server, psycopg.connect(server.dsn()) as connection:
        assert connection.execute("select 1").fetchone() == (1,)


def test_the_server_runs_beside_another_embedded_server_and_opens_no_port(
    embedded: EmbeddedServer, server: str
) -> None:
    with psycopg.connect(embedded.dsn()) as ours, psycopg.connect(server) as theirs:
        for connection in (ours, theirs):
            assert connection.execute("show listen_addresses").fetchone() == ("",)
        directories = {connection.execute("show data_directory").fetchone() for connection in (ours, theirs)}
        assert len(directories) == 2


def test_only_the_account_of_the_server_can_reach_its_socket(embedded: EmbeddedServer) -> None:
    state = embedded.plan.sockets.stat()
    assert state.st_mode & 0o077 == 0
    assert state.st_uid == embedded.plan.account.uid


def test_only_the_owner_can_read_the_log_and_list_the_home_directory(embedded: EmbeddedServer) -> None:
    with psycopg.connect(embedded.dsn(), autocommit=True) as connection:
        connection.execute("do $$ begin raise log 'SECRETKEY-4711' using detail = 'SECRET' || 'DETAIL'; end $$")
        assert connection.execute("show log_error_verbosity").fetchone() == ("terse",)
    log = embedded.plan.log.read_text()
    assert "SECRETKEY-4711" in log
    assert "SECRETDETAIL" not in log
    assert embedded.plan.log.stat().st_mode & 0o777 == 0o600
    assert embedded.plan.home.stat().st_mode & 0o066 == 0


def test_the_log_is_rotated_while_the_server_runs_and_its_total_is_limited(embedded: EmbeddedServer) -> None:
    old = embedded.plan.log.with_suffix(".log.1")
    with psycopg.connect(embedded.dsn(), autocommit=True) as connection:
        for _ in range(3):
            connection.execute("do $$ begin for n in 1..110 loop raise log '%', repeat('x', 100000); end loop; end $$")
            wait_until(lambda: embedded.plan.log.stat().st_size < MAX_LOG_BYTES)
        connection.execute("do $$ begin raise log 'still written'; end $$")
    assert "still written" in embedded.plan.log.read_text()
    assert old.stat().st_mode & 0o777 == 0o600
    files = [embedded.plan.log, *embedded.plan.home.glob("postgres.log.*")]
    assert sum(file.stat().st_size for file in files) <= 2 * MAX_LOG_BYTES


def wait_until(is_so: Callable[[], bool]) -> None:
    """Poll for something that another process does; fail when it takes a minute."""
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)


def test_libpq_environment_variables_do_not_affect_the_server(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGHOST", "PGPORT", "PGDATABASE", "PGUSER", "PGDATA"):
        monkeypatch.setenv(name, "1234")
    monkeypatch.setenv("PGOPTIONS", "-c default_transaction_read_only=on")
    with EmbeddedServer.start(home) as server, psycopg.connect(server.dsn()) as connection:
        assert connection.execute("select current_user, current_database()").fetchone() == ("postgres", "postgres")
        assert connection.execute("show default_transaction_read_only").fetchone() == ("off",)


def test_a_home_path_too_long_for_a_socket_works(home: Path) -> None:
    deep = home / ("d" * 60) / ("e" * 60)
    with EmbeddedServer.start(deep) as server, psycopg.connect(server.dsn()) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
        assert server.plan.sockets.parent == Path("/tmp")
    wait_unlocked(deep / "supervisor.lock")
    server.plan.sockets.rmdir()


def test_a_server_that_cannot_start_raises_the_reason(home: Path) -> None:
    with pytest.raises(Unavailable, match="no_such_setting"):
        EmbeddedServer.start(home, settings={"no_such_setting": "1"})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root needs another account for the server")
class TestAsRoot:
    def test_the_server_of_root_runs_under_an_existing_account(self, embedded: EmbeddedServer) -> None:
        owner = Path(f"/proc/{postmaster_of(embedded.plan.home)}").stat().st_uid
        assert owner == embedded.plan.account.uid != 0

    def test_the_server_of_root_can_run_under_any_existing_account(self, home: Path) -> None:
        with EmbeddedServer.start(home, pguser="nobody") as server, psycopg.connect(server.dsn()) as connection:
            assert connection.execute("select 1").fetchone() == (1,)
            assert Path(f"/proc/{postmaster_of(server.plan.home)}").stat().st_uid == server.plan.account.uid

    def test_the_account_that_owns_the_data_is_used_again(self, home: Path) -> None:
        with EmbeddedServer.start(home, pguser="nobody"):
            pass
        assert make_plan(home).account.name == "nobody"

    def test_a_strict_umask_does_not_deny_the_account_access(self, home: Path) -> None:
        command = " ".join(["umask 077; exec", *PYTHON, use_server.__file__, str(home / "below")])
        with Program(["sh", "-c", command]) as user, psycopg.connect(json.loads(user.line())["dsn"]) as connection:
            assert connection.execute("select 1").fetchone() == (1,)

    def test_no_account_is_created_and_no_parent_directory_changed(self, home: Path) -> None:
        accounts = Path("/etc/passwd").read_bytes()
        above = {path: path.stat().st_mode for path in home.parents}
        with EmbeddedServer.start(home):
            pass
        assert Path("/etc/passwd").read_bytes() == accounts
        assert {path: path.stat().st_mode for path in home.parents} == above

    def test_a_home_the_account_cannot_enter_is_moved_to_var_lib(self, home: Path) -> None:
        closed = home.parent / "closed"
        closed.mkdir(mode=0o700)
        with EmbeddedServer.start(closed / "duly") as server, psycopg.connect(server.dsn()) as connection:
            assert connection.execute("select 1").fetchone() == (1,)
            assert server.plan.home.parent == Path("/var/lib/duly")
            moved_home = server.plan.home
        again = make_plan(closed / "duly")
        assert again.home == moved_home
        assert closed.stat().st_mode & 0o777 == 0o700
        wait_unlocked(moved_home / "supervisor.lock")
        subprocess.run(["rm", "-r", moved_home], check=True)

    def test_programs_the_account_cannot_reach_are_copied_once(self, home: Path) -> None:
        closed = home.parent / "closed"
        closed.mkdir(mode=0o700)
        original = make_plan(home).binaries.directory
        package = original.parent.parent
        subprocess.run(["cp", "-r", package, package.with_name(f"{package.name}.libs"), closed], check=True)
        hidden = closed / package.name / original.parent.name / "bin"
        with EmbeddedServer.start(home, pgbin=hidden) as server, psycopg.connect(server.dsn()) as connection:
            assert connection.execute("select 1").fetchone() == (1,)
            assert server.plan.binaries.directory.is_relative_to(home)
        copied = server.plan.binaries.program("postgres").stat().st_mtime_ns
        assert make_plan(home, pgbin=hidden).binaries.program("postgres").stat().st_mtime_ns == copied
        assert closed.stat().st_mode & 0o777 == 0o700
