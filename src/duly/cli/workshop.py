"""`duly test` and `duly check`: for people who work on duly itself, in a checkout."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from duly.cli.lock import problems_of_locks
from duly.errors import Misconfigured
from duly.launcher import ROOT
from duly.testing import server_for_tests

__all__ = ["become", "in_checkout", "run_chaos", "run_checks", "run_guards", "run_tests"]


def run_tests(arguments: list[str]) -> NoReturn:
    """Become the program that runs the tests of a tier."""
    in_checkout()
    server_for_tests()  # refuses a TEST_DATABASE_URL that is not marked as one
    os.execv(sys.executable, [sys.executable, "-m", "tools.run_tests", *arguments])


def run_chaos(options: Mapping[str, object], report: bool, list_only: bool, as_json: bool) -> NoReturn:
    """Become the harness of faults."""
    in_checkout()
    flags = [*(["--report"] if report else []), *(["--list"] if list_only else [])]
    become("tests.proof.faults", options, as_json, flags)


def run_guards(only: str | None, report: bool, list_only: bool, as_json: bool) -> NoReturn:
    """Become the program that removes every guard in turn."""
    in_checkout()
    page = "docs/figures/guards.md" if report else None
    become("tests.proof.guards", {"only": only, "report": page}, as_json, ["--list"] if list_only else [])


def become(module: str, options: Mapping[str, object], as_json: bool, flags: Sequence[str] = ()) -> NoReturn:
    """Be this program of the checkout from now on, with these options."""
    words = [word for name, value in options.items() if value is not None for word in (f"--{name}", str(value))]
    os.execv(sys.executable, [sys.executable, "-m", module, *words, *flags, *(["--json"] if as_json else [])])


def run_checks(as_json: bool) -> None:
    """Run every static check to its end, then say which failed; what the checkers print goes to stderr."""
    in_checkout()
    programs: dict[str, Callable[[], bool]] = {
        "ruff check": lambda: passes("ruff", "check"),
        "ruff format": lambda: passes("ruff", "format", "--check"),
        "pyright": lambda: passes("pyright", "--warnings"),
        "import rules": lambda: passes("lint-imports", "--no-cache"),
        "lock": lock_passes,
    }
    outcomes = {name: runs() for name, runs in programs.items()}
    if as_json:
        print(json.dumps(outcomes))
    else:
        print("\n".join(f"duly: {'ok' if ok else 'FAILED':6} {name}" for name, ok in outcomes.items()))
    sys.exit(0 if all(outcomes.values()) else 1)


def passes(program: str, *arguments: str) -> bool:
    """Run one checker of the environment over the checkout."""
    command = [Path(sys.executable).with_name(program), *arguments]
    return subprocess.run(command, stdout=sys.stderr).returncode == 0


def lock_passes() -> bool:
    """The lock files hold no address, and the lock agrees with pyproject.toml."""
    problems = problems_of_locks(ROOT)
    for problem in problems:
        print(f"duly: {problem}", file=sys.stderr)
    return not problems


def in_checkout() -> None:
    """Go to the root of the checkout these commands are about."""
    if not (ROOT / "requirements.lock").exists():
        raise Misconfigured(
            "this command works in a checkout of duly, not in an installed package: clone the repository"
        )
    os.chdir(ROOT)
