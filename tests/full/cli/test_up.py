"""`duly up` and its neighbours, through the front: real processes, real HTTP, real kills."""

import json
import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Generator
from pathlib import Path

import httpx2
import psycopg
import pytest
from sqlalchemy import create_engine, make_url, text

from duly.configuration.engine import DEFAULT_PORT, parse_address
from duly.db.admin import clone_database, drop_database
from duly.db.embedded import EmbeddedServer
from duly.db.migrate import newest_revisions
from duly.launcher import ROOT
from duly.testing import TestDatabases
from tests.support.postmaster import postmaster_of
from tests.support.processes import PYTHON, Program, plain_environment, wait_unlocked, wait_until_ended

DULY = (*PYTHON, "-m", "duly")
MAX_STOP_SECONDS = 5.0


def start_up(home: Path, *arguments: str, **environment: str) -> Program:
    """`duly up` with its data in this home; it prints one line of JSON once it is up."""
    command = [*DULY, "up", "--json", *(arguments or ("--port", "0"))]
    return Program(command, environment=plain_environment(DULY_HOME=str(home), **environment))


def run_duly(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [*DULY, *arguments]
    return subprocess.run(command, env=plain_environment(**environment), capture_output=True, text=True)


@pytest.fixture
def up(home: Path) -> Generator[tuple[Program, str], None, None]:
    """A running `duly up` and the address of its API."""
    with start_up(home) as program:
        yield program, json.loads(program.line())["api"]
    wait_unlocked(home / "supervisor.lock")


def get(address: str) -> httpx2.Response:
    """One GET; while the API is being restarted the kernel keeps us waiting in its queue."""
    for _ in range(20):
        try:
            return httpx2.get(address, timeout=30, trust_env=False)
        except httpx2.TransportError:
            continue  # cut off by the kill itself
    raise AssertionError(f"no answer from {address}")


def get_until(address: str, status: int) -> httpx2.Response:
    """Ask until the answer is this one; every asking waits for the database by itself."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if (answer := get(address)).status_code == status:
            return answer
    raise AssertionError(f"{address} never answered {status}")


def find_children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def find_component(pid: int, name: str) -> int:
    """The process of one component of the tree, by the command it runs."""
    commands = {child: Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0") for child in find_children(pid)}
    (found,) = [child for child, words in commands.items() if name.encode() in words]
    return found


def test_up_serves_health_and_readiness(up: tuple[Program, str]) -> None:
    _, address = up
    assert get(f"{address}/healthz").json()["status"] == "ok"
    ready = get(f"{address}/readyz")
    assert (ready.status_code, ready.json()) == (200, {"ready": True, "database": "ok"})
    assert set(get(f"{address}/openapi.json").json()["paths"]) >= {"/healthz", "/readyz", "/v1/jobs"}


def test_up_prints_its_database_address_schema_api_and_next_step(home: Path) -> None:
    with Program([*DULY, "up", "--port", "0"], environment=plain_environment(DULY_HOME=str(home))) as program:
        lines = [program.line() for _ in range(7)]
        assert lines[0].startswith("duly 0.1.0 is up after")
        assert [line.split()[0] for line in lines[1:]] == ["database", "address", "schema", "api", "next", "stop"]
        readme = (ROOT / "README.md").read_text().partition("duly 0.1.0 is up after")[2].splitlines()[1:7]
        assert [line.split()[0] for line in readme] == [line.split()[0] for line in lines[1:]]
        assert f"data in {home}" in lines[1]
        assert ", ".join(newest_revisions()) in lines[3]
        assert "http://127.0.0.1:" in lines[4]
        assert lines[4].endswith("(/v1/jobs, /openapi.json, /healthz, /readyz)")
        assert program.finish(signal.SIGINT) == 0
        assert program.stderr_text() == ""


def test_the_database_url_printed_by_up_works_for_every_client(home: Path) -> None:
    environment = plain_environment(DULY_HOME=str(home), DULY_COMMAND="./duly")
    with Program([*DULY, "up", "--port", "0"], environment=environment) as program:
        lines = [program.line() for _ in range(7)]
        assert "in another terminal: ./duly jobs --help" in lines[5]
        variable, _, quoted = lines[2].split()[1].partition("=")
        (address,) = shlex.split(quoted)
        assert variable == "DATABASE_URL"
        with psycopg.connect(address) as connection:
            assert connection.execute("select count(*) from ledger.job").fetchone() == (0,)
        engine = create_engine(make_url(address).set(drivername="postgresql+psycopg"))
        with engine.begin() as tx:
            assert tx.execute(text("select current_database()")).scalar() == "duly"
        engine.dispose()
        psql = run_duly("psql", "-At", "-c", "select current_database()", DATABASE_URL=address)
        assert psql.stdout == "duly\n", psql.stderr
        cycle = subprocess.run(
            [*PYTHON, ROOT / "main.py"], env=plain_environment(DATABASE_URL=address), capture_output=True, text=True
        )
        assert cycle.returncode == 0, cycle.stderr
        assert program.finish(signal.SIGINT) == 0


def test_up_says_on_ctrl_c_how_long_work_may_finish_and_how_to_force_a_stop(home: Path) -> None:
    environment = plain_environment(DULY_HOME=str(home), DULY_STOP_SECONDS="2")
    with Program([*DULY, "up", "--port", "0"], environment=environment) as program:
        for _ in range(7):
            program.line()
        program.process.send_signal(signal.SIGINT)
        assert program.line() == "duly: stopping: running work may finish for up to 10 s; Ctrl-C again ends it at once"
        assert program.line() == "duly: stopped"


def test_up_captures_a_fixture_and_does_not_use_the_sample_for_photographs(home: Path, up: tuple[Program, str]) -> None:
    _, address = up
    words = ("ingest", "capture", "--fixture", str(ROOT / "fixtures" / "sample_schedule.json"), "--user", "42")
    captured = run_duly(*words, DULY_HOME=str(home))
    assert captured.returncode == 0, captured.stdout + captured.stderr
    given, *printed = captured.stdout.splitlines()
    assert given.startswith("created   ")
    assert printed == [
        "done      2026-02-10 has version 1, 1 event and 1 message, from the data given with it",
        "  + New shift on 2026-02-10: 10:00\N{EN DASH}14:00, Cleaning, Billdal.",
    ]
    assert run_duly("people", "create", "anna", "--telegram-id", "42", DULY_HOME=str(home)).returncode == 0
    with httpx2.Client(base_url=address, headers={"Duly-User": "anna"}, trust_env=False, timeout=30) as anna:
        empty = anna.post("/v1/ingest/sessions").json()["id"]
        assert anna.post(f"/v1/ingest/sessions/{empty}/close").status_code == 200
        assert anna.get("/v1/ingest/days/2026-02-10").json()["current_version"] == 1
        again = run_duly(*words, DULY_HOME=str(home))  # which comes after the other
        assert "is unchanged, version 1" in again.stdout
    explanation = run_duly("ingest", "explain", empty, DULY_HOME=str(home)).stdout
    assert "It failed: the session has no photograph" in explanation


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_up_and_all_its_processes_in_less_than_5_s(number: int, home: Path) -> None:
    with start_up(home) as program:
        program.line()
        processes = [*find_children(program.pid), postmaster_of(home)]
        began = time.monotonic()
        assert program.finish(number) == 0
        assert time.monotonic() - began < MAX_STOP_SECONDS
        for process in processes:
            wait_until_ended(process, seconds=0.5)


def test_ctrl_c_during_startup_stops_up_quickly_and_quietly(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://127.0.0.1:{silent.getsockname()[1]}/name"
        with start_up(home, DATABASE_URL=url) as program, silent.accept()[0]:  # it waits for an answer that never comes
            began = time.monotonic()
            assert program.finish(signal.SIGINT) == 130
            assert time.monotonic() - began < MAX_STOP_SECONDS
            assert "Traceback" not in program.stderr_text()


def test_ctrl_c_stops_up_although_nothing_reads_its_output_any_more(home: Path) -> None:
    with Program([*DULY, "up", "--port", "0"], environment=plain_environment(DULY_HOME=str(home))) as program:
        assert "is up" in program.line()
        assert program.process.stdout
        program.process.stdout.close()
        program.finish(signal.SIGINT)


def test_a_second_up_in_the_same_directory_is_refused_and_names_the_first(home: Path, up: tuple[Program, str]) -> None:
    program, address = up
    second = run_duly("up", DULY_HOME=str(home))
    assert second.returncode == 2
    for words in ("already running in this directory", str(home), address, f"kill {program.pid}"):
        assert words in second.stderr
    assert second.stdout == ""
    as_json = json.loads(run_duly("up", "--json", DULY_HOME=str(home)).stdout)
    assert as_json["error"]["code"] == "ALREADY_RUNNING"
    assert get(f"{address}/readyz").status_code == 200


def test_the_api_role_of_up_has_only_its_own_rights(home: Path, up: tuple[Program, str]) -> None:
    _, address = up
    assert get(f"{address}/readyz").status_code == 200
    connection = psycopg.connect(host=str(home / "run"), port=5432, user="duly_api", dbname="duly")
    with connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("insert into duly.orgs (name) values ('mine')")


def test_up_can_be_started_again_at_once(home: Path) -> None:
    for _ in range(2):
        with start_up(home) as program:
            address = json.loads(program.line())["api"]
            assert get(f"{address}/readyz").status_code == 200
            assert program.finish(signal.SIGINT) == 0


def test_kill_9_of_up_ends_all_its_processes(home: Path) -> None:
    with start_up(home) as program:
        program.line()
        processes = [*find_children(program.pid), postmaster_of(home)]
        assert len(processes) == 3
        program.kill()
        for process in processes:
            wait_until_ended(process)


def test_up_restarts_a_killed_api_at_the_same_address(up: tuple[Program, str]) -> None:
    program, address = up
    api = find_component(program.pid, "serve")
    os.kill(api, signal.SIGKILL)
    assert get(f"{address}/healthz").status_code == 200
    assert find_component(program.pid, "serve") != api
    program.wait_for_error("api exited with status -9")


def test_up_restarts_a_killed_worker(up: tuple[Program, str]) -> None:
    program, _ = up
    worker = find_component(program.pid, "worker")
    os.kill(worker, signal.SIGKILL)
    program.wait_for_error("worker exited with status -9")
    wait_until_ended(worker)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:  # it is started again after a pause
        commands = [Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0") for child in find_children(program.pid)]
        if any(b"worker" in words for words in commands):
            return
    raise AssertionError("no worker came back")


def test_up_restarts_a_killed_postgres(home: Path, up: tuple[Program, str]) -> None:
    _, address = up
    killed = postmaster_of(home)
    os.kill(killed, signal.SIGKILL)
    wait_until_ended(killed)
    get_until(f"{address}/readyz", 200)
    assert postmaster_of(home) != killed


def test_up_restarts_a_killed_supervisor_of_postgres(home: Path, up: tuple[Program, str]) -> None:
    program, address = up
    postmaster = postmaster_of(home)
    status = Path(f"/proc/{postmaster}/status").read_text()
    supervisor = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("PPid:"))
    os.kill(supervisor, signal.SIGKILL)
    wait_until_ended(postmaster)
    program.wait_for_error("the supervisor of PostgreSQL is gone")
    get_until(f"{address}/readyz", 200)
    assert postmaster_of(home) != postmaster


def test_up_with_a_database_url_starts_no_embedded_server(home: Path, database: str) -> None:
    with start_up(home, DATABASE_URL=database) as program:
        about = json.loads(program.line())
        assert get(f"{about['api']}/readyz").status_code == 200
        assert not (home / "data").exists()
        assert program.finish(signal.SIGINT) == 0


def test_readiness_reports_the_loss_and_return_of_the_database(
    databases: TestDatabases, worker_id: str, home: Path
) -> None:
    with (
        databases.clone(worker_id) as dsn,
        start_up(home, DATABASE_URL=dsn) as program,
        psycopg.connect(databases.dsn, autocommit=True) as admin,
    ):
        address = json.loads(program.line())["api"]
        name = parse_address(dsn)["dbname"]
        drop_database(admin, name)
        answer = get_until(f"{address}/readyz", 503)
        assert answer.json()["ready"] is False
        assert get(f"{address}/healthz").status_code == 200
        clone_database(admin, databases.template, name)
        assert get(f"{address}/readyz").status_code == 200  # at once, however long it was away


def test_up_names_an_unreachable_database_without_its_password(home: Path) -> None:
    with socket.socket() as unused_socket:
        unused_socket.bind(("127.0.0.1", 0))
        port = unused_socket.getsockname()[1]
        url = f"postgresql://user:hunter2@127.0.0.1:{port}/name"
        answer = run_duly("up", "--port", "0", DULY_HOME=str(home), DATABASE_URL=url)
    assert answer.returncode == 69
    assert f"127.0.0.1:{port}/name" in answer.stderr
    assert "hunter2" not in answer.stderr + answer.stdout


@pytest.mark.parametrize("password", ["hunter2/tail", "hunter2@tail", "hunter2:tail/x"])
def test_a_password_that_makes_the_address_invalid_is_not_shown(password: str, home: Path) -> None:
    url = f"postgresql://user:{password}@127.0.0.1:1/name"
    for command, variable in (("up", "DATABASE_URL"), ("test", "TEST_DATABASE_URL")):
        answer = run_duly(command, **{"DULY_HOME": str(home), variable: url})
        assert answer.returncode in (69, 78)
        for piece in ("hunter2", "tail"):
            assert piece not in answer.stderr + answer.stdout


def test_an_invalid_port_is_refused_naming_the_option() -> None:
    answer = run_duly("up", "--port", "70000")
    assert answer.returncode == 2
    assert "--port" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_port_in_use_is_refused_naming_the_option_to_change(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy_socket:
        port = str(busy_socket.getsockname()[1])
        answer = run_duly("up", "--port", port, DULY_HOME=str(home))
    assert answer.returncode == 78
    assert f"cannot listen on 127.0.0.1:{port}" in answer.stderr
    assert "--port" in answer.stderr


def test_up_picks_a_free_port_when_the_default_is_in_use(home: Path, database: str) -> None:
    try:
        usual = socket.create_server(("127.0.0.1", DEFAULT_PORT))
    except OSError:
        usual = socket.socket()  # the port is taken already, which serves as well
    environment = plain_environment(DULY_HOME=str(home), DATABASE_URL=database)
    with usual, Program([*DULY, "up", "--json"], environment=environment) as program:
        address = json.loads(program.line())["api"]
        assert get(f"{address}/readyz").status_code == 200
        assert not address.endswith(f":{DEFAULT_PORT}")


def test_a_home_directory_that_is_not_writable_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    answer = run_duly("up", DULY_HOME=str(tmp_path / "file"))
    assert answer.returncode == 78
    assert f"cannot write to {tmp_path / 'file'}" in answer.stderr
    assert "DULY_HOME" in answer.stderr


def test_serve_runs_the_api_alone(database: str) -> None:
    environment = plain_environment(DATABASE_URL=database)
    with Program([*DULY, "serve", "--port", "0"], environment=environment) as program:
        address = program.line().removeprefix("duly: API at ")
        assert get(f"{address}/readyz").status_code == 200
        program.finish(signal.SIGTERM)


def test_psql_opens_the_embedded_database_and_never_creates_one(home: Path) -> None:
    refused = run_duly("psql", "-At", "-c", "select 1", DULY_HOME=str(home / "none"))
    assert (refused.returncode, refused.stdout, len(refused.stderr.splitlines())) == (78, "", 1)
    assert "no duly database here" in refused.stderr
    assert not (home / "none").exists()
    EmbeddedServer.start(home).close()
    answer = run_duly("psql", "-At", "-c", "select current_database()", DULY_HOME=str(home))
    assert (answer.returncode, answer.stdout) == (0, "duly\n"), answer.stderr
    assert run_duly("psql", "-c", "select no_such_thing", DULY_HOME=str(home)).returncode == 1
