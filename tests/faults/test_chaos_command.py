"""`duly chaos`: what it offers, what it refuses, and the page it writes."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.faults import report
from tests.faults.episodes import EPISODES, Outcome
from tests.faults.faults import FAULTS
from tests.faults.report import as_json, write_report
from tests.support.processes import PYTHON, plain_environment

ABOUT = {"seed": 7, "commit": "abc"}
GOOD = Outcome("everything", 5, 61.0, {"workers killed": 12, "acknowledged jobs": 40}, ["1.00 kill workers"], [])
BAD = Outcome("pooler", 6, 30.0, {"workers killed": 3}, [], ["lost: job 1"])


def chaos(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    command = [*PYTHON, "-m", "duly", "chaos", *words]
    return subprocess.run(command, env=plain_environment(), capture_output=True, text=True, timeout=120)


def test_it_says_which_episodes_there_are() -> None:
    shown = chaos("--list")
    assert shown.returncode == 0
    assert [line.split("  ")[0].strip() for line in shown.stdout.splitlines()] == list(EPISODES)


def test_an_episode_that_is_not_there_is_refused_with_those_that_are() -> None:
    refused = chaos("--only", "locusts")
    assert refused.returncode == 2
    assert "there is no 'locusts'" in refused.stderr
    assert all(name in refused.stderr for name in EPISODES)


def test_it_says_which_guards_there_are() -> None:
    shown = chaos("--guards", "--list", "--only", "^skip locked")
    assert shown.returncode == 0
    assert "skip locked" in shown.stdout


def test_the_page_says_what_was_survived_and_how_to_do_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "FIGURES", tmp_path)
    assert {file.name for file in write_report([GOOD, BAD], {"clocks": "no library"}, ABOUT)} == {
        "chaos.md",
        "chaos.svg",
        "chaos.data.json",
    }
    page = (tmp_path / "chaos.md").read_text()
    assert "**1 violations**" in page
    assert "| workers killed | 15 |" in page
    assert "--seed 7" in page
    assert "clocks (no library)" in page
    assert "- lost: job 1" in page
    data = json.loads((tmp_path / "chaos.data.json").read_text())
    assert data["totals"]["workers killed"] == 15
    assert "workers killed: 15" in (tmp_path / "chaos.svg").read_text()


def test_programs_get_all_of_it() -> None:
    told = as_json([GOOD, BAD], {}, ABOUT)
    assert told["violations"] == ["lost: job 1"]
    assert told["seconds"] == 91.0


def test_every_fault_says_what_it_does() -> None:
    assert all(fault.__doc__ for fault in FAULTS.values())
