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
from uuid import UUID

import asyncpg  # type: ignore[import-untyped, unused-ignore]  # pyright: ignore
import django.db.backends.base.base  # type: ignore[import-untyped, unused-ignore]  # pyright: ignore
import duly
import psycopg
import psycopg2.extensions  # type: ignore[import-untyped, unused-ignore]  # pyright: ignore
import sqlalchemy.orm
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

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


def takes(job_id: UUID) -> None: ...


def sync(
    cursor: psycopg.Cursor,
    connection: sqlalchemy.Connection,
    session: sqlalchemy.orm.Session,
    scoped: sqlalchemy.orm.scoped_session[sqlalchemy.orm.Session],
    django: django.db.backends.base.base.BaseDatabaseWrapper,
    old: psycopg2.extensions.connection,
    old_cursor: psycopg2.extensions.cursor,
) -> None:
    takes(thumbnail.on(cursor).enqueue("a1").job_id)
    takes(thumbnail.on(connection).enqueue("a1").job_id)
    takes(thumbnail.on(session).enqueue("a1").job_id)
    takes(thumbnail.on(scoped).enqueue("a1").job_id)
    takes(thumbnail.on(django).enqueue("a1").job_id)
    takes(thumbnail.on(old).enqueue("a1").job_id)
    takes(thumbnail.on(old_cursor).enqueue("a1").job_id)
    takes(app.enqueue("report", {}, session, delay="1h").job_id)
    takes(thumbnail.on(session).enqueue_many([{"image_id": "a1"}])[0].job_id)
    takes(thumbnail.on(session).enqueue("a1"))  # wrong
    app.enqueue("report", {}, session, dely="1h")  # wrong


async def awaited(
    cursor: psycopg.AsyncCursor,
    connection: AsyncConnection,
    session: AsyncSession,
    scoped: async_scoped_session[AsyncSession],
    plain: asyncpg.Connection,
) -> None:
    takes((await thumbnail.on(cursor).enqueue("a1")).job_id)
    takes((await thumbnail.on(connection).enqueue("a1")).job_id)
    takes((await thumbnail.on(session).enqueue("a1")).job_id)
    takes((await thumbnail.on(scoped).enqueue("a1")).job_id)
    takes((await thumbnail.on(plain).enqueue("a1")).job_id)
    takes((await app.enqueue("report", {}, session)).job_id)
    takes((await thumbnail.on(session).enqueue_many([{"image_id": "a1"}]))[0].job_id)
    thumbnail.on(connection).enqueue("a1")  # forgotten
    thumbnail.on(session).enqueue_many([])  # forgotten
    app.enqueue("report", {}, connection)  # forgotten
    thumbnail.on(None)  # wrong
    thumbnail.on("postgresql://")  # wrong


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
