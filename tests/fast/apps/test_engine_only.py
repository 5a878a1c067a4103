"""A database with the engine alone: every command of the engine works there, and applications can be added later."""

from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest
import typer.testing
from typer.main import get_command

from duly import App, Context
from duly.db.installed import choose_applications
from duly.db.migrate import migrate
from duly.db.migrations import Names
from duly.errors import NotMigrated
from duly.http.app import build_app
from duly.launcher import ROOT
from duly.settings import Settings
from duly.testing import TestDatabases, drain
from duly.testing.databases import build_test_template
from tests.support.api import client_for, running
from tests.support.command_line import CommandLine

ENGINE_SCHEMAS = {"duly", "ledger"}
app = App()


@app.job("greet")
def greet(ctx: Context, name: str) -> str:
    """Return a greeting."""
    return f"hello {name}"


@pytest.fixture
def empty(server: str, worker_id: str) -> Generator[str, None, None]:
    """The address of an empty database."""
    with TestDatabases(server, f"duly_test_engine_{worker_id}", template="template0").clone(worker_id) as dsn:
        yield dsn


@pytest.fixture
def engine_only(empty: str) -> str:
    """The address of a database with the engine alone."""
    migrate(empty, Names(), apps="none")
    return empty


@pytest.fixture
def cli(empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command line, whose commands are listed anew for every call."""
    monkeypatch.delenv("DULY_APPS", raising=False)
    monkeypatch.setattr(typer.testing, "_get_command", get_command)
    return CommandLine(empty, tmp_path)


def list_schemas(dsn: str) -> set[str]:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("select nspname from pg_namespace where nspname !~ '^pg_|^information_schema'")
        return {name for (name,) in rows} - {"public"}


def test_migrating_without_applications_makes_the_schemas_of_the_engine_alone(cli: CommandLine, empty: str) -> None:
    assert cli.output("migrate", "--apps", "none") == "duly: the database is at engine_0001\n"
    assert list_schemas(empty) == ENGINE_SCHEMAS
    assert cli.output("migrate") == "duly: the database is at engine_0001\n"


@pytest.mark.parametrize(("apps", "revisions"), [("none", "engine_0001"), ("posts", "engine_0001, posts_0001")])
def test_an_empty_database_gets_the_applications_that_are_on(
    apps: str, revisions: str, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DULY_APPS", apps)
    assert cli.output("migrate") == f"duly: the database is at {revisions}\n"
    assert ("create table posts.posts (" in cli.output("migrate", "--sql")) == (apps == "posts")


@pytest.mark.usefixtures("engine_only")
def test_commands_of_the_engine_work_without_a_setting(cli: CommandLine) -> None:
    job = cli.json("jobs", "enqueue", "greet", "--payload", '{"name": "Anna"}')["id"]
    assert cli.json("jobs", "show", job)["type"] == "greet"
    assert cli.json("jobs", "list")["items"]
    assert cli.output("jobs", "explain", job)
    assert cli.json("orgs", "create", "acme")
    assert cli.output("verify").startswith("duly: contracts duly, ledger; ")
    findings = {each["check"]: each for each in cli.json("doctor")}
    assert "posts" not in findings
    assert not [each for each in findings.values() if "could not be checked" in each["found"]]
    assert findings["schema"]["found"] == "engine_0001, the newest"


@pytest.mark.usefixtures("engine_only")
def test_a_worker_performs_jobs(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    job = cli.json("jobs", "enqueue", "greet", "--payload", '{"name": "Anna"}')["id"]
    assert cli.output("worker", "--once", "--app", "examples.greet:app").endswith("duly: 1 rows in this cycle\n")
    assert cli.json("jobs", "show", job)["status"] == "succeeded"


def test_the_api_serves_jobs(engine_only: str) -> None:
    settings = choose_applications(Settings(), engine_only)
    assert settings.apps == "none"
    with (
        running(build_app(settings, engine_only, role=Names().api)) as address,
        client_for(address) as client,
    ):
        assert client.post("/v1/jobs", json={"type": "greet", "payload": {"name": "Anna"}}).status_code == 201
        assert client.get("/readyz").json()["ready"]
        assert client.get("/v1/schedules").status_code == 404


def test_the_test_kit_makes_such_a_database(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DULY_APPS", "none")
    build_test_template(empty)
    assert list_schemas(empty) == ENGINE_SCHEMAS
    with psycopg.connect(empty) as connection:
        greet.on(connection).enqueue("Anna")
    assert [job.result for job in drain(app, empty)] == ["hello Anna"]


@pytest.mark.usefixtures("engine_only")
def test_an_application_can_be_added_later(cli: CommandLine, empty: str) -> None:
    refused = cli.error("posts", "list")
    assert isinstance(refused, NotMigrated)
    assert str(refused).endswith("those of an application with: duly migrate --apps NAME")
    cli.output("jobs", "enqueue", "greet", "--payload", '{"name": "Anna"}')
    assert cli.output("migrate", "--apps", "posts") == "duly: the database is at engine_0001, posts_0001\n"
    assert cli.json("posts", "list")["items"] == []
    assert len(cli.json("jobs", "list")["items"]) == 1
    assert choose_applications(Settings(), empty).apps == "posts"
    assert cli.output("verify").startswith("duly: contracts duly, ledger, posts; ")
    assert "posts" in {each["check"] for each in cli.json("doctor")}


def test_a_setting_and_a_database_without_tables_change_nothing(empty: str, engine_only: str) -> None:
    named = Settings(DULY_APPS="posts")  # type: ignore[call-arg]
    assert choose_applications(named, engine_only) is named
    migrate(empty, Names(), to="engine@base")
    assert choose_applications(Settings(), empty).apps == "posts,scheduler,ingest"
