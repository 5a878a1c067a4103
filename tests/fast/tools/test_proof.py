"""`./duly test --proof`: how a section is run and what its row says."""

import sys
from pathlib import Path

import pytest

from tools import proof


@pytest.fixture
def a_section(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A section of one command, `./duly` of a directory of this test's own, and a page of its own."""
    monkeypatch.setattr(proof, "ROOT", tmp_path)
    monkeypatch.setattr(proof, "PAGE", tmp_path / "proof.md")
    monkeypatch.setattr(proof, "DATA", tmp_path / "proof.data.json")
    monkeypatch.setattr(proof, "SECTIONS", {"small": proof.Section("a small thing", [["chaos", "--guards"]])})
    monkeypatch.setattr(proof, "commit", lambda: "1234567")
    return tmp_path / "duly"


def write_command(path: Path, body: str) -> None:
    """Write the program that stands for `./duly`."""
    path.write_text(f"#!{sys.executable}\n{body}\n")
    path.chmod(0o755)


def test_row_of_a_section_says_result_commit_and_load(a_section: Path) -> None:
    write_command(a_section, "print('==== 7 passed in 1.23s ====')")
    assert proof.run_proof(["small", "--report"]) == 0
    page = proof.PAGE.read_text()
    assert "| `small` | a small thing | green: 7 passed in 1.23s | 0.0 | " in page
    assert "| 1234567 | " in page


def test_section_with_a_failing_command_is_red(a_section: Path) -> None:
    write_command(a_section, "print('1 failed'); raise SystemExit(1)")
    assert proof.run_proof(["small", "--report"]) == 1
    assert "**red**: 1 failed" in proof.PAGE.read_text()


def test_section_over_its_time_limit_is_interrupted_and_red(a_section: Path) -> None:
    write_command(
        a_section,
        "import threading\nprint('halfway', flush=True)\n"
        "try: threading.Event().wait(60)\nexcept KeyboardInterrupt: print('removed the servers', flush=True)",
    )
    assert proof.run_proof(["small", "--report", "--minutes", "0"]) == 1
    assert "**red**: stopped at the time limit" in proof.PAGE.read_text()


def test_unknown_section_is_refused_with_the_known_ones(a_section: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert proof.run_proof(["pg14"]) == 2
    assert "unknown section: pg14; choose from small" in capsys.readouterr().err
