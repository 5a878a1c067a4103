"""Applications are declared by import paths and switched on by name: what is off is nowhere (DULY_APPS)."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import typer.testing
from fastapi.routing import APIRoute
from psycopg.conninfo import make_conninfo
from typer.main import get_command

from duly.applications import DECLARATIONS, Application, describe_as_off, has_bot, list_applications, load, parse_names
from duly.apps.ingest.cli.once import main as run_one_cycle
from duly.assembly import build_works
from duly.cli.app import list_commands
from duly.cli.serve import build_webhook
from duly.cli.up import is_bot_polling
from duly.configuration import Part
from duly.db.migrations import Names
from duly.doctor.checks import load_checks
from duly.errors import InvalidArgument, Misconfigured
from duly.http.app import build_app
from duly.http.application import HttpPart
from duly.settings import Settings, load_settings
from duly.verify.contract import FILES, list_contracts
from tests.support.api import client_for, running, temporary_object_store
from tests.support.bot_api import TOKEN
from tests.support.command_line import CommandLine

ROUTES = {
    "posts": "/v1/createPostIntent",
    "scheduler": "/v1/schedules",
    "ingest": "/v1/ingest/sessions",
}
ENGINE_WORKS = ["ledger", "outbox"]
SELECTIONS = ["none", *DECLARATIONS, "posts,ingest", "posts,scheduler,ingest"]


def settings(apps: str, **more: str) -> Settings:
    """Return settings with these applications."""
    return Settings(DULY_APPS=apps, **more)  # type: ignore[call-arg]


def on(apps: str) -> Sequence[Application]:
    return list_applications(apps)


def off(apps: str) -> Sequence[Application]:
    return [each for each in list_applications() if each.name not in parse_names(apps)]


@pytest.fixture
def cli(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command line, whose commands are listed anew for every call."""
    monkeypatch.setattr(typer.testing, "_get_command", get_command)
    return CommandLine(database, tmp_path)


# Declarations ---------------------------------------------------------------------------------------------------------


def paths_of(application: Application) -> Iterator[str]:
    """Yield every import path of a declaration."""
    yield from (application.settings, application.http)
    yield from application.works.values()
    yield from application.checks.values()
    yield from application.computed_invariants.values()
    if application.calendar_events:
        yield application.calendar_events


def test_every_path_of_a_declaration_leads_somewhere() -> None:
    for application in list_applications():
        assert issubclass(load(application.settings), Part)
        assert issubclass(Settings, load(application.settings))
        assert isinstance(load(application.http), HttpPart)
        assert all(load(path) for path in paths_of(application))
        assert {path.split(".")[2] for path in paths_of(application)} == {application.name}
        assert FILES[application.name].exists()
        assert (application.directory / "invariants.sql").exists()


def test_names_are_listed_in_the_order_of_their_declarations() -> None:
    assert parse_names("ingest,posts") == ("posts", "ingest")
    assert parse_names("none") == ()
    assert [each.name for each in list_applications()] == list(DECLARATIONS)


@pytest.mark.parametrize("value", ["post", "posts,", "posts scheduler", "none,posts", "POSTS", "all"])
def test_an_unknown_application_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DULY_APPS", value)
    message = f"DULY_APPS='{value}': must be none, or some of posts, scheduler, ingest with commas between"
    with pytest.raises(Misconfigured) as refused:
        load_settings()
    assert str(refused.value) == message
    with pytest.raises(Misconfigured) as refused:
        get_command(typer_app())
    assert str(refused.value) == message


def typer_app() -> Any:
    from duly.cli import app

    return app


def test_the_fix_adds_the_application_to_those_that_are_on() -> None:
    ingest = next(each for each in list_applications() if each.name == "ingest")
    assert describe_as_off("none", "this", ingest).endswith("set DULY_APPS=ingest")
    assert describe_as_off("posts", "this", ingest).endswith("set DULY_APPS=posts,ingest")


# What is on, and what is off ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("apps", SELECTIONS)
def test_the_api_has_the_routes_of_what_is_on(apps: str) -> None:
    app = build_app(settings(apps), "postgresql://nowhere/at_all", cast("Any", None))
    paths = set(app.openapi()["paths"])
    assert "/v1/jobs" in paths
    assert {name for name, path in ROUTES.items() if path in paths} == set(parse_names(apps))
    expected = {
        route.path
        for each in on(apps)
        for router in cast("HttpPart", load(each.http)).routers
        for route in router.routes
        if isinstance(route, APIRoute) and route.include_in_schema
    }
    assert {path for path in paths if not path.startswith(("/v1/jobs", "/healthz", "/readyz"))} == expected


@pytest.mark.parametrize("apps", ["none", "posts", "scheduler", "ingest"])
def test_the_api_serves_what_is_on_alone(apps: str, database: str) -> None:
    with temporary_object_store() as objects:
        app = build_app(settings(apps), make_conninfo(database, user=Names().api), objects)
        with running(app) as address, client_for(address) as client:
            assert client.get("/v1/jobs").status_code == 200
            assert client.get("/readyz").json()["ready"]
            found = {name for name, path in ROUTES.items() if client.post(path, json={}).status_code != 404}
            has_slo = client.get("/metrics").status_code == 200
    assert found == set(parse_names(apps))
    assert has_slo == ("posts" in parse_names(apps))


