"""Run the tests of a tier: what `./duly test` does.

    ./duly test                      fast: tests/fast
    ./duly test --full               fast and full: everything that must hold before a change lands
    ./duly test --rest               full without fast, for whoever just ran fast
    ./duly test --gate               the fault gate: a minute of faults that every change must survive
    ./duly test --proof              nightly: every section of tools/proof.py, one after the other
    ./duly test --proof pg15 stock   one or several of them; `--proof list` names them
    ./duly test tests/full/jobs -k claim    tests by name, in whatever tier

Further arguments go to pytest. Tests run in parallel and in random order; `--randomly-seed=N` repeats an order.
"""

import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

from duly.launcher import ROOT
from duly.testing import FOREIGN_DATABASE_VARIABLES

TESTS_PER_PROCESSOR = 2  # most of them wait for a server or a process most of the time
# Compiling every test in every process costs as much as importing all they use.
NOT_FOR_TESTS = (*FOREIGN_DATABASE_VARIABLES, "PYTHONDONTWRITEBYTECODE")
CONTRACT = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").glob("test_*.py"))
TIERS = {
    "--fast": ("fast tier", ["tests/fast"]),
    "--full": ("full tier (fast and full)", ["tests/fast", "tests/full", *CONTRACT]),
    "--rest": ("full tier without fast", ["tests/full", *CONTRACT]),
    "--gate": ("fault gate", ["tests/proof/faults/test_gate.py", "-n0"]),
}


def main(arguments: list[str]) -> None:
    """Become pytest, with no way to reach anybody's real database."""
    if "--proof" in arguments:
        from tools.proof import run_proof

        sys.exit(run_proof([word for word in arguments if word != "--proof"]))
    environment = {name: value for name, value in os.environ.items() if name not in NOT_FOR_TESTS}
    title, command = plan(arguments)
    os.execve(sys.executable, [sys.executable, *command], {**environment, "DULY_TEST_TITLE": title})


def plan(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """What is run, in a few words, and the arguments of the interpreter that runs it."""
    asked = [word for word in arguments if word in TIERS]
    rest = [word for word in arguments if word not in TIERS]
    name, places = TIERS[asked[-1] if asked else "--fast"]
    if any(is_place(word) for word in rest):
        name, places = "named tests", []
    words = [*places, *rest]
    processes = str(TESTS_PER_PROCESSOR * (os.cpu_count() or 1))
    if not any(word.startswith("-n") or word == "--pdb" for word in words):
        words = ["-n", processes, "--dist", "worksteal", *words]
    seed = next((word for word in words if word.startswith("--randomly-seed")), None)
    if seed is None:
        seed = f"--randomly-seed={secrets.randbelow(10**9)}"
        words.append(seed)
    return f"{name}; repeat this order with {seed}", ["-m", "pytest", "--no-header", *words]


def is_place(word: str) -> bool:
    """Does this argument name tests: a file, a directory, or a test in a file?"""
    return not word.startswith("-") and Path(word.partition("::")[0]).exists()


if __name__ == "__main__":
    main(sys.argv[1:])
