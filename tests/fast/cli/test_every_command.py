"""Every command, in process: what it refuses and why; and a way through those that have no other test in this tier."""

import shlex
from collections.abc import Generator
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from duly.errors import DulyError, InvalidArgument, Misconfigured, NotFound, NotMigrated
from duly.testing import TestDatabases
from tests.fast.cli.test_help import COMMANDS
from tests.support.command_line import CommandLine

ID = "019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77"

# What each command says of something that is not there, or that makes no sense.
INVALID_CALLS: dict[str, tuple[type[DulyError], str]] = {
    f"ingest timeline {ID}": (NotFound, f"there is no session {ID}"),
    f"ingest show {ID}": (NotFound, f"there is no session {ID}"),
    f"ingest explain {ID}": (NotFound, f"there is no session {ID}"),
    "ingest day 2026-02-10 --user 42": (NotFound, "nothing is known of 2026-02-10"),
    "ingest diff 2026-02-10 1 2 --user 42": (NotFound, "there is no version 1 of 2026-02-10"),
    "ingest replay 2026-02-10 --user 42": (NotFound, "nothing is known of 2026-02-10"),
    "keys create ci --scope nonsense": (InvalidArgument, "unknown scope: nonsense"),
    "keys revoke duly_nothing": (NotFound, "there is no key with the prefix duly_nothing"),
    "orgs revoke unknown": (NotFound, "there is no org 'unknown'"),
    "people create 'two words'": (InvalidArgument, "a uid must have"),
    "people revoke unknown": (NotFound, "there is no person with the uid 'unknown'"),
    "people set unknown --zone UTC": (NotFound, "there is no person with the uid 'unknown'"),
    "people unlink-telegram unknown": (NotFound, "there is no person with the uid 'unknown'"),
    "people link unknown 1": (NotFound, "there is no person with the uid 'unknown'"),
    "people link-telegram unknown": (Misconfigured, "TELEGRAM_BOT_TOKEN is not set"),
    f"posts show {ID}": (NotFound, f"there is no post {ID}"),
    f"posts explain {ID}": (NotFound, f"there is no post {ID}"),
    f"posts timeline {ID}": (NotFound, f"there is no post {ID}"),
    f"jobs show {ID}": (NotFound, f"there is no job {ID}"),
    f"jobs timeline {ID}": (NotFound, f"there is no job {ID}"),
    "schedule archive 7": (NotFound, "there is no schedule 7"),
    "schedule explain 7": (NotFound, "there is no run 7"),
    "schedule timeline 7": (NotFound, "there is no run 7"),
    "schedule next nonsense": (InvalidArgument, "rule: must begin with `cron:`"),
    "schedule upcoming --user unknown": (NotFound, "there is no person with the uid 'unknown'"),
    "expenses list --user unknown": (NotFound, "there is no person with the uid 'unknown'"),
    "expenses export --format csv --user unknown": (NotFound, "there is no person with the uid 'unknown'"),
    "verify --contract nothing": (InvalidArgument, "there is no contract 'nothing'"),
    "migrate --to nowhere": (Misconfigured, "--to nowhere: no such revision"),
    "worker --once --only nothing": (InvalidArgument, "--only nothing: there is no work 'nothing'"),
}
# Commands that take nothing, or nothing that could be wrong: what they say where our tables are missing.
NEED_TABLES = (
    *("jobs limits", "jobs list", "orgs list", "people list", "keys list", "keys rotate-links", "posts list"),
    *("posts release", "posts repair", "partitions list", "slo", "schedule list", "schedule runs", "expenses list"),
    *("notifications list", "worker --once", "orgs create acme", "people create anna"),
)


@pytest.fixture
def cli(database: str, tmp_path: Path) -> CommandLine:
    """The commands of a migrated database."""
    return CommandLine(database, tmp_path)


