"""The words of `--help`, changed only on purpose: DULY_UPDATE_GOLDEN=1 ./duly test tests/golden writes them anew."""

import re
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from duly.cli import app
from tests.support.golden import check_golden
from tests.support.processes import PYTHON, plain_environment

GOLDEN = Path(__file__).parent / "cli"
TERMINAL = {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}
PEOPLE = [
    *(f"{noun} {verb}" for noun in ("orgs", "users", "keys") for verb in ("create", "list", "revoke")),
    "users set",
    "users link",
    "users unlink",
    "keys rotate-links",
]
JOBS = [
    f"jobs {verb}"
    for verb in (
        "enqueue",
        "list",
        "show",
        "timeline",
        "explain",
        "cancel",
        "retry",
        "redrive",
        "pause",
        "limits",
        "resume",
    )
]
POSTS = [
    f"posts {verb}"
    for verb in ("create", "list", "show", "timeline", "explain", "edit", "release", "repair", "import-legacy")
]
INGEST = [
    f"ingest {verb}"
    for verb in (
        "capture",
        "read",
        "list",
        "show",
        "timeline",
        "explain",
        "day",
        "versions",
        "diff",
        "events",
        "notifications",
        "replay",
    )
]
SCHEDULE = [
    f"schedule {verb}"
    for verb in (
        "add",
        "edit",
        "list",
        "show",
        "next",
        "pause",
        "resume",
        "archive",
        "fire",
        "runs",
        "upcoming",
        "answer",
        "undo",
        "timeline",
        "explain",
        "seed",
    )
]
NOTIFICATIONS = [f"notifications {verb}" for verb in ("list", "show", "resend", "resolve")]
EXPENSES = [f"expenses {verb}" for verb in ("list", "export")]
PARTITIONS = [f"partitions {verb}" for verb in ("list", "create", "archive", "drop")]
DAILY = ("", "up", "serve", "bot", "migrate", "verify", "doctor", "slo", "psql")
COMMANDS = (
    *DAILY,
    *PEOPLE,
    *JOBS,
    *POSTS,
    *INGEST,
    *SCHEDULE,
    *NOTIFICATIONS,
    *EXPENSES,
    *PARTITIONS,
    "test",
    "check",
    "chaos",
    "lock",
)


def file_of(command: str) -> Path:
    return GOLDEN / f"{command.replace(' ', '-') or 'duly'}.txt"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_what_it_said(command: str) -> None:
    shown = CliRunner().invoke(app, [*command.split(), "--help"], env=TERMINAL, prog_name="duly")
    assert shown.exit_code == 0
    check_golden(file_of(command), without_margins(shown.stdout))


def test_a_process_of_its_own_says_the_same() -> None:
    words = [*PYTHON, "-m", "duly", "--help"]
    shown = subprocess.run(words, env=plain_environment(**TERMINAL), check=True, capture_output=True, text=True)
    assert without_margins(shown.stdout) == file_of("").read_text()


def without_margins(shown: str) -> str:
    """What is shown, without blanks at the ends of lines and around it."""
    return "\n".join(line.rstrip() for line in shown.splitlines()).strip() + "\n"


@pytest.mark.parametrize("command", COMMANDS[1:])
def test_every_command_has_an_example(command: str) -> None:
    assert re.search(rf"Example: .*\bduly {command}\b", file_of(command).read_text())