@pytest.mark.parametrize("apps", SELECTIONS)
def test_a_worker_does_the_work_of_what_is_on(apps: str) -> None:
    names = [name for each in on(apps) for name in each.works]
    assert [work.name for work in build_works(settings(apps))] == ENGINE_WORKS + names
    for each in off(apps):
        for name in each.works:
            with pytest.raises(Misconfigured) as refused:
                build_works(settings(apps), [name])
            assert str(refused.value) == describe_as_off(apps, f"--only {name}", each)


def test_an_unknown_work_is_refused_by_the_names_that_there_are() -> None:
    with pytest.raises(InvalidArgument, match=r"there is no work 'mail'; there are: ledger, outbox, posts$"):
        build_works(settings("posts"), ["mail"])


@pytest.mark.parametrize("apps", SELECTIONS)
def test_doctor_and_verify_check_what_is_on(apps: str) -> None:
    checks = set(load_checks(apps))
    assert {name for each in on(apps) for name in each.checks} <= checks
    assert not {name for each in off(apps) for name in each.checks} & checks
    assert list_contracts(apps) == ["duly", "ledger", *parse_names(apps)]


def test_the_commands_of_what_is_on_are_listed() -> None:
    for apps in SELECTIONS:
        names = {command.name for command in list_commands(apps)}
        assert {"jobs", "verify", "test"} <= names
        assert {command.name for each in on(apps) for command in each.commands} <= names
        assert not {command.name for each in off(apps) for command in each.commands} & names


@pytest.mark.parametrize("apps", ["none", "posts", "scheduler", "ingest"])
def test_a_command_of_what_is_off_is_refused_with_the_fix(
    apps: str, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DULY_APPS", apps)
    for each in off(apps):
        for command in each.commands:
            refused = cli.run(command.name, "--help")
            assert isinstance(refused.exception, Misconfigured)
            assert str(refused.exception) == describe_as_off(apps, f"the command '{command.name}'", each)
    for each in on(apps):
        for command in each.commands:
            assert cli.run(command.name, "--help").exit_code == 0
    assert cli.run("no-such-command").exit_code == 2


@pytest.mark.parametrize("apps", ["none", "scheduler"])
def test_commands_of_the_engine_do_without_what_is_off(
    apps: str, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DULY_APPS", apps)
    names = ", ".join(list_contracts(apps))
    assert f"duly: contracts {names};" in cli.output("verify")
    checks = [finding["check"] for finding in json.loads(cli.run("doctor", "--json").stdout)]
    assert checks == list(load_checks(apps))
    assert cli.json("worker", "--once") == {"rows": 0}
    refused = cli.run("verify", "--contract", "posts")
    assert isinstance(refused.exception, Misconfigured)
    assert f"DULY_APPS={apps}: the contract 'posts' belongs to the application posts" in str(refused.exception)
    document = json.loads(cli.output("verify", "--print-contract"))
    assert [each["name"] for each in document["contracts"]] == list_contracts(apps)


def test_the_contracts_worker_says_that_ingest_is_off(
    database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DATABASE_URL", database)
    monkeypatch.setenv("DULY_APPS", "posts")
    with pytest.raises(SystemExit) as ended:
        run_one_cycle()
    assert ended.value.code == 1
    assert "set DULY_APPS=posts,ingest" in capsys.readouterr().err


@pytest.mark.parametrize("apps", ["scheduler", "scheduler,ingest"])
def test_a_calendar_has_the_events_of_what_is_on(apps: str, cli: CommandLine, database: str) -> None:
    cli.output("people", "create", "anna", "--telegram-id", "42")
    with temporary_object_store() as objects:
        app = build_app(settings(apps), make_conninfo(database, user=Names().api), objects)
        with running(app) as address, client_for(address) as client:
            url = client.post("/v1/calendar", headers={"Duly-User": "anna"}).json()["url"]
            assert client.get(url).text.startswith("BEGIN:VCALENDAR")
    assert bool([each for each in on(apps) if each.calendar_events]) == ("ingest" in apps)


@pytest.mark.parametrize("apps", SELECTIONS)
def test_the_bot_runs_only_where_both_applications_it_serves_are_on(apps: str) -> None:
    with_bot = settings(apps, TELEGRAM_BOT_TOKEN=TOKEN)
    assert has_bot(apps) == is_bot_polling(with_bot) == ({"scheduler", "ingest"} <= set(parse_names(apps)))
    if not has_bot(apps):
        assert build_webhook(settings(apps, TELEGRAM_BOT_TOKEN=TOKEN, TELEGRAM_WEBHOOK_SECRET="s" * 20)) is None


def test_the_bot_names_the_applications_it_needs(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DULY_APPS", "posts")
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", TOKEN)
    refused = cli.run("bot")
    assert isinstance(refused.exception, Misconfigured)
    assert "DULY_APPS=posts: the bot serves the applications scheduler and ingest" in str(refused.exception)
