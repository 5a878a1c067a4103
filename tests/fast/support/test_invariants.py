"""Which tests the invariants are asked after, and where the tools look for tests."""

from duly.launcher import ROOT
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
