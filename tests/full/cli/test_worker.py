"""`duly worker` as a process: its output, its exit codes, and what it refuses."""

import json
import signal
from http.client import HTTPConnection
from urllib.parse import SplitResult, urlsplit

import psycopg
from psycopg.conninfo import make_conninfo

from tests.support.processes import PYTHON, Program, plain_environment

WORKER = (*PYTHON, "-m", "duly", "worker")


def environment(database: str, **more: str) -> dict[str, str]:
    return plain_environment(DATABASE_URL=database, DULY_LOG_FORMAT="json", **more)


def test_a_worker_process_registers_runs_and_unregisters(database: str) -> None:
    with Program(WORKER, environment=environment(database, WORKER_ID="night")) as worker:
        started = json.loads(worker.line())
        assert (started["event"], started["worker"]) == ("worker.started", "night")
        with psycopg.connect(database) as admin:
            assert admin.execute("select worker_id, stopped_at from duly.workers").fetchall() == [("night", None)]
        assert worker.finish(signal.SIGTERM) == 0
    with psycopg.connect(database) as admin:
        assert admin.execute("select stopped_at is not null from duly.workers").fetchall() == [(True,)]


def test_worker_once_exits_after_one_cycle(database: str) -> None:
    with Program((*WORKER, "--once", "--json"), environment=environment(database, DULY_LOG_LEVEL="error")) as worker:
        assert json.loads(worker.line()) == {"rows": 0}
        assert worker.finish() == 0


def test_a_worker_runs_under_a_login_that_is_a_member_of_its_role(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("drop role if exists night_login")
        admin.execute("create role night_login login in role duly_worker")
    try:
        login = make_conninfo(database, user="night_login")
        with Program((*WORKER, "--once"), environment=environment(login, DULY_LOG_LEVEL="error")) as worker:
            assert worker.line() == "duly: 0 rows in this cycle"
            assert worker.finish() == 0
    finally:
        with psycopg.connect(database, autocommit=True) as admin:
            admin.execute("drop role night_login")


def test_an_unknown_work_type_is_refused_by_name(database: str) -> None:
    with Program((*WORKER, "--only", "nonsense"), environment=environment(database)) as worker:
        assert worker.finish() == 2
        assert "there is no work 'nonsense'" in worker.stderr_text()


def test_an_unmigrated_database_is_refused_with_the_migrate_command(server: str) -> None:
    empty = make_conninfo(server, dbname="template1")
    with Program(WORKER, environment=environment(empty)) as worker:
        assert worker.finish() == 78
        assert "duly migrate" in worker.stderr_text()


def test_a_worker_reports_an_unreachable_database_at_once() -> None:
    unreachable = "postgresql://user:hunter2@127.0.0.1:1/none"
    with Program(WORKER, environment=environment(unreachable)) as worker:
        assert worker.finish() == 69
        assert "hunter2" not in worker.stderr_text()


def get(url: SplitResult, path: str) -> tuple[int, str]:
    """What the worker's port says."""
    connection = HTTPConnection(url.hostname or "", url.port or 0, timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    printed_text = answer.status, answer.read().decode()
    connection.close()
    return printed_text


def test_a_worker_with_a_port_serves_health_and_metrics(database: str) -> None:
    with Program((*WORKER, "--port", "0"), environment=environment(database)) as worker:
        printed_text = [json.loads(worker.line()) for _ in range(2)]
        address: str = next(line["address"] for line in printed_text if line["event"] == "health.listening")
        url = urlsplit(address)
        for path, expected in (("/healthz", '"ok"'), ("/readyz", '"ok"'), ("/metrics", "duly_build_info")):
            status, body = get(url, path)
            while path == "/readyz" and status == 503:  # until the database has first answered
                status, body = get(url, path)
            assert status == 200
            assert expected in body
        assert worker.finish(signal.SIGINT) == 0
