"""The commands of README and docs, run as they stand: each succeeds, and prints what the page says it does."""

import os
import re
import shutil
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from duly.launcher import ROOT
from tests.support.command_line import DULY
from tests.support.pages import Command, blocks_run_as_shell, commands_of
from tests.support.processes import PYTHON, Program, plain_environment

PAGES = blocks_run_as_shell()
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
SHORTENED = r"\b(?:019a8b8e|01a1e[0-9a-f]{3})\b(?!-)"
SERVER = "http://127.0.0.1:8420"
# What must have happened before a command, which the page tells in words.
BEFORE = {
    "./duly ingest diff 2026-02-10 1 2 --user 42": (
        "sed 's/10:00/11:00/' fixtures/sample_schedule.json > changed.json\n"
        "./duly ingest capture --fixture changed.json --user 42"
    ),
    "./duly people set bo --telegram-id 43": "./duly people create bo",
    "./duly people set anna --apprise ntfys://ntfy.sh/annas-reminders": "./duly people create anna",
    "duly jobs cancel 019a8b8e --now": "duly jobs enqueue thumbnail > job.txt; LAST=$(cut -c11-46 job.txt)",
}
# Commands that are refused here, and with which words: there is nothing yet for them to do.
REFUSED = {
    "duly jobs enqueue thumbnail --payload '{\"sizes\": [1, NaN]}'": "is not a finite number",
    "duly jobs redrive 019a8b8e": "is canceled and cannot be put back in the queue",
}
# Answers over HTTP that are refusals, block by block: what the page wants to show.
PROBLEMS = {
    """curl -s $API/v1/jobs --json '{"type": "thumbnail", "max_attempts": 0, "prioritty": 1}'""": "INVALID_ARGUMENT",
    "curl -s -i $API/v1/jobs": "UNAUTHORIZED",
    "curl -s $API/v1/createPostIntent": "ALREADY_POSTED",
}
# Output that is an illustration: other jobs, other days, another server.
NOT_COMPARED = {
    "./duly ingest diff 2026-02-10 1 2 --user 42": "the page changes two things",
    "duly jobs timeline 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77": "the page's job has been performed",
    "duly jobs explain 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77": "the page has two workers",
    "duly jobs redrive-many --type thumbnail --code TIMEOUT --finished-from 2030-01-31": "the page has 1204",
    "./duly people create anna": "the page leaves it out",
}


@pytest.mark.parametrize("page", PAGES)
def test_the_shell_commands_of_a_documentation_page_run_unchanged(page: str, database: str, tmp_path: Path) -> None:
    commands = [command for block in PAGES[page] for command in commands_of(block)]
    with working(database, tmp_path) as (address, environment):
        script = to_script(commands, address)
        ran = subprocess.run(["sh", "-eu"], input=script, env=environment, cwd=tmp_path, capture_output=True, text=True)
    printed = [
        (tmp_path / f"{nth}.out").read_text() for nth in range(len(commands)) if (tmp_path / f"{nth}.out").exists()
    ]
    assert ran.returncode == 0, f"{commands[len(printed) - 1].line}\n{printed[-1:]}\n{ran.stderr}"
    wrong = [fault for command, output in zip(commands, printed, strict=True) for fault in find_faults(command, output)]
    assert not wrong, "\n".join(wrong)


@contextmanager
def working(database: str, directory: Path) -> Generator[tuple[str, Mapping[str, str]], None, None]:
    """A directory as a reader has it, a worker and an API; the address of the API, and the environment."""
    for name in ("fixtures", "database", "examples"):
        (directory / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "fixtures" / "demo" / "evening.jpg", directory / "sunset.jpg")
    shutil.copy(ROOT / "fixtures" / "demo" / "day.png", directory / "day.png")
    (directory / "order.json").write_text('{"image_id": "a1"}')
    launcher = directory / "duly"
    launcher.write_text(f'#!/bin/sh\nexec {" ".join(PYTHON)} -m duly "$@"\n')
    launcher.chmod(0o755)
    path = f"{directory}:{os.environ['PATH']}"
    environment = plain_environment(DATABASE_URL=database, DULY_HOME=str(directory / ".duly"), PATH=path)
    quiet = {**environment, "DULY_LOG_LEVEL": "error", "WORKER_INPUT_MODE": "fixture"}
    with (
        Program([*DULY, "serve", "--port", "0"], environment=environment) as api,
        Program([*DULY, "worker", "--only", "ingest,scheduler,outbox"], environment=quiet),
    ):
        yield api.line().removeprefix("duly: API at "), environment


def to_script(commands: Sequence[Command], address: str) -> str:
    """The commands as a script that keeps what each prints; an id on the page is the last one that was printed."""
    lines = ["LAST=none"]
    for nth, command in enumerate(commands):
        typed = command.line.replace(SERVER, address)
        typed = (
            re.sub(rf"{UUID}|{SHORTENED}", "$LAST", typed) if "LAST" not in typed and "--json" not in typed else typed
        )
        refused = " || true" if command.line_alone in REFUSED else ""
        lines += [
            BEFORE.get(command.line_alone, ":"),
            f": > {nth}.out",
            f"{{ {typed}\n}} > {nth}.out 2>&1{refused}",
            f"found=$(grep -oE '{UUID}' {nth}.out | head -1 || true)",
            'LAST="${found:-$LAST}"',
        ]
    return "\n".join(lines) + "\n"


def find_faults(command: Command, output: str) -> list[str]:
    """What a command did not print that the page says it prints."""
    line = command.line_alone
    if line in REFUSED and REFUSED[line] not in output:
        return [f"{line}: was not refused as it should be: {output}"]
    if line in NOT_COMPARED or line in REFUSED:
        return []
    printed = output.splitlines()
    codes = set(re.findall(r'"code": ?"([A-Z_]+)"', output))
    shown = {code for part, code in PROBLEMS.items() if part in command.line}
    if codes != shown:
        return [f"{line}: was answered with {codes}, the page shows {shown}: {output}"]
    return [
        f"{line}\n  the page: {wanted}\n  it printed: {output}"
        for wanted in command.output
        if not any(re.fullmatch(to_pattern(wanted), each) for each in printed)
    ]


def to_pattern(line: str) -> str:
    """A line of a page, with ids and times that are others every time."""
    parts = re.split(rf"({UUID}|\d{{4}}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z| [A-Z]{{3,4}})|…)", line.rstrip())
    return "".join(".*" if nth % 2 else re.escape(part) for nth, part in enumerate(parts))