@pytest.fixture
def cli_without_tables(server: str, worker_id: str, tmp_path: Path) -> Generator[CommandLine, None, None]:
    """The commands of a database in which there is nothing."""
    with TestDatabases(server, f"duly_test_bare_{worker_id}", template="template0").clone(worker_id) as dsn:
        yield CommandLine(dsn, tmp_path)


def test_unknown_or_invalid_arguments_are_refused_with_the_reason(cli: CommandLine) -> None:
    printed_text = {arguments: cli.error(*shlex.split(arguments)) for arguments in INVALID_CALLS}
    wrong = {
        arguments: repr(error)
        for arguments, error in printed_text.items()
        if type(error) is not INVALID_CALLS[arguments][0] or INVALID_CALLS[arguments][1] not in str(error)
    }
    assert wrong == {}


def test_without_tables_every_command_advises_duly_migrate(cli_without_tables: CommandLine) -> None:
    printed_text = {arguments: cli_without_tables.error(*shlex.split(arguments)) for arguments in NEED_TABLES}
    wrong = {
        arguments: repr(error)
        for arguments, error in printed_text.items()
        if not isinstance(error, NotMigrated) or "duly migrate" not in str(error)
    }
    assert wrong == {}


def test_every_command_named_in_these_tests_exists() -> None:
    used = [" ".join(shlex.split(arguments)) for arguments in (*INVALID_CALLS, *NEED_TABLES)]
    assert [
        arguments for arguments in used if not any(name and f"{arguments} ".startswith(f"{name} ") for name in COMMANDS)
    ] == []


@pytest.mark.parametrize("arguments", ["orgs create acme", "people list", "keys list", "partitions list"])
def test_application_login_is_advised_to_use_the_migration_login(arguments: str, database: str, tmp_path: Path) -> None:
    cli = CommandLine(make_conninfo(database, user="duly_api"), tmp_path)
    error = cli.error(*shlex.split(arguments))
    assert isinstance(error, Misconfigured)
    assert str(error) == (
        "duly_api may not act as duly_owner, the owner of duly's tables; run this command with the login that migrated "
        "(DATABASE_URL)"
    )


def test_org_user_and_key_can_be_created_and_revoked(cli: CommandLine) -> None:
    assert cli.json("orgs", "create", "acme")["outcome"] == "created"
    assert cli.json("orgs", "create", "acme")["outcome"] == "existing"
    assert cli.output("people", "create", "anna", "--zone", "Europe/Stockholm").startswith("created")
    created = cli.json("keys", "create", "ci", "--org", "acme", "--scope", "admin")
    assert created["secret"].startswith(created["prefix"])
    listed = cli.output("keys", "list")
    assert created["prefix"] in listed
    assert created["secret"] not in listed
    assert "acme" in cli.output("orgs", "list")
    assert created["prefix"] in cli.output("keys", "revoke", created["prefix"])
    assert cli.output("orgs", "revoke", "acme") == "no key was valid\n"
    assert "anna" in cli.output("people", "unlink-telegram", "anna")
    assert cli.output("people", "revoke", "anna") == "no key was valid\n"


def test_every_list_of_an_empty_database_is_empty(cli: CommandLine) -> None:
    assert cli.output("expenses", "list").startswith("id  occurred_at")
    assert cli.output("expenses", "export", "--format", "csv").startswith("id,user_id,occurred_at")
    assert cli.output("posts", "release") == "released  0\n"
    assert cli.output("posts", "repair") == "repaired  0\n"
    assert cli.output("jobs", "limits").startswith("queue  type")
    assert "job_runs_" in cli.output("partitions", "list")


def test_verify_and_migrate_report_a_sound_database(cli: CommandLine) -> None:
    assert "0 differences, 0 violations" in cli.output("verify", "--contract", "posts")
    assert cli.output("migrate").startswith("duly: the database is at ")


def test_schedule_next_prints_times_in_the_given_zone(cli: CommandLine) -> None:
    printed = cli.output("schedule", "next", "cron: 0 10 1 * *", "--zone", "Europe/Stockholm")
    assert printed.startswith("At 10:00 on the first day of every month, Europe/Stockholm\n")
