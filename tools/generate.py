"""Write every file anew that is rendered from the source: `python -m tools.generate`.

    src/duly/**/guards.sql          from the state machines and the bounds of a job
    src/duly/**/contract*.txt       from the catalogue of a migrated database
    supabase/migrations/            from the migrations and functions
    tests/golden/                   the words of --help and the OpenAPI document
    docs/configuration.md, ...      from the settings, the public names and the figures

Tests marked `golden` compare these files with their sources; here they write them.
"""

import os
import subprocess
import sys
from collections.abc import Iterator

from duly.launcher import ROOT

GUARDS = "tests/fast/lease/test_guards.py"  # first: other files contain the guards
MARK = "pytest.mark.golden"


def main() -> int:
    """Write the files; return the exit status of what failed."""
    for arguments in ([GUARDS, "-n0"], list(tests_after_guards())):
        command = [sys.executable, "-m", "tools.run_tests", *arguments, "-m", "golden", "-q"]
        if status := subprocess.run(command, cwd=ROOT, env={**os.environ, "DULY_UPDATE_GOLDEN": "1"}).returncode:
            return status
    return 0


def tests_after_guards() -> Iterator[str]:
    """Yield the other files of tests that write files."""
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        name = file.relative_to(ROOT).as_posix()
        if name != GUARDS and MARK in file.read_text():
            yield name


if __name__ == "__main__":
    sys.exit(main())
