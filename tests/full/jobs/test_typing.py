"""Type errors in programs that enqueue jobs."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from duly.launcher import ROOT

PROGRAM = """
import duly
import psycopg
from sqlalchemy.ext.asyncio import AsyncSession

app = duly.App()


@app.job("thumbnail")
async def thumbnail(ctx: duly.Context, image_id: str) -> None:
    async with ctx.transaction() as tx:
        ctx.complete(tx)  # forgotten


async def forget(session: AsyncSession, tx: psycopg.AsyncConnection) -> None:
    thumbnail.on(session).enqueue("a1")  # forgotten
    thumbnail.on(tx, key="k").enqueue("a1")  # forgotten
    (await thumbnail.on(tx).enqueue("a1")).job_id.hex


def plain(tx: psycopg.Connection) -> None:
    thumbnail.on(tx).enqueue("a1")
    thumbnail.on(tx).enqueue(1)  # wrong
    thumbnail.on(tx, dely="1h").enqueue("a1")  # wrong
    duly.Backoff("fixed", 1, 1)


@app.job("later", max_attempt=3)  # wrong
def later(ctx: duly.Context) -> None: ...
"""
FORGOTTEN = {"reportUnusedCoroutine", "unused-coroutine"}
LINES = PROGRAM.splitlines()
MARKED = {mark: {n for n, line in enumerate(LINES, 1) if line.endswith(mark)} for mark in ("# forgotten", "# wrong")}
MYPY_MESSAGES = re.compile(r"^program\.py:(\d+): error: .* \[([a-z-]+)\]$", re.MULTILINE)


def test_pyright_finds_a_forgotten_await_and_a_wrong_argument(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "venvPath": str(ROOT), "venv": ".venv"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({**settings, "extraPaths": [str(ROOT / "src")]}))
    pyright = ROOT / ".venv" / "bin" / "pyright"
    ended = subprocess.run([pyright, "--outputjson", "-p", tmp_path], capture_output=True, text=True, check=False)
    found = [
        (each["range"]["start"]["line"] + 1, each.get("rule"))
        for each in json.loads(ended.stdout)["generalDiagnostics"]
        if each.get("rule") != "reportUnusedExpression" and each["severity"] == "error"
    ]
    check(found)


def test_mypy_finds_a_forgotten_await_and_a_wrong_argument(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "program.py"]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    check([(int(line), rule) for line, rule in MYPY_MESSAGES.findall(ended.stdout)])


def check(found: Sequence[tuple[int, str | None]]) -> None:
    """Check that errors were found on exactly the marked lines."""
    assert {line for line, rule in found if rule in FORGOTTEN} == MARKED["# forgotten"], found
    assert {line for line, rule in found if rule not in FORGOTTEN} == MARKED["# wrong"], found
