"""`duly test` and `duly check`: what they touch and what they refuse."""

import functools
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from duly.launcher import ROOT
from tests.support.pooler import needs_pgbouncer
from tests.support.processes import PYTHON, plain_environment
from tests.support.small_project import PACKAGES, SMALL_PYPROJECT, make_project


def run_tests(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [*PYTHON, "-m", "duly", "test", "-n0", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, env=plain_environment(**environment), cwd="/", capture_output=True, text=True)


def test_duly_test_passes_arguments_on_and_ignores_database_url() -> None:
    answer = run_tests(
        "tests/fast/testing/test_databases.py",
        "-k",
        "no_variable_points",
        DATABASE_URL="postgresql://production/orders",
        POSTGRES_DSN="postgresql://production/orders",
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "1 passed" in answer.stdout


def test_duly_test_runs_in_parallel_and_in_random_order() -> None:
    command = [*PYTHON, "-m", "duly", "test", "-p", "no:cacheprovider", "tests/fast/errors/test_errors.py"]
    answer = subprocess.run(command, env=plain_environment(), capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "workers [" in answer.stdout
    assert "--randomly-seed=" in answer.stdout


@pytest.mark.long
@needs_pgbouncer
@pytest.mark.timeout(600)
def test_the_lease_tests_pass_through_a_pooler_in_transaction_mode() -> None:
    answer = run_tests("tests/fast/lease", "--through-pooler", "-n", "2")
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_duly_test_refuses_a_database_without_test_in_its_name() -> None:
    answer = run_tests(TEST_DATABASE_URL="postgresql://production/orders")
    assert answer.returncode == 78
    assert "TEST_DATABASE_URL names the database 'orders'" in answer.stderr


def test_duly_test_uses_the_given_test_database_and_removes_its_templates(database: str) -> None:
    assert "test" in str(conninfo_to_dict(database)["dbname"])
    with psycopg.connect(database, autocommit=True) as connection:
        before = names_of_databases(connection)
        two = ("-k", "separate_databases or open_connections")
        answer = run_tests("tests/fast/testing/test_databases.py", *two, TEST_DATABASE_URL=database)
        assert answer.returncode == 0, answer.stdout + answer.stderr
        assert "2 passed" in answer.stdout
        left = {name for name in names_of_databases(connection) - before if name.endswith("_template")}
    assert left == set()


def names_of_databases(connection: psycopg.Connection) -> set[str]:
    return {name for (name,) in connection.execute("select datname from pg_database")}


def test_the_lock_is_written_from_pyproject_and_installed_by_the_launcher(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    (project.root / "pyproject.toml").write_text(SMALL_PYPROJECT)
    for group in PACKAGES:
        project.wheel(group, "1.0")
    index = project.write_index()
    environment = project.environment(PYTHONPATH=f"{project.root / 'src'}:{ROOT}")
    making = "from tools.commands.lock import write_locks; write_locks(upgrade=False, as_json=True)"

    def lock() -> str:
        project.write_index()
        made = subprocess.run([*PYTHON, "-c", making], env=environment, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        return made.stdout

    with served(index) as address:
        (project.home / ".config" / "uv" / "uv.toml").write_text(f'[[index]]\nurl = "{address}"\ndefault = true\n')
        assert lock() == '{"packages": 9, "core": 1}\n'
        text = (project.root / "requirements.lock").read_text()
        project.wheel("core", "2.0")
        lock()  # a newer one exists, and is not taken unless asked for
    assert (project.root / "requirements.lock").read_text() == text
    assert "127.0.0.1" not in text + (project.root / "pyproject.toml").read_text()
    assert [line for line in text.splitlines() if line.startswith("# [")] == [
        "# [core]",
        "# [ai]",
        "# [apprise]",
        "# [apps]",
        "# [embedded]",
        "# [ocr]",
        "# [server]",
        "# [telegram]",
        "# [dev]",
    ]
    assert "small-core==1.0" in (project.root / "pyproject.toml").read_text()
    answer = project.run("test")
    assert '"small_dev": "1.0"' in answer.stdout, answer.stderr


@contextmanager
def served(directory: Path) -> Generator[str, None, None]:
    """The address of a package index: this directory, over real HTTP."""
    handler = functools.partial(QuietFiles, directory=str(directory))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/simple"
        server.shutdown()


class QuietFiles(SimpleHTTPRequestHandler):
    """Files of a directory, without a line per request."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name is the base class's)
        """Say nothing."""
