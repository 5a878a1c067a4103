"""The words of `--help`, changed only on purpose: DULY_UPDATE_GOLDEN=1 ./duly test tests/golden writes them anew."""

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
from tests.support.golden import check_golden
from tests.support.processes import PYTHON, plain_environment

GOLDEN = Path(__file__).parent / "cli"
TERMINAL = {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}


def commands_of(group: Group, *words: str) -> Iterator[str]:
    """Every command there is, as it is typed."""
    for name, command in group.commands.items():
        if isinstance(command, Group):
            yield from commands_of(command, *words, name)
        else:
            yield " ".join((*words, name))


COMMANDS = ("", *commands_of(cast("Group", get_command(app))))


def file_of(command: str) -> Path:
    return GOLDEN / f"{command.replace(' ', '-') or 'duly'}.txt"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_what_it_said(command: str) -> None:
    shown = CliRunner().invoke(app, [*command.split(), "--help"], env=TERMINAL, prog_name="duly")
    assert shown.exit_code == 0
    check_golden(file_of(command), without_margins(shown.stdout))


def test_no_words_are_left_of_a_command_that_is_gone() -> None:
    assert sorted(GOLDEN.iterdir()) == sorted(map(file_of, COMMANDS))


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
