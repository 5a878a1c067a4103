"""`duly test` and `duly check`: what they touch and what they refuse."""

import shutil
import subprocess
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from duly.cli.lock import HEADER, by_requirement, problems_of_locks, render, with_pins, without_pins
from duly.launcher import CORE, EXTRAS, ROOT, sections
from tests.support.processes import PYTHON, plain_environment


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
        left = {name for name in names_of_databases(connection) - before if "_template" in name}
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
        ("package-lock.json", '{"resolved": "https://registry.example/x.tgz"}'),
        ("requirements-dev.txt", "-i https://index.example/simple"),
    ],
)
def test_an_address_in_any_lock_file_is_found(file: str, line: str, checkout: Path) -> None:
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
