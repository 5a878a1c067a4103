"""A scratch copy of the checkout, in which one guard is taken out of a statement and its test is run."""

import os
import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from duly.launcher import ROOT
from tests.proof.guards.statements import Mutation

TESTS = "tests/proof/guards/test_statements.py"
TEST_SECONDS = 120
RUN_SECONDS = 900
BECAUSE = {"skip locked": "canceling statement due to lock timeout", "owner": "AssertionError"}
TABLES = re.compile(r"^E +AssertionError: wrong on ([\w, ]+):", re.MULTILINE)


@dataclass(frozen=True)
class Scratch:
    """A copy of the checkout at its commit, with the virtualenv of this process."""

    home: Path

    def run(self, *names: str, because: str = "") -> str | None:
        """Run tests of the copy; what went red, None when nothing did. Red for another reason than this is an error."""
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:randomly", "-p", "no:cacheprovider"]
        command += ["--timeout", str(TEST_SECONDS), *(f"{TESTS}::{name}" for name in names)]
        environment = os.environ | {"PYTHONPATH": str(self.home / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        ran = subprocess.run(
            command, cwd=self.home, env=environment, capture_output=True, text=True, timeout=RUN_SECONDS, check=False
        )
        if ran.returncode == 0:
            return None
        red = re.findall(rf"^FAILED {re.escape(TESTS)}::(\w+)", ran.stdout, re.MULTILINE)
        if ran.returncode != 1 or not red or because not in ran.stdout:
            raise RuntimeError(f"red for another reason: {ran.stdout[-2000:]}{ran.stderr[-2000:]}")
        tables = [tables for found in TABLES.findall(ran.stdout) for tables in found.split(", ")]
        return ", ".join(red) + (f" on {', '.join(tables)}" if tables else "")

    def run_without(self, mutation: Mutation, test: str) -> str | None:
        """The same, with this guard taken out of its file."""
        file = self.home / mutation.file
        before = file.read_text()
        file.write_text(mutation.applied(before))
        try:
            return self.run(test, because=BECAUSE[mutation.kind])
        finally:
            file.write_text(before)


@contextmanager
def scratch_copy(commit: str) -> Generator[Scratch, None, None]:
    """A copy of this commit that is gone afterwards."""
    with TemporaryDirectory(prefix="duly-guards-") as directory:
        home = Path(directory) / "copy"
        subprocess.run(["git", "clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(home)], check=True)
        subprocess.run(["git", "checkout", "--quiet", "--detach", commit], cwd=home, check=True)
        yield Scratch(home)
