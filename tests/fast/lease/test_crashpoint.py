"""Crash points: free when unarmed, deadly when armed, and every name is known."""

import ast
import subprocess
import timeit
from collections.abc import Iterator
from pathlib import Path

import pytest

from duly import crashpoint as module
from duly.crashpoint import CRASHPOINTS, VARIABLE, crashpoint
from tests.support.processes import PYTHON, plain_environment

PROGRAM = """
import atexit, sys
from duly.crashpoint import crashpoint
atexit.register(print, "cleanup")
try:
    for name in sys.argv[1:]:
        print(name, flush=True)
        print("buffered", end="")
        crashpoint(name)
finally:
    print("finally")
"""


def run(setting: str | None, *names: str) -> subprocess.CompletedProcess[str]:
    """Pass these crash points in a process of their own."""
    armed = {} if setting is None else {VARIABLE: setting}
    environment = plain_environment(PYTHONUNBUFFERED="", **armed)
    command = [*PYTHON, "-c", PROGRAM, *names]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("setting", [None, ""])
def test_without_the_variable_no_crash_point_kills_the_process(setting: str | None) -> None:
    ran = run(setting, *sorted(CRASHPOINTS))
    assert ran.returncode == 0
    assert ran.stdout.endswith("finally\ncleanup\n")


def test_armed_crash_point_kills_the_process_without_cleanup_or_flush() -> None:
    ran = run("after_work", "before_work", "after_work", "after_settle")
    assert (ran.returncode, ran.stderr) == (137, "")
    assert ran.stdout == "before_work\nbufferedafter_work\n"


def test_every_name_can_be_armed() -> None:
    offenders = [
        f"{name}: exit status {ran.returncode}, expected 137: {ran.stderr}"
        for name in sorted(CRASHPOINTS)
        if (ran := run(name, name)).returncode != 137
    ]
    assert not offenders, "\n".join(offenders)


def test_pass_number_counts_only_passes_of_that_crash_point() -> None:
    passed = ["after_claim", "before_work", "after_claim", "before_work", "after_claim", "before_work"]
    ran = run("after_claim:3", *passed)
    assert ran.returncode == 137
    assert ran.stdout.count("after_claim") == 3
    assert ran.stdout.count("before_work") == 2


def test_crash_point_armed_for_a_pass_that_is_not_reached_kills_nothing() -> None:
    assert run("after_claim:3", "after_claim", "after_claim").returncode == 0


@pytest.mark.parametrize(
    "setting", ["after_lunch", "after_claim:0", "after_claim:", "after_claim:x", "AFTER_CLAIM", " after_claim", ":1"]
)
def test_invalid_crash_point_setting_is_refused_at_import(setting: str) -> None:
    ran = run(setting)
    assert ran.returncode == 1
    assert f"Misconfigured: DULY_CRASHPOINT={setting!r}" in ran.stderr
    assert all(name in ran.stderr for name in CRASHPOINTS)


def test_unregistered_crash_point_is_an_assertion_error_when_one_is_armed() -> None:
    ran = run("after_claim", "after_lunch")
    assert ran.returncode == 1
    assert "AssertionError: crash point 'after_lunch' is not registered" in ran.stderr


def test_unarmed_crash_point_takes_less_than_300_ns() -> None:
    calls = 100_000
    seconds = min(timeit.repeat("crashpoint('after_claim')", globals={"crashpoint": crashpoint}, number=calls))
    assert seconds / calls < 300e-9  # measured: 30 ns


def calls_of_crashpoint(file: Path) -> Iterator[ast.Call]:
    """Every call of crashpoint in a file, however it was imported."""
    for node in ast.walk(ast.parse(file.read_text(), file)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "crashpoint":
            yield node


def names_of(call: ast.Call) -> set[object]:
    """The names written out in a call; anything but a constant stands for itself, and is no name."""
    return {argument.value if isinstance(argument, ast.Constant) else ast.dump(argument) for argument in call.args}


def test_source_search_finds_crash_point_calls(tmp_path: Path) -> None:
    (tmp_path / "some.py").write_text("crashpoint('a')\ncrashpoint.crashpoint('b')\nother('c')\ncrashpoint(d)\n")
    first, second, third = map(names_of, calls_of_crashpoint(tmp_path / "some.py"))
    assert (first, second) == ({"a"}, {"b"})
    assert not third & {"d"}


def test_no_crash_point_is_armed_while_tests_run() -> None:
    assert module._trigger is None  # pyright: ignore[reportPrivateUsage]


def test_crash_point_can_be_armed_after_the_import() -> None:
    program = "from duly.crashpoint import arm, crashpoint\narm('after_work:2')\n" + 2 * "crashpoint('after_work')\n"
    ran = subprocess.run([*PYTHON, "-c", program], env=plain_environment(), timeout=60)
    assert ran.returncode == 137
