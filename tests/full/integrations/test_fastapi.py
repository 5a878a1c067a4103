"""Jobs in a FastAPI application: enqueued in a request, performed by an embedded worker, stopped with the server."""

import json
import os
import signal
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import psycopg
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from psycopg import sql
from psycopg.conninfo import make_conninfo

import duly
import duly.integrations.fastapi
from duly.db.admin import create_database, drop_database
from duly.db.migrate import migrate
from duly.db.migrations import Names
from duly.db.pool import Pool
from duly.settings import Settings
from duly.testing import TestDatabases
from tests.fast.integrations.test_fastapi import application, client, greet, jobs, project
from tests.support.locks import wait_until_blocked
from tests.support.processes import PYTHON, Program, plain_environment

__all__ = ["client", "project"]

SECONDS = 60.0


def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came"


# The worker beside ----------------------------------------------------------------------------------------------------


@pytest.fixture
def bare(databases: TestDatabases, worker_id: str) -> Generator[str, None, None]:
    """Create a database without the tables of duly."""
    name = f"{databases.prefix}_{worker_id}_bare"
    yield create_database(databases.dsn, name)
    with psycopg.connect(databases.dsn, autocommit=True) as admin:
        drop_database(admin, name)


def test_a_crashed_worker_is_logged_and_restarted(bare: str, capfd: pytest.CaptureFixture[str]) -> None:
    logged: list[str] = []

    def has_died() -> bool:
        logged.append(capfd.readouterr().err)
        return "worker.crashed" in "".join(logged)

    with TestClient(application(bare, worker=True)) as client:
        until(has_died)
        assert "duly migrate" in "".join(logged)
        assert client.get("/working").json() is False
        migrate(bare, Names())
        until(lambda: client.get("/working").json())


async def test_without_a_database_url_the_embedded_server_is_started_and_migrated(home: Path) -> None:
    settings = Settings(DULY_HOME=home)  # type: ignore[call-arg]
    async with duly.integrations.fastapi.lifespan(jobs, settings=settings)(FastAPI()) as state:
        pool: Pool = state["duly"].pool
        async with pool.transaction() as tx:
            assert isinstance(await greet.on(tx).enqueue("anna"), duly.Created)
    assert (home / "data" / "PG_VERSION").exists()  # that it is stopped again, the fixture waits for


@pytest.fixture
def login(duly_database: str) -> Generator[str, None, None]:
    """Return the DSN of a login with exactly the privileges that the page names."""
    name = f"shop_{os.getpid()}"
    role = sql.Identifier(name)
    with psycopg.connect(duly_database, autocommit=True) as admin:
        quietly = sql.SQL(" with inherit false" if admin.info.server_version >= 160000 else "")
        admin.execute(sql.SQL("create role {} login").format(role))
        admin.execute(sql.SQL("grant duly_api to {}").format(role))
        admin.execute(sql.SQL("grant duly_worker to {}{}").format(role, quietly))
        try:
            yield make_conninfo(duly_database, user=name)
        finally:
            admin.execute(sql.SQL("drop role {}").format(role))


@contextmanager
def serving(project: Path, app: str, dsn: str) -> Generator[tuple[Program, Callable[..., Any]], None, None]:
    """Run uvicorn, and return a function that requests a path and returns status and body."""
    command = (*PYTHON, "-m", "uvicorn", app, "--port", "0")
    environment = plain_environment(DATABASE_URL=dsn, PYTHONPATH=str(project), PYTHONUNBUFFERED="1")
    with Program(command, environment=environment, directory=project) as server:
        host, port = server.wait_for_error(r"running on http://(\S+):(\d+)").groups()

        def send_request(path: str, method: str = "GET") -> tuple[int, Any]:
            with closing(HTTPConnection(host, int(port))) as connection:
                connection.request(method, path)
                answer = connection.getresponse()
                return answer.status, json.load(answer)

        yield server, send_request


def test_the_application_of_the_docs_enqueues_performs_and_shows_a_job(project: Path, login: str) -> None:
    with serving(project, "main:app", login) as (server, send_request):
        until(lambda: send_request("/readyz") == (200, {"working": True}))
        assert send_request("/images/a1") == (404, {"detail": "Not Found"})
        status, body = send_request("/images/a1", "POST")
        assert (status, list(body)) == (202, ["job"])
        until(lambda: send_request("/images/a1") == (200, {"width": 32}))
        assert send_request("/images/a1", "POST") == (409, {"detail": f"job {body['job']} is at it"})
        server.finish(signal.SIGTERM)
        assert "Application shutdown complete" in server.stderr_text()


def test_a_stopping_server_waits_for_its_running_job(project: Path, duly_database: str) -> None:
    with psycopg.connect(duly_database, autocommit=True) as admin:
        admin.execute("select pg_advisory_lock(42)")
        admin.execute("select ledger.enqueue('00000000-0000-0000-0000-000000000001', 'slow')")
        with serving(project, "slow:app", duly_database) as (server, _):
            wait_until_blocked(duly_database)
            server.process.send_signal(signal.SIGTERM)
            server.wait_for_error("Waiting for application shutdown")
            admin.execute("select pg_advisory_unlock(42)")
            server.finish()
            assert "Application shutdown complete" in server.stderr_text()
        found = admin.execute("select status::text, result, starts from ledger.job").fetchall()
        running_workers = admin.execute("select count(*) from duly.workers where stopped_at is null").fetchone()
    assert found == [("succeeded", "in the end", 1)]
    assert running_workers == (0,)
