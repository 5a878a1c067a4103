"""The words of `--help`, changed only on purpose: DULY_UPDATE_GOLDEN=1 ./duly test tests/fast/cli writes them anew."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from typer.core import TyperGroup as Group
from typer.main import get_command
from typer.testing import CliRunner

from duly.cli import app
from tests.support.golden import GOLDEN, golden_change
from tests.support.processes import PYTHON, plain_environment

PAGES = GOLDEN / "cli"
TERMINAL = {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}


def commands_of(group: Group, *words: str) -> Iterator[str]:
    """Every command there is, as it is typed."""
    for name, command in group.commands.items():
        if isinstance(command, Group):
            yield from commands_of(command, *words, name)
        else:
            yield " ".join((*words, name))


GROUP = cast("Group", get_command(app))
COMMANDS = ("", *commands_of(GROUP))


def file_of(command: str) -> Path:
    return PAGES / f"{command.replace(' ', '-') or 'duly'}.txt"


def change_of(command: str) -> str:
    """Compare the help of a command with its golden file, which is written when asked: "", or what differs."""
    shown = CliRunner().invoke(app, [*command.split(), "--help"], env=TERMINAL, prog_name="duly")
    if shown.exit_code != 0:
        return f"duly {command} --help: exit status {shown.exit_code}: {shown.exception!r}"
    return golden_change(file_of(command), without_margins(shown.stdout))


def test_help_says_what_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def built(_: object) -> Group:
        return GROUP

    monkeypatch.setattr("typer.testing._get_command", built)  # CliRunner would build every command anew each time
    offenders = [change for command in COMMANDS if (change := change_of(command))]
    assert not offenders, "\n".join(offenders)


def test_no_words_are_left_of_a_command_that_is_gone() -> None:
    assert sorted(PAGES.iterdir()) == sorted(map(file_of, COMMANDS))


def test_a_process_of_its_own_says_the_same() -> None:
    words = [*PYTHON, "-m", "duly", "--help"]
    shown = subprocess.run(words, env=plain_environment(**TERMINAL), check=True, capture_output=True, text=True)
    assert without_margins(shown.stdout) == file_of("").read_text()


def without_margins(shown: str) -> str:
    """What is shown, without blanks at the ends of lines and around it."""
    return "\n".join(line.rstrip() for line in shown.splitlines()).strip() + "\n"


def test_every_command_has_an_example() -> None:
    pages = {command: file_of(command) for command in COMMANDS[1:]}
    texts = {command: page.read_text() if page.exists() else "" for command, page in pages.items()}
    offenders = [
        f"duly {command}: {pages[command].name} has no 'Example: … duly {command}'"
        for command, text in texts.items()
        if not re.search(rf"Example: .*\bduly {command}\b", text)
    ]
    assert not offenders, "\n".join(offenders)
