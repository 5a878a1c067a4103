"""Jobs in a FastAPI application: asked for with a request, performed beside the server, stopped with it."""

import importlib
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import psycopg
import pytest
from fastapi import FastAPI, HTTPException, Request
from fastapi.testclient import TestClient
from psycopg import sql
from psycopg.conninfo import make_conninfo

import duly
import duly.fastapi
from duly.db.admin import create_database, drop_database
from duly.db.migrate import migrate
from duly.db.migrations import Names
from duly.db.pool import Pool
from duly.errors import Misconfigured
from duly.launcher import ROOT
from duly.settings import Settings
from duly.testing import TestDatabases, assert_enqueued, assert_not_enqueued, drain
from tests.support.locks import wait_until_blocked
from tests.support.processes import PYTHON, Program, plain_environment

SECONDS = 60.0
PAGE = (ROOT / "docs" / "fastapi.md").read_text()
jobs = duly.App()


@jobs.job("greet")
async def greet(ctx: duly.Context, name: str) -> str:
    """Say hello."""
    return f"hello {name}"


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another thread or process does."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came"


# In a request ---------------------------------------------------------------------------------------------------------


def application(dsn: str, **options: Any) -> FastAPI:
    """An application that greets, and fails in all the ways there are."""
    app = FastAPI(lifespan=duly.fastapi.lifespan(jobs, dsn=dsn, **options))

    @app.post("/greet/{name}")
    async def ask(name: str, tx: duly.fastapi.Transaction) -> str:
        made = await greet.on(tx).enqueue(name)
        if name == "raise":
            raise RuntimeError(name)
        if name == "teapot":
            raise HTTPException(418)
        if name == "late":
            await tx.execute("insert into promises values (1), (1)")
        return str(made.row)

    @app.get("/working")
    def working(request: Request) -> bool:
        return duly.fastapi.is_working(request)

    _ = ask, working
    return app


@pytest.fixture
def client(duly_database: str) -> Generator[TestClient, None, None]:
    """A client of it, without a worker."""
    with TestClient(application(duly_database), raise_server_exceptions=False) as client:
        yield client


def test_a_job_is_there_once_the_answer_is(client: TestClient, duly_database: str) -> None:
    answer = client.post("/greet/anna")
    with psycopg.connect(duly_database) as tx:
        assert_enqueued(tx, greet, "anna")
    (job,) = drain(jobs, duly_database)
    assert (str(job.id), job.result) == (answer.json(), "hello anna")


@pytest.mark.parametrize(("name", "status"), [("raise", 500), ("teapot", 418)])
def test_a_request_that_raises_asked_for_nothing(
    client: TestClient, duly_database: str, name: str, status: int
) -> None:
    assert client.post(f"/greet/{name}").status_code == status
    with psycopg.connect(duly_database) as tx:
        assert_not_enqueued(tx, greet)


def test_a_commit_that_fails_is_not_told_as_success(client: TestClient, duly_database: str) -> None:
    with psycopg.connect(duly_database) as tx:
        tx.execute("create table promises (kept int unique deferrable initially deferred)")
    assert client.post("/greet/late").status_code == 500
    with psycopg.connect(duly_database) as tx:
        assert_not_enqueued(tx, greet)


def test_without_a_worker_nobody_works(client: TestClient) -> None:
    assert client.get("/working").json() is False


def test_an_application_that_does_not_live_with_duly_is_told_so() -> None:
    app = FastAPI()

    @app.get("/working")
    def working(request: Request) -> bool:
        return duly.fastapi.is_working(request)

    _ = working
    with pytest.raises(Misconfigured, match="does not live with duly"):
        TestClient(app).get("/working")


# The worker beside ----------------------------------------------------------------------------------------------------


@pytest.fixture
def bare(databases: TestDatabases, worker_id: str) -> Generator[str, None, None]:
    """A database without duly's tables."""
    name = f"{databases.prefix}_{worker_id}_bare"
    yield create_database(databases.dsn, name)
    with psycopg.connect(databases.dsn, autocommit=True) as admin:
        drop_database(admin, name)


