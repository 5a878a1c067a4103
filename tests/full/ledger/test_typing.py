"""What type checkers find in programs that ask for jobs."""

import json
import subprocess
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
FORGOTTEN = "reportUnusedCoroutine"


def test_pyright_finds_a_forgotten_await_and_a_wrong_argument(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "venvPath": str(ROOT), "venv": ".venv"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({**settings, "extraPaths": [str(ROOT / "src")]}))
    pyright = ROOT / ".venv" / "bin" / "pyright"
    ended = subprocess.run([pyright, "--outputjson", "-p", tmp_path], capture_output=True, text=True, check=False)
    found = [
        (each["range"]["start"]["line"], each.get("rule"))
        for each in json.loads(ended.stdout)["generalDiagnostics"]
        if each.get("rule") != "reportUnusedExpression" and each["severity"] == "error"
    ]
    lines = PROGRAM.splitlines()
    marked = {mark: {n for n, line in enumerate(lines) if line.endswith(mark)} for mark in ("# forgotten", "# wrong")}
    assert {line for line, rule in found if rule == FORGOTTEN} == marked["# forgotten"]
    assert {line for line, rule in found if rule != FORGOTTEN} == marked["# wrong"], found
