"""`duly test`, `duly chaos` and `duly check`: for the development of duly itself, in a checkout."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from duly.cli.options import Json
from duly.errors import Misconfigured
from duly.launcher import ROOT
from duly.testing import server_for_tests
from tools.commands.lock import find_lock_problems

app = typer.Typer()

PASS_ARGUMENTS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


@app.command("test", context_settings=PASS_ARGUMENTS_ON)
def run_tests(
    context: typer.Context,
    full: Annotated[
        bool, typer.Option("--full", help="The fast and the full tests: what must pass before a change lands.")
    ] = False,
    rest: Annotated[bool, typer.Option("--rest", help="The full tests without the fast ones.")] = False,
    gate: Annotated[bool, typer.Option("--gate", help="Only the fault gate: a minute of injected faults.")] = False,
    proof: Annotated[
        bool, typer.Option("--proof", help="The nightly tests: all sections, or those named; `list` lists them.")
    ] = False,
) -> None:
    """Run the fast tests on a real PostgreSQL, in parallel and random order; further arguments go to pytest.

    Example: duly test tests/full/jobs -k claim
    """
    enter_checkout()
    server_for_tests()  # refuses a TEST_DATABASE_URL that is not marked as one
    tiers = {"--full": full, "--rest": rest, "--gate": gate, "--proof": proof}
    arguments = [*(flag for flag, is_given in tiers.items() if is_given), *context.args]
    os.execv(sys.executable, [sys.executable, "-m", "tools.run_tests", *arguments])


@app.command()
def chaos(
    minutes: Annotated[
        float, typer.Option(min=0.1, help="Duration; every type of episode happens at least once.")
    ] = 10.0,
    seed: Annotated[int | None, typer.Option(help="Repeat the run with this seed. Default: a random seed.")] = None,
    only: Annotated[
        str | None,
        typer.Option(help="Only these episodes, separated by commas; with --guards, only guards that match this."),
    ] = None,
    episode: Annotated[
        str | None, typer.Option(help="Run only this episode, with the --seed that an earlier run printed.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=1, help="With --episode: its duration. Default: 75.")] = None,
    report: Annotated[bool, typer.Option("--report", help="Write the page docs/figures/chaos.md.")] = False,
    guards: Annotated[
        bool, typer.Option("--guards", help="Instead: remove each guard in turn and expect a test to fail.")
    ] = False,
    list_only: Annotated[bool, typer.Option("--list", help="List the episodes, or with --guards the guards.")] = False,
    as_json: Json = False,
) -> None:
    """Inject faults on a private server and check every guarantee afterwards.

    Example: duly chaos --minutes 30 --seed 7 --report
    """
    enter_checkout()
    flags = ["--list"] if list_only else []
    if guards:
        page = "docs/figures/guards.md" if report else None
        exec_module("tests.proof.guards", {"only": only, "report": page}, as_json, flags)
    options = {"minutes": minutes, "seed": seed, "only": only, "episode": episode, "seconds": seconds}
    exec_module("tests.proof.faults", options, as_json, [*(["--report"] if report else []), *flags])


@app.command()
def check(as_json: Json = False) -> None:
    """Run the static checks: ruff, pyright, import rules, lock files.

    Example: duly check
    """
    enter_checkout()
    checks: dict[str, Callable[[], bool]] = {
        "ruff check": lambda: passes("ruff", "check"),
        "ruff format": lambda: passes("ruff", "format", "--check"),
        "pyright": lambda: passes("pyright", "--warnings"),
        "import rules": lambda: passes("lint-imports", "--no-cache"),
        "lock": lock_passes,
    }
    outcomes = {name: run() for name, run in checks.items()}
    if as_json:
        print(json.dumps(outcomes))
    else:
        print("\n".join(f"duly: {'ok' if ok else 'FAILED':6} {name}" for name, ok in outcomes.items()))
    sys.exit(0 if all(outcomes.values()) else 1)


def passes(program: str, *arguments: str) -> bool:
    """Run a checker of the environment over the checkout; its output goes to standard error."""
    command = [Path(sys.executable).with_name(program), *arguments]
    return subprocess.run(command, stdout=sys.stderr).returncode == 0


def lock_passes() -> bool:
    """Check that the lock files contain no URL and agree with pyproject.toml."""
    problems = find_lock_problems(ROOT)
    for problem in problems:
        print(f"duly: {problem}", file=sys.stderr)
    return not problems


def enter_checkout() -> None:
    """Change to the root of the checkout, or raise Misconfigured if duly is an installed package."""
    if not (ROOT / "requirements.lock").exists():
        raise Misconfigured(
            "this command works in a checkout of duly, not in an installed package: clone the repository"
        )
    os.chdir(ROOT)


def exec_module(module: str, options: Mapping[str, object], as_json: bool, flags: Sequence[str] = ()) -> NoReturn:
    """Replace this process by a module of the checkout, with these options."""
    given = [part for name, value in options.items() if value is not None for part in (f"--{name}", str(value))]
    os.execv(sys.executable, [sys.executable, "-m", module, *given, *flags, *(["--json"] if as_json else [])])
