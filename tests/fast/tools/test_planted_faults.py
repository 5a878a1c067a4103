"""`python -m tools.planted_faults`: which tests run first, and what a continued run still has to try."""

from pathlib import Path

import pytest

from duly.launcher import ROOT
from tools.planted_faults.__main__ import BASELINE, Results, select_faults
from tools.planted_faults.faults import FAULTS
from tools.planted_faults.order import find_function, order_files
from tools.planted_faults.scratch import Outcome, Refused, find_problems

FAILED, PASSED = Outcome(False, "tests/fast/test_x.py::test_x", 1.0), Outcome(True, "", 1.0)


def test_every_fault_can_be_planted_and_there_are_at_least_sixty() -> None:
    assert find_problems(ROOT, FAULTS) == []
    assert len(FAULTS) >= 60


def test_shards_divide_the_faults_and_each_has_every_large_package() -> None:
    shards = [select_faults(None, f"{number}/2") for number in (1, 2)]
    assert sorted(fault.id for shard in shards for fault in shard) == sorted(fault.id for fault in FAULTS)
    for shard in shards:
        assert {"jobs", "apps/ingest", "apps/scheduler", "apps/posts", "outbox", "db"} <= {
            each.package for each in shard
        }
    with pytest.raises(Refused, match="--shard: '3/2' is not K/N"):
        select_faults(None, "3/2")


def test_tests_that_name_the_function_of_a_fault_run_first() -> None:
    fault = next(fault for fault in FAULTS if fault.id == "kernel-bisect-half")
    first, *_, last = (
        (ROOT / name).read_text().count(find_function(ROOT, fault))
        for name in order_files(ROOT, fault, ("tests/fast",))
    )
    assert first > last


def test_own_tests_of_the_package_are_among_those_that_run_first() -> None:
    fault = next(fault for fault in FAULTS if fault.file == "src/duly/apps/posts/lease.sql")
    names = order_files(ROOT, fault, ("tests/fast",))
    own = {str(path.relative_to(ROOT)) for path in (ROOT / "tests" / "fast" / "apps" / "posts").rglob("test_*.py")}
    assert own <= set(names)
    assert any(name.startswith("tests/fast/lease/") for name in names)


def test_full_tries_only_what_fast_has_missed(tmp_path: Path) -> None:
    found, missed, unknown = FAULTS[:3]
    fast = Results(tmp_path / "faults.json", "c0ffee", "fast")
    fast.add(BASELINE, PASSED, 1.0)
    fast.add(found.id, FAILED, 1.0, found.digest)
    fast.add(missed.id, PASSED, 1.0, missed.digest)
    full = Results(tmp_path / "faults.json", "c0ffee", "full")
    assert [bool(full.find_fault(fault)) for fault in (found, missed, unknown)] == [True, False, False]
    assert full.find(BASELINE) is None
    assert Results(tmp_path / "faults.json", "another", "full").find_fault(found) is None


def test_two_runs_share_one_file_and_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "faults.json"
    one, other = Results(file, "c0ffee", "fast"), Results(file, "c0ffee", "fast")
    one.add("one", FAILED, 1.0)
    other.add("other", FAILED, 1.0)
    assert [each.id for each in Results(file, "c0ffee", "fast").results] == ["one", "other"]
