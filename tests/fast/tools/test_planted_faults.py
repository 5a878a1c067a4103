"""`python -m tools.planted_faults`: which tests run first, and what a continued run still has to try."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from duly.launcher import ROOT
from tools.planted_faults import __main__ as command
from tools.planted_faults.__main__ import TIERS, Results, is_caused, select_faults
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
    fast.add(found.id, FAILED, 1.0, found.digest)
    fast.add(missed.id, PASSED, 1.0, missed.digest)
    full = Results(tmp_path / "faults.json", "c0ffee", "full")
    assert [bool(full.find_fault(fault)) for fault in (found, missed, unknown)] == [True, False, False]
    assert Results(tmp_path / "faults.json", "another", "full").find_fault(found) is None


def test_two_runs_share_one_file_and_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "faults.json"
    one, other = Results(file, "c0ffee", "fast"), Results(file, "c0ffee", "fast")
    one.add("one", FAILED, 1.0)
    other.add("other", FAILED, 1.0)
    assert [each.id for each in Results(file, "c0ffee", "fast").results] == ["one", "other"]


@pytest.mark.parametrize(
    ("with_fault", "without", "caused"), [(FAILED, PASSED, True), (FAILED, FAILED, False), (PASSED, PASSED, False)]
)
def test_failure_counts_only_if_the_test_alone_fails_with_the_fault_and_passes_without(
    with_fault: Outcome, without: Outcome, caused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault, file = FAULTS[0], tmp_path / FAULTS[0].file
    file.parent.mkdir(parents=True)
    file.write_text(fault.old)
    author = ("-c", "user.name=anna", "-c", "user.email=anna@example.com")
    for command_line in (["init", "-q"], ["add", "-A"], [*author, "commit", "-qm", "all"]):
        subprocess.run(["git", *command_line], cwd=tmp_path, check=True)

    def run(_clone: Path, arguments: Sequence[str], _limit: float) -> Outcome:
        assert list(arguments) == ["-n0", FAILED.by]
        return with_fault if file.read_text() == fault.new else without

    monkeypatch.setattr(command, "run_tests", run)
    assert is_caused(tmp_path, fault, FAILED.by, TIERS["fast"]) is caused
    assert file.read_text() == fault.old


def test_run_that_ended_without_a_failed_test_is_no_result() -> None:
    with pytest.raises(Refused, match="no result: timed out after 40 minutes"):
        is_caused(ROOT, FAULTS[0], "timed out after 40 minutes", TIERS["fast"])
