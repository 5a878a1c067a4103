"""What the modules promise to export is there, and importing duly costs little."""

import subprocess
import sys
from pathlib import Path

from duly.configuration.engine import DATABASE_VARIABLES
from duly.launcher import ROOT
from tests.fast.docs.test_public_names import quickest
from tests.support.processes import PYTHON, plain_environment


def test_help_prints_in_less_than_400_ms() -> None:
    command = [*PYTHON, "-m", "duly", "--help"]
    assert quickest(lambda: subprocess.run(command, check=True, capture_output=True, env=plain_environment())) < 0.400


def test_main_py_runs() -> None:
    command, environment = [sys.executable, ROOT / "main.py"], plain_environment()
    ran = subprocess.run(command, capture_output=True, text=True, cwd=Path("/"), env=environment)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert all(variable in ran.stderr for variable in DATABASE_VARIABLES)  # it never makes a database of its own
