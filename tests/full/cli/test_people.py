"""`duly migrate`, `orgs`, `users` and `keys` through the front."""

import json
import subprocess
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from duly.db.embedded import EmbeddedServer
from duly.db.migrate import newest_revisions
from duly.errors import Unavailable
from tests.support.locks import wait_until_blocked
from tests.support.processes import PYTHON, Program, plain_environment


def run(database: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = plain_environment(DATABASE_URL=database)
    return subprocess.run([*PYTHON, "-m", "duly", *arguments], env=environment, capture_output=True, text=True)


def test_commands_create_a_user_an_org_and_a_key_and_revoke_it(database: str) -> None:
    assert json.loads(run(database, "migrate", "--json").stdout) == {"revisions": list(newest_revisions())}
    assert json.loads(run(database, "orgs", "create", "acme", "--json").stdout)["outcome"] == "created"
    assert json.loads(run(database, "orgs", "create", "acme", "--json").stdout)["outcome"] == "existing"
    assert run(database, "people", "create", "anna", "--zone", "Europe/Stockholm").stdout.startswith("created")
    created = json.loads(run(database, "keys", "create", "ci", "--org", "acme", "--scope", "admin", "--json").stdout)
    assert created["secret"].startswith(created["prefix"])
    listed = run(database, "keys", "list").stdout
    assert created["prefix"] in listed
    assert created["secret"] not in listed
    assert created["prefix"] in run(database, "keys", "revoke", created["prefix"]).stdout
    assert run(database, "orgs", "revoke", "acme").stdout == "no key was valid\n"
    assert "anna" in run(database, "people", "list").stdout


def test_users_set_changes_a_user(database: str) -> None:
    assert run(database, "people", "create", "anna", "--zone", "Europe/Stockholm").returncode == 0
    changed = json.loads(run(database, "people", "set", "anna", "--telegram-id", "42", "--json").stdout)
    assert (changed["telegram_id"], changed["zone"], changed["uid"]) == (42, "Europe/Stockholm", "anna")
    printed_text = run(
        database, "people", "set", "anna", "--zone", "UTC", "--language", "sv", "--currency", "SEK"
    ).stdout
    assert "telegram_id 42  user_id 1  zone UTC  language sv  currency SEK" in printed_text
    assert run(database, "people", "create", "bo").returncode == 0
    for words, message in (
        (("bo", "--telegram-id", "42"), "belongs to another person"),
        (("bo", "--zone", "Nowhere"), "a zone must be"),
        (("bo",), "nothing to change"),
        (("cia", "--telegram-id", "7"), "there is no person with the uid 'cia'"),
        (("bo", "--telegram-id", "0"), "--telegram-id"),
    ):
        refused = run(database, "people", "set", *words)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert message in refused.stderr


def test_a_refusal_states_the_rule_and_exits_2(database: str) -> None:
    answer = run(database, "people", "create", "two words")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "a uid must have" in answer.stderr
    as_json = run(database, "keys", "revoke", "duly_nothing", "--json")
    assert json.loads(as_json.stdout)["error"]["code"] == "NOT_FOUND"


def test_an_unmigrated_database_is_reported_with_the_migrate_command(home: Path) -> None:
    with EmbeddedServer.start(home) as server:
        answer = run(make_conninfo(server.dsn(), dbname="postgres"), "orgs", "list")
        assert answer.returncode == 78
        assert "duly migrate" in answer.stderr
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("create role duly_owner")
        answer = run(server.dsn(), "orgs", "list")
        assert answer.returncode == 78
        assert "duly migrate" in answer.stderr


@pytest.mark.breaks_invariants
def test_migrate_can_migrate_down(database: str) -> None:
    assert run(database, "migrate", "--to", "engine@base", "--yes").stdout == "duly: the database is at base\n"
    answer = run(database, "migrate", "--to", "nowhere")
    assert answer.returncode == 78
    assert "--to nowhere" in answer.stderr


def test_a_connection_lost_during_a_command_is_reported(database: str) -> None:
    end = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'duly-cli' and datname = %s"
    with psycopg.connect(database) as blocker, psycopg.connect(database, autocommit=True) as admin:
        blocker.execute("lock table duly.person in access exclusive mode")
        words = [*PYTHON, "-m", "duly", "people", "list"]
        with Program(words, environment=plain_environment(DATABASE_URL=database)) as program:
            wait_until_blocked(database)
            admin.execute(end, [admin.info.dbname])
            assert program.process.wait(60) == Unavailable.exit_status
            assert "was lost" in program.stderr_text()
            assert "Traceback" not in program.stderr_text()
