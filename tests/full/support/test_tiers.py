"""What a run shows, and what a fast test may cost: a run of a few tests in a directory that stands for tests/fast."""

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from duly.launcher import ROOT

SMALL_RUN = """\
from pathlib import Path
import pytest
from tests.support import tiers
from tests.support.progress import Progress

tiers.FAST = Path(__file__).parent / "fast"

def pytest_configure(config):
    config.pluginmanager.register(tiers.Budget())

@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session):
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    session.config.pluginmanager.register(Progress(terminal, "small tier; repeat this order"))
"""
BURN = "import time\nend = time.process_time() + 1.3\nwhile time.process_time() < end: pass\n"
FAST_TESTS = f"""\
import subprocess, sys, threading
import pytest
CODE = {BURN!r}
FIRST = []

def test_light(): pass

def test_waits(): threading.Event().wait(1.3)

def test_burns(): exec(CODE)

def test_child_burns(): subprocess.run([sys.executable, "-c", CODE], check=True)

def test_first_of_its_kind_burns():
    if not FIRST:
        FIRST.append(True)
        exec(CODE)

@pytest.mark.parametrize("nth", range(12))
def test_one_of_many(nth): pass
"""
FULL_TESTS = f"def test_burns_in_full(): exec({BURN!r})\n"


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Sequence[str]:
    """What a run of these tests prints."""
    directory = tmp_path_factory.mktemp("tiers")
    files = {"conftest.py": SMALL_RUN, "fast/test_fast.py": FAST_TESTS, "full/test_full.py": FULL_TESTS}
    for name, text in files.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(text)
    options = ("-p", "no:cacheprovider", "-p", "no:randomly", "--rootdir", str(directory), "-c", os.devnull)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-n0", *options, str(directory)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=directory,
        capture_output=True,
        text=True,
    )
    return (ran.stdout + ran.stderr).splitlines()


def test_fast_test_over_a_second_of_cpu_fails_and_is_sent_to_full(lines: Sequence[str]) -> None:
    failed = {line.partition(" - ")[0].rpartition("::")[2] for line in lines if line.startswith("FAILED ")}
    assert failed == {"test_burns", "test_child_burns"}, "\n".join(lines)
    reason = next(line for line in lines if "test_burns used" in line)
    assert "a test in tests/fast may use 1 s. Make it lighter, or move it to tests/full." in reason


def test_run_says_its_tier_first_then_how_many_tests(lines: Sequence[str]) -> None:
    printed = [line for line in lines if line.startswith("duly: ")]
    assert printed == ["duly: small tier; repeat this order; collecting tests", "duly: 18 tests"], "\n".join(lines)


def test_run_ends_with_its_ten_slowest_tests_and_their_cpu(lines: Sequence[str]) -> None:
    first = lines.index("the 10 slowest tests (seconds, of which CPU):") + 1
    slowest = [line.split() for line in lines[first : first + 10]]
    assert [float(seconds) for seconds, _, _ in slowest] == sorted((float(each[0]) for each in slowest), reverse=True)
    waits = next(each for each in slowest if each[2].endswith("::test_waits"))
    assert float(waits[0]) >= 1.3
    assert float(waits[1]) < 1.0
