"""The engine in processes that cannot import what `pip install duly` leaves out."""

import json
import subprocess
from collections.abc import Generator, Sequence
from itertools import chain

import pytest

from duly.extras import MODULES
from duly.launcher import ROOT
from duly.testing import TestDatabases
from tests.support.api import client_for
from tests.support.processes import PYTHON, Program, plain_environment

MIGRATING = ("alembic", "sqlalchemy")
POSIX_ONLY = ("uvloop", "fcntl", "grp", "pty", "pwd", "resource", "termios", "tty")
SERVER = (*MODULES["server"], "starlette", "h11")
WITHOUT_SOME = """
import sys
sys.modules.update(dict.fromkeys({blocked!r}))
"""
COMMAND = """
import duly.extras
duly.extras.is_checkout = lambda: False
from duly.cli import main
main()
"""
ENQUEUE = """
import asyncio, sys, psycopg, duly

app = duly.App()

@app.job("greet")
async def greet(ctx: duly.Context, name: str) -> str:
    return f"hello {name}"

async def enqueue_async() -> None:
    async with await psycopg.AsyncConnection.connect(sys.argv[1]) as connection:
        print((await greet.on(connection, key="b").enqueue("Bo")).job_id)

with psycopg.connect(sys.argv[1]) as connection:
    print(greet.on(connection, key="a").enqueue("Anna").job_id)
asyncio.run(enqueue_async())
"""


def without(program: str, *blocked: str) -> Sequence[str]:
    """The command of a program that cannot import some modules."""
    return [*PYTHON, "-c", WITHOUT_SOME.format(blocked=blocked) + program]


def engine(*blocked: str, allowed: Sequence[str] = ()) -> Sequence[str]:
    """The command `duly` where no extra is installed but the allowed ones, and some modules more are not."""
    extras = chain.from_iterable(modules for extra, modules in MODULES.items() if extra not in allowed)
    return without(COMMAND, *extras, *blocked)


def run(command: Sequence[str], *arguments: str, dsn: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    variables = plain_environment(**({"DATABASE_URL": dsn} if dsn else {}), **environment)
    return subprocess.run([*command, *arguments], env=variables, cwd=ROOT, capture_output=True, text=True, timeout=60)


def output(answer: subprocess.CompletedProcess[str]) -> str:
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@pytest.fixture(scope="module")
def migrated(server: str, worker_id: str) -> Generator[str, None, None]:
    """The address of a database that the engine alone has migrated."""
    with TestDatabases(server, f"duly_test_alone_{worker_id}", template="template0").clone(worker_id) as dsn:
        assert output(run(engine(), "migrate", dsn=dsn)) == "duly: the database is at engine_0001\n"
        yield dsn


def test_the_command_line_needs_neither_extras_nor_sqlalchemy(migrated: str) -> None:
    duly = engine(*MIGRATING)
    job = json.loads(output(run(duly, "jobs", "enqueue", "greet", "--json", dsn=migrated)))["id"]
    assert output(run(duly, "worker", "--once", "--app", "examples.greet:app", dsn=migrated))
    assert json.loads(output(run(duly, "jobs", "show", job, "--json", dsn=migrated)))["status"] == "succeeded"
    assert output(run(duly, "verify", dsn=migrated)).startswith("duly: contracts duly, ledger; ")
    assert "acme" in output(run(duly, "orgs", "create", "acme", dsn=migrated))
    assert "posts" not in output(run(duly, "--help", dsn=migrated))


def test_doctor_needs_no_extra(migrated: str) -> None:
    findings = json.loads(run(engine(), "doctor", "--json", dsn=migrated).stdout)
    assert not [each for each in findings if "could not be checked" in each["found"]]


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["serve"], "server"),
        (["up"], "server"),
        (["bot"], "telegram"),
        (["posts", "list"], "apps"),
        (["schedule", "list"], "apps"),
        (["ingest", "--help"], "apps"),
    ],
)
def test_a_command_names_the_extra_that_it_needs(arguments: Sequence[str], extra: str) -> None:
    refused = run(engine(), *arguments)
    assert refused.returncode == 78
    assert refused.stderr == (
        f"duly: this needs the extra '{extra}', which is not installed: pip install 'duly[{extra}]'\n"
    )


def test_an_application_that_is_named_needs_its_extra(migrated: str) -> None:
    refused = run(engine(), "jobs", "list", dsn=migrated, DULY_APPS="posts")
    assert refused.returncode == 78
    assert refused.stderr.endswith(
        "DULY_APPS='posts': this needs the extra 'apps', which is not installed: pip install 'duly[apps]'\n"
    )


def test_the_server_serves_jobs_without_the_applications(migrated: str) -> None:
    command = [*engine(*MIGRATING, allowed=["server"]), "serve", "--port", "0", "--json"]
    with Program(command, environment=plain_environment(DATABASE_URL=migrated)) as server:
        address = json.loads(server.line())["api"]
        with client_for(address) as client:
            assert client.get("/v1/jobs").status_code == 200
            paths = client.get("/openapi.json").json()["paths"]
    assert "/v1/jobs" in paths
    assert "/v1/schedules" not in paths


def test_the_sdk_enqueues_without_uvloop_and_modules_of_posix(migrated: str) -> None:
    program = without(ENQUEUE, *chain.from_iterable(MODULES.values()), *MIGRATING, *POSIX_ONLY)
    first, second = output(run(program, migrated)).split()
    assert first != second
