"""Jobs in a FastAPI application: enqueued in a request, performed by an embedded worker, stopped with the server."""

import importlib
import re
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from fastapi import FastAPI, HTTPException, Request
from fastapi.testclient import TestClient

import duly
import duly.integrations.fastapi
from duly.errors import Misconfigured
from duly.launcher import ROOT
from duly.testing import assert_enqueued, assert_not_enqueued, drain

PAGE = (ROOT / "docs" / "fastapi.md").read_text()
jobs = duly.App()


@jobs.job("greet")
async def greet(ctx: duly.Context, name: str) -> str:
    """Greet."""
    return f"hello {name}"


# In a request ---------------------------------------------------------------------------------------------------------


def application(dsn: str, **options: Any) -> FastAPI:
    """Build an application that enqueues jobs and fails in several ways."""
    app = FastAPI(lifespan=duly.integrations.fastapi.lifespan(jobs, dsn=dsn, **options))

    @app.post("/greet/{name}")
    async def enqueue_greeting(name: str, tx: duly.integrations.fastapi.Transaction) -> str:
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
        return duly.integrations.fastapi.is_working(request)

    _ = enqueue_greeting, working
    return app


@pytest.fixture
def client(duly_database: str) -> Generator[TestClient, None, None]:
    """Return a client of the application, without a worker."""
    with TestClient(application(duly_database), raise_server_exceptions=False) as client:
        yield client


def test_job_exists_once_the_response_was_sent(client: TestClient, duly_database: str) -> None:
    answer = client.post("/greet/anna")
    with psycopg.connect(duly_database) as tx:
        assert_enqueued(tx, greet, "anna")
    (job,) = drain(jobs, duly_database)
    assert (str(job.id), job.result) == (answer.json(), "hello anna")


@pytest.mark.parametrize(("name", "status"), [("raise", 500), ("teapot", 418)])
def test_request_that_raises_enqueues_nothing(client: TestClient, duly_database: str, name: str, status: int) -> None:
    assert client.post(f"/greet/{name}").status_code == status
    with psycopg.connect(duly_database) as tx:
        assert_not_enqueued(tx, greet)


def test_failed_commit_is_not_answered_as_success(client: TestClient, duly_database: str) -> None:
    with psycopg.connect(duly_database) as tx:
        tx.execute("create table promises (kept int unique deferrable initially deferred)")
    assert client.post("/greet/late").status_code == 500
    with psycopg.connect(duly_database) as tx:
        assert_not_enqueued(tx, greet)


def test_without_a_worker_is_working_is_false(client: TestClient) -> None:
    assert client.get("/working").json() is False


def test_an_application_without_the_lifespan_gets_a_clear_error() -> None:
    app = FastAPI()

    @app.get("/working")
    def working(request: Request) -> bool:
        return duly.integrations.fastapi.is_working(request)

    _ = working
    with pytest.raises(Misconfigured, match="not created with duly's lifespan"):
        TestClient(app).get("/working")


@pytest.mark.parametrize("worker", [False, True])
def test_application_starts_and_stops_without_its_database(tmp_path: Path, worker: bool) -> None:
    with TestClient(application(f"host={tmp_path} dbname=nowhere", worker=worker)) as client:
        assert client.get("/working").json() is False


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
    """Write the files and tables of the page, and a job that lasts as long as a test wants."""
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        name, _, code = block.partition("\n")
        (tmp_path / name.removeprefix("# ")).write_text(code)
    (tmp_path / "slow.py").write_text(SLOW)
    with psycopg.connect(duly_database) as tx:
        for block in re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL):
            tx.execute(block)
    return tmp_path


async def test_documented_lifespan_composes_with_duly_lifespan(
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