def test_a_worker_that_dies_is_told_and_followed_by_another(bare: str, capfd: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []

    def has_died() -> bool:
        said.append(capfd.readouterr().err)
        return "the worker beside this server died; another follows" in "".join(said)

    with TestClient(application(bare, worker=True)) as client:
        until(has_died)
        assert "duly migrate" in "".join(said)
        assert client.get("/working").json() is False
        migrate(bare, Names())
        until(lambda: client.get("/working").json())


@pytest.mark.parametrize("worker", [False, True])
def test_a_server_starts_and_ends_though_its_database_is_away(tmp_path: Path, worker: bool) -> None:
    with TestClient(application(f"host={tmp_path} dbname=nowhere", worker=worker)) as client:
        assert client.get("/working").json() is False


async def test_without_an_address_the_embedded_server_is_used_and_migrated(home: Path) -> None:
    settings = Settings(DULY_HOME=home)  # type: ignore[call-arg]
    async with duly.fastapi.lifespan(jobs, settings=settings)(FastAPI()) as state:
        pool: Pool = state["duly"].pool
        async with pool.transaction() as tx:
            assert isinstance(await greet.on(tx).enqueue("anna"), duly.Created)
    assert (home / "data" / "PG_VERSION").exists()  # that it is stopped again, the fixture waits for


# The application of the docs, served ----------------------------------------------------------------------------------

SLOW = """
import duly
from main import app, jobs

@jobs.job("slow")
async def slow(ctx: duly.Context) -> str:
    async with ctx.transaction() as tx:
        await tx.execute("select pg_advisory_xact_lock(42)")
    return "in the end"
"""


@pytest.fixture
def project(tmp_path: Path, duly_database: str) -> Path:
    """The files and the tables of the page, and a job that lasts as long as a test wants."""
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        name, _, code = block.partition("\n")
        (tmp_path / name.removeprefix("# ")).write_text(code)
    (tmp_path / "slow.py").write_text(SLOW)
    with psycopg.connect(duly_database) as tx:
        for block in re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL):
            tx.execute(block)
    return tmp_path


@pytest.fixture
def login(duly_database: str) -> Generator[str, None, None]:
    """The address as a login that may do what the page says it must be allowed to, and no more."""
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
    """Real uvicorn, and a way to ask it: the status and the body of an answer."""
    command = (*PYTHON, "-m", "uvicorn", app, "--port", "0")
    environment = plain_environment(DATABASE_URL=dsn, PYTHONPATH=str(project), PYTHONUNBUFFERED="1")
    with Program(command, environment=environment, directory=project) as server:
        host, port = server.wait_for_error(r"running on http://(\S+):(\d+)").groups()

        def ask(path: str, method: str = "GET") -> tuple[int, Any]:
            with closing(HTTPConnection(host, int(port))) as connection:
                connection.request(method, path)
                answer = connection.getresponse()
                return answer.status, json.load(answer)

        yield server, ask


def test_the_application_of_the_docs_asks_performs_and_shows(project: Path, login: str) -> None:
    with serving(project, "main:app", login) as (server, ask):
        until(lambda: ask("/readyz") == (200, {"working": True}))
        assert ask("/images/a1") == (404, {"detail": "Not Found"})
        status, body = ask("/images/a1", "POST")
        assert (status, list(body)) == (202, ["job"])
        until(lambda: ask("/images/a1") == (200, {"width": 32}))
        assert ask("/images/a1", "POST") == (409, {"detail": f"job {body['job']} is at it"})
        server.finish(signal.SIGTERM)
        assert "Application shutdown complete" in server.said()


def test_a_server_that_is_stopped_waits_for_the_job_under_way(project: Path, duly_database: str) -> None:
    with psycopg.connect(duly_database, autocommit=True) as admin:
        admin.execute("select pg_advisory_lock(42)")
        admin.execute("select ledger.enqueue('00000000-0000-0000-0000-000000000001', 'slow')")
        with serving(project, "slow:app", duly_database) as (server, _):
            wait_until_blocked(duly_database)
            server.process.send_signal(signal.SIGTERM)
            server.wait_for_error("Waiting for application shutdown")
            admin.execute("select pg_advisory_unlock(42)")
            server.finish()
            assert "Application shutdown complete" in server.said()
        found = admin.execute("select status::text, result, starts from ledger.job").fetchall()
        gone = admin.execute("select count(*) from duly.workers where stopped_at is null").fetchone()
    assert found == [("succeeded", "in the end", 1)]
    assert gone == (0,)


async def test_the_lifespan_of_the_docs_is_composed_with_ours(
    project: Path, duly_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", duly_database)
    monkeypatch.setattr(sys, "path", [str(project), *sys.path])
    try:
        app: Any = importlib.import_module("composed").app
        async with app.router.lifespan_context(app) as state:
            assert state["greeting"] == "hello"
            async with state["duly"].pool.transaction() as tx:
                assert await (await tx.execute("select current_database()")).fetchone()
    finally:
        for name in ("composed", "main"):
            sys.modules.pop(name, None)
