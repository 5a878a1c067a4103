"""The test command of the worker's contract, word for word, on every kind of database that it may be given."""

import re
import subprocess
from collections.abc import Generator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from duly.db.admin import create_database
from duly.launcher import ROOT
from duly.testing.databases import open_server, shared_directory
from tests.support.backends import CONTRACT, OWNERS, Backend
from tests.support.processes import PYTHON, plain_environment
from tests.support.psql import psql

pytestmark = pytest.mark.timeout(600)  # a command of half a minute, on a machine that has other things to do

COMMAND = (
    "-m unittest tests/test_main_worker.py tests/test_integration_claim_locking.py"
    " tests/test_integration_fixture_versioning.py"
)
SCRIPT = ROOT / "database" / "migrations" / "20260212_add_session_leases.sql"
SCHEMAS = "select nspname from pg_namespace where nspname !~ '^pg_' order by nspname"
ROLES = "select rolname from pg_roles where rolname !~ '^pg_' order by rolname"


@pytest.fixture(scope="module")
def bare_server() -> Generator[str, None, None]:
    """A server of our own, on which no role of duly's was ever made."""
    server_directory = Path("/tmp") / f"duly-tests-{uuid4().hex}"
    with shared_directory(server_directory) as directory, open_server(directory) as server:
        yield server


def run(dsn: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """The contract's command on this database."""
    environment = plain_environment(TEST_DATABASE_URL=dsn, **settings)
    command = [PYTHON[0], *COMMAND.split()]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=500)


def left_behind(dsn: str) -> list[list[str]]:
    """The schemas of a database and the roles of its server."""
    with psycopg.connect(dsn) as admin:
        return [[name for (name,) in admin.execute(statement)] for statement in (SCHEMAS, ROLES)]


@pytest.mark.parametrize(
    ("backend", "settings"),
    [(CONTRACT, {}), (OWNERS, {"DB_SCHEMA": "rota", "PENDING_STATE": "closed"})],
    ids=["the contract's", "in another schema, with other states"],
)
def test_the_contract_command_passes_on_backend_tables_and_removes_its_schema_and_role(
    backend: Backend, settings: dict[str, str], bare_server: str
) -> None:
    dsn = create_database(bare_server, f"my_test_{uuid4().hex[:8]}")
    schema = settings.get("DB_SCHEMA", "schedule_ingest")
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute(backend.schema_sql(schema).encode())
        if backend is OWNERS:  # a session that waits there is closed
            owner.execute("alter table rota.capture_session alter closed_at set default now()")
    psql(dsn, "-v", f"schema={schema}", "-f", str(SCRIPT))
    before = left_behind(dsn)
    answer = run(dsn, **settings)
    assert answer.returncode == 0, answer.stderr
    assert re.search(r"Ran \d{2} tests .*OK", answer.stderr, re.DOTALL)
    assert left_behind(dsn) == before


def test_the_contract_command_passes_on_an_empty_database_and_leaves_it_empty(bare_server: str) -> None:
    dsn = create_database(bare_server, f"empty_test_{uuid4().hex[:8]}")
    before = left_behind(dsn)
    answer = run(dsn)
    assert answer.returncode == 0, answer.stderr
    assert "skipped" not in answer.stderr
    assert left_behind(dsn) == before


def test_the_contract_command_names_the_missing_lease_migration(bare_server: str) -> None:
    dsn = create_database(bare_server, f"early_test_{uuid4().hex[:8]}")
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute(CONTRACT.schema_sql("schedule_ingest").encode())
    answer = run(dsn)
    assert answer.returncode == 1
    assert "20260212_add_session_leases.sql" in answer.stderr
