"""Crash points: free when unarmed, deadly when armed, and every name is known."""

from duly.crashpoint import CRASHPOINTS
from duly.launcher import ROOT
from tests.fast.lease.test_crashpoint import calls_of_crashpoint, names_of


def test_every_crash_point_in_the_source_is_a_registered_name_written_out() -> None:
    for file in (ROOT / "src").rglob("*.py"):
        for call in calls_of_crashpoint(file):
            assert names_of(call) <= CRASHPOINTS, f"{file}:{call.lineno}"
