"""What the modules promise to export is there, and importing duly costs little."""

import importlib
import os
import pkgutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator

import duly
from duly.launcher import ROOT
from tests.support.processes import PYTHON, plain_environment

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(duly.__path__, "duly.")
    if not module.name.endswith(("__main__", ".env"))  # the latter is Alembic's to run
)


def faults_of(name: str) -> Iterator[str]:
    """List what a module lacks: it cannot be imported, has no docstring, or has not a name that it exports."""
    try:
        module = importlib.import_module(name)
    except Exception as error:
        yield f"{name}: cannot be imported: {error!r}"
        return
    if not (module.__doc__ or "").strip():
        yield f"{name}: has no docstring"
    for exported in getattr(module, "__all__", ()):
        if not hasattr(module, exported):
            yield f"{name}: lists {exported} in __all__ and does not have it"


def test_every_module_has_a_docstring_and_a_correct_all() -> None:
    assert MODULES
    offenders = [fault for name in MODULES for fault in faults_of(name)]
    assert not offenders, "\n".join(offenders)


def test_version_is_the_same_in_package_pyproject_and_changelog() -> None:
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


def test_help_imports_neither_the_database_nor_the_web() -> None:
    code = "import atexit, sys, duly.cli; atexit.register(lambda: print(*sys.modules)); duly.cli.app(['--help'])"
    loaded = subprocess.run([*PYTHON, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "duly.cli.app" in loaded
    assert not {"psycopg", "fastapi", "pydantic", "uvicorn"} & set(loaded)
