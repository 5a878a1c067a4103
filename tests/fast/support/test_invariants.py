"""Which tests the invariants are asked after, and where the tools look for tests."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from duly.launcher import ROOT
from tests.conftest import CHECKED_MODULES, should_check_invariants
from tests.support.invariants import CHECKED_PACKAGES
from tools.planted_faults.faults import FAULTS
from tools.proof import CONFORMANCE, SQL

TESTS = ROOT / "tests"
TIERS = ("fast", "full", "proof")


def test_every_package_whose_tests_check_the_invariants_has_tests() -> None:
    assert [name for name in CHECKED_PACKAGES if not any((TESTS / tier / name).is_dir() for tier in TIERS)] == []


def test_every_directory_named_by_a_proof_section_exists() -> None:
    assert [name for name in SQL if not any((TESTS / tier / name).is_dir() for tier in TIERS)] == []
    assert [name for name in CONFORMANCE if not (ROOT / name).is_dir()] == []


def test_every_planted_fault_names_an_existing_package_or_module() -> None:
    roots = (ROOT / "src" / "duly", ROOT / "tools")
    named = {fault.package for fault in FAULTS}
    assert [
        name for name in named if not any((at / name).is_dir() or (at / f"{name}.py").exists() for at in roots)
    ] == []


@pytest.mark.parametrize(
    ("tier", "option", "checked"),
    [("fast", None, [True, False, False]), ("fast", "test", [True] * 3), ("full", None, [True] * 3)],
)
def test_invariants_are_checked_once_per_module_in_fast_and_after_every_test_in_full(
    tier: str, option: str | None, checked: Sequence[bool]
) -> None:
    config = SimpleNamespace(stash={CHECKED_MODULES: set[Path]()}, option=SimpleNamespace(invariants=option))
    request: Any = SimpleNamespace(path=ROOT / "tests" / tier / "jobs" / "test_claim.py", config=config)
    assert [should_check_invariants(request) for _ in range(3)] == checked
