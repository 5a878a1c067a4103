"""`duly test` and `duly check`: what they touch and what they refuse."""

import functools
import shutil
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from duly.cli.lock import HEADER, by_requirement, problems_of_locks, render, with_pins, without_pins
from duly.launcher import CORE, EXTRAS, ROOT, sections
from tests.support.pooler import find_pgbouncer
from tests.support.processes import PYTHON, plain_environment
from tests.support.small_project import PACKAGES, make_project

SMALL_PYPROJECT = """\
[project]
name = "duly"
version = "0"
requires-python = ">=3.11"
dependencies = ["small-core"]

[project.optional-dependencies]
ai = ["small-ai"]
apprise = ["small-apprise"]
ocr = ["small-ocr"]
telegram = ["small-telegram"]

[dependency-groups]
dev = ["duly[ai,apprise,ocr,telegram]", "small-dev"]

[tool.uv]
python-downloads = "never"
"""


def run_tests(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [*PYTHON, "-m", "duly", "test", "-n0", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, env=plain_environment(**environment), cwd="/", capture_output=True, text=True)


def test_it_passes_arguments_on_and_never_sees_a_database_url() -> None:
    answer = run_tests(
        "tests/sql/test_databases.py",
        "-k",
        "no_variable_points",
        DATABASE_URL="postgresql://production/orders",
        POSTGRES_DSN="postgresql://production/orders",
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "1 passed" in answer.stdout


def test_it_runs_in_parallel_and_in_random_order() -> None:
    command = [*PYTHON, "-m", "duly", "test", "-p", "no:cacheprovider", "tests/unit/test_errors.py"]
    answer = subprocess.run(command, env=plain_environment(), capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "workers [" in answer.stdout
    assert "--randomly-seed=" in answer.stdout


@pytest.mark.long
@pytest.mark.skipif(not find_pgbouncer(), reason="no pgbouncer on this machine (Debian: apt install pgbouncer)")
@pytest.mark.timeout(600)
def test_the_laws_hold_through_a_pooler_in_transaction_mode() -> None:
    answer = run_tests("tests/laws", "--through-pooler", "-k", "pg18", "-n", "4")
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_it_refuses_a_test_database_that_is_not_marked_as_one() -> None:
    answer = run_tests(TEST_DATABASE_URL="postgresql://production/orders")
    assert answer.returncode == 78
    assert "TEST_DATABASE_URL names the database 'orders'" in answer.stderr


def test_it_uses_a_marked_test_database_and_leaves_nothing_behind(database: str) -> None:
    assert "test" in str(conninfo_to_dict(database)["dbname"])
    with psycopg.connect(database, autocommit=True) as connection:
        before = names_of_databases(connection)
        answer = run_tests("tests/sql/test_databases.py", "-k", "a_clone_is", TEST_DATABASE_URL=database)
        assert answer.returncode == 0, answer.stdout + answer.stderr
        assert "2 passed" in answer.stdout
        left = {name for name in names_of_databases(connection) - before if name.endswith("_template")}
    assert left == set()


def names_of_databases(connection: psycopg.Connection) -> set[str]:
    return {name for (name,) in connection.execute("select datname from pg_database")}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with our lock and pyproject.toml, nothing else."""
    for name in ("requirements.lock", "pyproject.toml", ".gitignore"):
        shutil.copy(ROOT / name, tmp_path)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    return tmp_path


def test_our_locks_are_in_order(checkout: Path) -> None:
    assert problems_of_locks(checkout) == []


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("requirements.lock", "--index-url https://index.example/simple"),
        ("requirements.lock", "duly @ git+ssh://host/duly.git"),
        ("requirements.lock", "--find-links /somewhere"),
        ("requirements.lock", "--trusted-host index.example"),
        ("a b.lock", "https://index.example/simple"),
        ("web/pnpm-lock.yaml", "tarball: https://registry.example/x.tgz"),
        ("package-lock.json", '{"resolved": "https://registry.example/x.tgz"}'),
        ("requirements-dev.txt", "-i https://index.example/simple"),
    ],
)
def test_an_address_in_any_lock_file_is_found(file: str, line: str, checkout: Path) -> None:
    (checkout / file).parent.mkdir(exist_ok=True)
    with (checkout / file).open("a") as lock:
        lock.write(f"\n{line}\n")
    assert problems_of_locks(checkout)[0].startswith(f"{file} contains an address")


def test_locks_that_git_ignores_may_say_what_they_like(checkout: Path) -> None:
    (checkout / "uv.lock").write_text('url = "https://index.example/simple"')
    assert problems_of_locks(checkout) == []


def test_pins_that_differ_from_the_lock_are_found(checkout: Path) -> None:
    pyproject = checkout / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace('"psycopg==', '"psycopg==0.'))
    assert problems_of_locks(checkout) == ["requirements.lock and the pins in pyproject.toml differ; run ./duly lock"]


def test_a_dependency_that_is_not_locked_is_found(checkout: Path) -> None:
    pyproject = checkout / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace('"uv>=', '"something-new",\n    "uv>='))
    assert problems_of_locks(checkout) == ["pyproject.toml asks for something-new, not in the lock; run ./duly lock"]


def test_the_lock_is_what_its_maker_would_write() -> None:
    text = (ROOT / "requirements.lock").read_text()
    entries = list(sections(text))
    needs = {
        group: by_requirement(entry for groups, entry in entries if group in groups or CORE in groups)
        for group in (CORE, *EXTRAS)
    }
    assert HEADER + render(by_requirement(entry for _, entry in entries), needs) == text


def test_pins_can_be_taken_out_and_put_back() -> None:
    pyproject = (ROOT / "pyproject.toml").read_text()
    everything = by_requirement(entry for _, entry in sections((ROOT / "requirements.lock").read_text()))
    plain = without_pins(pyproject)
    assert "psycopg==" not in plain
    assert with_pins(plain, everything) == with_pins(pyproject, everything) == pyproject


def test_the_lock_is_made_from_pyproject_and_the_launcher_installs_it(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    (project.root / "pyproject.toml").write_text(SMALL_PYPROJECT)
    for group in PACKAGES:
        project.wheel(group, "1.0")
    index = project.write_index()
    environment = project.environment(PYTHONPATH=str(project.root / "src"))
    making = "from duly.cli.lock import run_lock; run_lock(upgrade=False, as_json=True)"

    def lock() -> str:
        project.write_index()
        made = subprocess.run([*PYTHON, "-c", making], env=environment, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        return made.stdout

    with served(index) as address:
        (project.home / ".config" / "uv" / "uv.toml").write_text(f'[[index]]\nurl = "{address}"\ndefault = true\n')
        assert lock() == '{"packages": 6, "core": 1}\n'
        text = (project.root / "requirements.lock").read_text()
        project.wheel("core", "2.0")
        lock()  # a newer one exists, and is not taken unless asked for
    assert (project.root / "requirements.lock").read_text() == text
    assert "127.0.0.1" not in text + (project.root / "pyproject.toml").read_text()
    assert [line for line in text.splitlines() if line.startswith("# [")] == [
        "# [core]",
        "# [ai]",
        "# [apprise]",
        "# [ocr]",
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


def test_a_lock_without_hashes_is_not_written(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    (project.root / "pyproject.toml").write_text(SMALL_PYPROJECT)
    for group in PACKAGES:
        project.wheel(group, "1.0")  # found as files, for which uv knows no hash
    before = (project.root / "requirements.lock").read_text()
    making = "from duly.cli.lock import run_lock; run_lock(upgrade=False, as_json=True)"
    environment = project.environment(PYTHONPATH=str(project.root / "src"))
    made = subprocess.run([*PYTHON, "-c", making], env=environment, capture_output=True, text=True)
    assert "gives no hashes for small-core==1.0" in made.stderr
    assert (project.root / "requirements.lock").read_text() == before


@pytest.fixture
def ci(tmp_path: Path) -> Path:
    """`.ci/run` around a `./duly` whose outcome a test decides."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci")
    (tmp_path / "duly").write_text(
        "#!/bin/sh\n"
        'echo "called: $*"\n'
        '[ "$1" = check ] && exit "${CHECKS:-0}"\n'
        'echo "=== 3 passed in 0.12s ==="; echo "something after it"; exit "${TESTS:-0}"\n'
    )
    (tmp_path / "duly").chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(("checks", "tests"), [("0", "0"), ("1", "0"), ("0", "1")])
def test_ci_passes_only_when_everything_did_and_closes_with_pytests_line(checks: str, tests: str, ci: Path) -> None:
    programs = ci / "programs"  # no apt-get on this PATH: it goes on without
    programs.mkdir()
    for tool in ("bash", "sh", "dirname", "id", "mktemp", "tee", "grep", "tail", "rm", "env"):
        (programs / tool).symlink_to(shutil.which(tool) or "/bin/false")
    environment = {"PATH": str(programs), "CHECKS": checks, "TESTS": tests}
    ran = subprocess.run([programs / "bash", ci / ".ci" / "run"], env=environment, capture_output=True, text=True)
    lines = ran.stdout.splitlines()
    assert lines[:2] == ["called: check", "called: test"]
    assert lines[-1] == "=== 3 passed in 0.12s ==="
    assert (ran.returncode == 0) == (checks == tests == "0")
