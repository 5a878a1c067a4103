"""Run the tests of a tier, for `./duly test`.

    ./duly test                      fast: tests/fast
    ./duly test --full               fast and full: everything that must hold before a change lands
    ./duly test --rest               full without fast, if you just ran fast
    ./duly test --gate               the fault gate: a minute of faults that every change must survive
    ./duly test --proof              nightly: every section of tools/proof.py, one after the other
    ./duly test --proof pg15 stock   some sections; `--proof list` lists them
    ./duly test tests/full/jobs -k claim    tests by path and name, in any tier

Further arguments go to pytest. Tests run in parallel and in random order; `--randomly-seed=N` repeats an order.
"""

import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

from duly.launcher import ROOT
from duly.testing import FOREIGN_DATABASE_VARIABLES

TESTS_PER_PROCESSOR = 2  # most tests wait for a server or a process most of the time
# Without compiled files every process compiles every test, which costs as much as importing them.
NOT_FOR_TESTS = (*FOREIGN_DATABASE_VARIABLES, "PYTHONDONTWRITEBYTECODE")
CONTRACT = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").glob("test_*.py"))
TIERS = {
    "--fast": ("fast tier", ["tests/fast"]),
    "--full": ("full tier (fast and full)", ["tests/fast", "tests/full", *CONTRACT]),
    "--rest": ("full tier without fast", ["tests/full", *CONTRACT]),
    "--gate": ("fault gate", ["tests/proof/faults/test_gate.py", "-n0"]),
}


def main(arguments: list[str]) -> None:
    """Replace this process by pytest, without variables that point to a real database."""
    if "--proof" in arguments:
        from tools.proof import run_proof

        sys.exit(run_proof([argument for argument in arguments if argument != "--proof"]))
    environment = {name: value for name, value in os.environ.items() if name not in NOT_FOR_TESTS}
    title, command = plan(arguments)
    os.execve(sys.executable, [sys.executable, *command], {**environment, "DULY_TEST_TITLE": title})


def plan(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """Return a title of the run, and the arguments of the interpreter."""
    chosen_tiers = [argument for argument in arguments if argument in TIERS]
    rest = [argument for argument in arguments if argument not in TIERS]
    name, paths = TIERS[chosen_tiers[-1] if chosen_tiers else "--fast"]
    if any(is_test_path(argument) for argument in rest):
        name, paths = "named tests", []
    pytest_arguments = [*paths, *rest]
    processes = str(TESTS_PER_PROCESSOR * (os.cpu_count() or 1))
    if not any(argument.startswith("-n") or argument == "--pdb" for argument in pytest_arguments):
        pytest_arguments = ["-n", processes, "--dist", "worksteal", *pytest_arguments]
    seed = next((argument for argument in pytest_arguments if argument.startswith("--randomly-seed")), None)
    if seed is None:
        seed = f"--randomly-seed={secrets.randbelow(10**9)}"
        pytest_arguments.append(seed)
    return f"{name}; repeat this order with {seed}", ["-m", "pytest", "--no-header", *pytest_arguments]


def is_test_path(argument: str) -> bool:
    """Does this argument name tests: a file, a directory, or a test in a file?"""
    return not argument.startswith("-") and Path(argument.partition("::")[0]).exists()


if __name__ == "__main__":
    main(sys.argv[1:])
