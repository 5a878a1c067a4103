"""What the modules promise to export is there, and importing duly costs little."""

import importlib
import os
import pkgutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import duly
from duly.launcher import ROOT
from duly.settings import DATABASE_VARIABLES
from tests.support.processes import PYTHON, plain_environment

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(duly.__path__, "duly.")
    if not module.name.endswith(("__main__", ".env"))  # the latter is Alembic's to run
)


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_what_it_is_and_exports_what_it_lists(name: str) -> None:
    module = importlib.import_module(name)
    assert (module.__doc__ or "").strip()
    for exported in getattr(module, "__all__", ()):
        assert hasattr(module, exported)


def test_the_version_is_the_same_everywhere() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert pyproject["project"]["version"] == duly.__version__
    assert f"## {duly.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def quickest(run: Callable[[], object], times: int = 5) -> float:
    """The least processor time that a child took: how long it waits for a busy machine is not its doing."""

    def once() -> float:
        before = os.times()
        run()
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    return min(once() for _ in range(times))


def test_importing_duly_takes_less_than_150_ms() -> None:
    def run(code: str) -> float:
        return quickest(lambda: subprocess.run([*PYTHON, "-c", code], check=True, env=plain_environment()))

    assert run("import duly") - run("pass") < 0.150


def test_help_comes_in_less_than_400_ms() -> None:
    command = [*PYTHON, "-m", "duly", "--help"]
    assert quickest(lambda: subprocess.run(command, check=True, capture_output=True, env=plain_environment())) < 0.400


def test_help_imports_neither_the_database_nor_the_web() -> None:
    code = "import sys, duly.cli; print(*sys.modules)"
    loaded = subprocess.run([*PYTHON, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert not {"psycopg", "fastapi", "pydantic", "uvicorn"} & set(loaded)


def test_main_py_runs() -> None:
    command, nowhere = [sys.executable, ROOT / "main.py"], plain_environment()
    ran = subprocess.run(command, capture_output=True, text=True, cwd=Path("/"), env=nowhere)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert all(variable in ran.stderr for variable in DATABASE_VARIABLES)  # it never makes a database of its own
