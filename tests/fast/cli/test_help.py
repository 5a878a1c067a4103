"""The texts of `--help` are those of the golden files, which `python -m tools.generate` writes."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.core import TyperGroup as Group
from typer.testing import CliRunner

from duly.applications import ALL
from duly.cli import app
from duly.cli.app import list_commands as list_lazy_commands
from tests.support.command_line import load_all_commands
from tests.support.golden import GOLDEN, golden_change
from tests.support.processes import PYTHON, plain_environment

PAGES = GOLDEN / "cli"
TERMINAL = {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}


def list_commands(group: Group, *parents: str) -> Iterator[str]:
    """Yield every command as it is typed."""
    for name, command in group.commands.items():
        if isinstance(command, Group):
            yield from list_commands(command, *parents, name)
        else:
            yield " ".join((*parents, name))


GROUP = load_all_commands()
COMMANDS = ("", *list_commands(GROUP))
PARTS = 4  # together they are near the second of CPU that a fast test may use


def golden_file(command: str) -> Path:
    return PAGES / f"{command.replace(' ', '-') or 'duly'}.txt"


def find_change(command: str) -> str:
    """Compare the help of a command with its golden file, or update that; return "" or what differs."""
    result = CliRunner().invoke(app, [*command.split(), "--help"], env=TERMINAL, prog_name="duly")
    if result.exit_code != 0:
        return f"duly {command} --help: exit status {result.exit_code}: {result.exception!r}"
    return golden_change(golden_file(command), strip_margins(result.stdout))


@pytest.mark.golden
@pytest.mark.parametrize("nth", range(PARTS))
def test_help_texts_match_the_golden_files(nth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def built(_: object) -> Group:
        return GROUP

    monkeypatch.setattr("typer.testing._get_command", built)  # CliRunner would build every command anew each time
    offenders = [change for command in COMMANDS[nth::PARTS] if (change := find_change(command))]
    assert not offenders, "\n".join(offenders)


def test_every_golden_help_file_belongs_to_a_command() -> None:
    assert sorted(PAGES.iterdir()) == sorted(map(golden_file, COMMANDS))


def test_subprocess_prints_the_same_help() -> None:
    command = [*PYTHON, "-m", "duly", "--help"]
    result = subprocess.run(command, env=plain_environment(**TERMINAL), check=True, capture_output=True, text=True)
    assert strip_margins(result.stdout) == golden_file("").read_text()


def strip_margins(text: str) -> str:
    """Remove blanks at the ends of lines and around the text."""
    return "\n".join(line.rstrip() for line in text.splitlines()).strip() + "\n"


def test_every_command_has_an_example() -> None:
    pages = {command: golden_file(command) for command in COMMANDS[1:]}
    texts = {command: page.read_text() if page.exists() else "" for command, page in pages.items()}
    offenders = [
        f"duly {command}: {pages[command].name} has no 'Example: … duly {command}'"
        for command, text in texts.items()
        if not re.search(rf"Example: .*\bduly {command}\b", text)
    ]
    assert not offenders, "\n".join(offenders)


def test_command_list_shows_the_first_paragraph_of_each_help_text() -> None:
    offenders = [
        f"{command.name}: app.py says {command.summary!r}, {command.module} says {paragraph!r}"
        for command in list_lazy_commands(ALL)
        if (paragraph := first_paragraph(GROUP.commands[command.name].help or "")) != command.summary
    ]
    assert not offenders, "\n".join(offenders)


def first_paragraph(text: str) -> str:
    return " ".join(text.strip().split("\n\n")[0].split())
