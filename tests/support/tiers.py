"""The tiers of the tests, which are directories, and what each of them asks of a test.

tests/fast     what one runs while working: at most a second of CPU each, invariants asked once per module
tests/full     what must hold before a change lands: real processes, invariants asked after every test
tests/proof    faults, guards removed, races, recordings, benchmarks: nightly
"""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from duly.launcher import ROOT
from tests.support.cpu import CpuMeter

FAST = ROOT / "tests" / "fast"
MAX_CPU_SECONDS = 1.0
CURRENT = {"is_fast": False}


def is_fast(path: Path) -> bool:
    """Is this file one of the fast tier?"""
    return path.is_relative_to(FAST)


def is_fast_test_running() -> bool:
    """Is the test that runs now one of the fast tier?"""
    return CURRENT["is_fast"]


class Budget:
    """Measures what tests cost, and fails a fast one that costs too much.

    A test over the limit is run once more before it fails: the first to import a library pays for all.
    """

    def __init__(self) -> None:
        self.meter = CpuMeter()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run a test, twice if need be, and report it with its cost."""
        CURRENT["is_fast"] = is_fast(item.path)
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports, cpu_seconds = self.measured(item, nextitem)
        if is_fast(item.path) and cpu_seconds > MAX_CPU_SECONDS and all(not report.failed for report in reports):
            reports, again = self.measured(item, nextitem)
            if again > MAX_CPU_SECONDS:
                fail(reports, cpu_seconds, again)
            cpu_seconds = again
        for report in reports:
            report.user_properties.append(("cpu", round(cpu_seconds, 3)))
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def measured(self, item: pytest.Item, nextitem: pytest.Item | None) -> tuple[list[pytest.TestReport], float]:
        """The reports of a test, and the CPU seconds it took."""
        began = self.meter.read()
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        return reports, self.meter.read() - began

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        """Leave out what several tests share."""
        if fixturedef.scope == "function":
            return (yield)
        with self.meter.paused():
            return (yield)


def fail(reports: list[pytest.TestReport], first: float, second: float) -> None:
    """Let a test that passed fail for its cost."""
    report = next(report for report in reports if report.when == "call")
    report.outcome = "failed"
    report.longrepr = (
        f"{report.nodeid} used {first:.1f} s of CPU, and {second:.1f} s when tried again; a test in tests/fast may use "
        f"{MAX_CPU_SECONDS:.0f} s. Make it lighter, or move it to tests/full."
    )
