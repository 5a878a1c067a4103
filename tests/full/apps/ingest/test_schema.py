"""Ingest in a schema of another name, and schema names that are refused."""

import json
import subprocess
from collections.abc import Generator

import psycopg
import pytest

from duly.testing import TestDatabases
from tests.support.ingest.actions import SAMPLE
from tests.support.processes import PYTHON, plain_environment

MISCONFIGURED = 78


# Another schema -------------------------------------------------------------------------------------------------------


@pytest.fixture
def empty(server: str, worker_id: str) -> Generator[str, None, None]:
    """The address of an empty database."""
    databases = TestDatabases(server, f"duly_test_schema_{worker_id}", template="template0")
    with databases.clone(worker_id) as dsn:
        yield dsn


def duly(dsn: str, schema: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command with another DB_SCHEMA."""
    environment = plain_environment(DATABASE_URL=dsn, DB_SCHEMA=schema, FIXTURE_PAYLOAD_PATH=str(SAMPLE))
    command = [*PYTHON, "-m", "duly", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def test_ingest_works_in_a_schema_of_another_name(empty: str) -> None:
    def run(*arguments: str) -> str:
        done = duly(empty, "rota_2", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("migrate")
    with psycopg.connect(empty, autocommit=True) as admin:
        assert admin.execute("select to_regnamespace('schedule_ingest')").fetchone() == (None,)
        admin.execute("insert into rota_2.capture_session (user_id) values (42)")
        assert json.loads(run("worker", "--only", "ingest", "--once", "--json")) == {"rows": 1}
        assert admin.execute("select state::text from rota_2.capture_session").fetchone() == ("done",)
        assert admin.execute("select current_version from rota_2.day_schedule").fetchone() == (1,)
        assert "0 differences, 0 violations" in run("verify")
        run("migrate", "--to", "ingest@base", "--yes")
        assert admin.execute("select to_regclass('rota_2.capture_session')").fetchone() == (None,)
        run("migrate", "--apps", "ingest")
        assert "0 differences, 0 violations" in run("verify")


@pytest.mark.parametrize(
    "schema",
    [
        'x"; drop schema duly cascade; --',
        "duly",
        "user",
        "posts",
        "pg_catalog",
        "information_schema",
        "Rota",
        "x" * 64,
    ],
)
def test_an_invalid_schema_name_is_refused_naming_its_setting(schema: str, empty: str) -> None:
    refusal = duly(empty, schema, "migrate")
    assert refusal.returncode == MISCONFIGURED
    assert "DB_SCHEMA" in refusal.stderr
    with psycopg.connect(empty) as admin:
        assert admin.execute("select to_regnamespace('duly')").fetchone() == (None,)


def test_a_schema_the_database_was_not_migrated_with_is_reported(database: str) -> None:
    refusal = duly(database, "rota", "worker", "--only", "ingest", "--once")
    assert refusal.returncode == MISCONFIGURED
    message = "DB_SCHEMA=rota: there is no table rota.capture_session; this database has one in schedule_ingest"
    assert message in refusal.stderr
