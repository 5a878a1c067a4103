"""The words of `--help`, changed only on purpose: DULY_UPDATE_GOLDEN=1 ./duly test tests/golden writes them anew."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.golden import check_golden
from tests.support.processes import PYTHON, plain_environment

GOLDEN = Path(__file__).parent / "cli"
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
    environment = plain_environment(COLUMNS="100", TERM="dumb", NO_COLOR="1")
    words = [*PYTHON, "-m", "duly", *command.split(), "--help"]
    shown = subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout
    shown = "\n".join(line.rstrip() for line in shown.splitlines()).strip() + "\n"
    check_golden(file_of(command), shown)


@pytest.mark.parametrize("command", COMMANDS[1:])
def test_every_command_has_an_example(command: str) -> None:
    assert re.search(rf"Example: .*\bduly {command}\b", file_of(command).read_text())
