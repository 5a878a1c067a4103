"""`python -m tests.proof.guards`: remove every guard in turn, and say what went red.

    --list           print the list of guards, and remove none
    --only PATTERN   those whose name matches this regular expression
    --json           a list of objects on standard output; progress goes to standard error
    --report FILE    write the page of figures
    --resume FILE    note there what is done, and do nothing twice
    --jobs N         so many copies of the checkout at once

Ends with 1 when a guard was removed and nothing noticed.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import psycopg

from duly.launcher import ROOT
from duly.testing import TestDatabases
from duly.testing.databases import database_prefix, open_server, shared_directory
from tests.conftest import build_template
from tests.proof.guards.attacks import ATTACKS
from tests.proof.guards.catalogue import Guard, list_guards
from tests.proof.guards.removal import attack_without, attacked
from tests.proof.guards.report import Removed, render_page, render_summary
from tests.proof.guards.sample_rows import insert_sample_rows
from tests.proof.guards.scratch import Scratch, scratch_copy
from tests.proof.guards.statements import Mutation, mutations
from tests.proof.guards.test_statements import TESTS

Connection = psycopg.Connection[Any]
Each = TypeVar("Each", Guard, Mutation)


def main(argv: Sequence[str] | None = None) -> int:
    """Remove what is asked for; 0 when everything went red."""
    options = arguments(argv)
    began, of = time.monotonic(), commit()
    pattern = re.compile(options.only or "")
    with catalogued() as connection:
        guards = [guard for guard in list_guards(connection) if pattern.search(str(guard))]
        written = [each for each in mutations() if pattern.search(str(each))]
        if options.list:
            print("\n".join(map(str, (*guards, *written))))
            return 0
        results = Results(options.resume, quiet=options.json)
        remove_from_catalogue(connection, guards, results)
        version = connection.info.parameter_status("server_version") or ""
    remove_from_statements(written, results, options.jobs, of)
    removed = [results.known[str(each)] for each in (*guards, *written)]
    if options.json:
        print(json.dumps([asdict(each) for each in removed], indent=1))
    else:
        print(render_summary(removed))
    if options.report:
        when = datetime.now(UTC).strftime("%Y-%m-%d")
        Path(options.report).write_text(render_page(removed, of + unsaved(), when, time.monotonic() - began, version))
    return 0 if all(each.red for each in removed) else 1


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.guards", description="remove every guard in turn")
    parser.add_argument("--list", action="store_true", help="print the list of guards")
    parser.add_argument("--only", metavar="PATTERN", help="those whose name matches this regular expression")
    parser.add_argument("--json", action="store_true", help="say it for programs")
    parser.add_argument("--report", metavar="FILE", help="write the page of figures")
    parser.add_argument("--resume", metavar="FILE", help="note there what is done, and do nothing twice")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="so many copies of the checkout at once")
    return parser.parse_args(argv)


def commit() -> str:
    """Which commit this checkout is at: asked when a run begins, for others may go on meanwhile."""
    return git("rev-parse", "--short", "HEAD").strip()


def unsaved() -> str:
    """Which sources here are not those of the commit: what the catalogue has is migrated from them."""
    files = sorted(line[3:] for line in git("status", "--porcelain", "--", "src", "tests/proof/guards").splitlines())
    return f" with changes in {', '.join(files)}" if files else ""


def git(*argv: str) -> str:
    """What git says about this checkout."""
    return subprocess.run(["git", *argv], cwd=ROOT, capture_output=True, text=True, check=True).stdout


class Results:
    """The results so far, printed as they come, and kept in a file if one is given."""

    def __init__(self, file: str | None, quiet: bool) -> None:
        self.file = Path(file) if file else None
        self.out = sys.stderr if quiet else sys.stdout
        self.known: dict[str, Removed] = {}
        if self.file and self.file.exists():
            lines = (Removed(**json.loads(line)) for line in self.file.read_text().splitlines())
            self.known = {each.guard: each for each in lines if each.red}

    def note(self, removed: Removed) -> None:
        """Tell of one."""
        self.known[removed.guard] = removed
        print(f"{'red' if removed.red else 'UNNOTICED':9} {removed.guard}", file=self.out, flush=True)
        if self.file:
            with self.file.open("a") as file:
                file.write(json.dumps(asdict(removed)) + "\n")

    def missing(self, these: Iterable[Each]) -> list[Each]:
        """Those that are not in it."""
        return [each for each in these if str(each) not in self.known]


# The catalogue --------------------------------------------------------------------------------------------------------


@contextmanager
def catalogued() -> Generator[Connection, None, None]:
    """A migrated database with a row in every table, on a server of its own."""
    with (
        TemporaryDirectory(prefix="duly-guards-", dir="/tmp") as scratch_directory,
        shared_directory(Path(scratch_directory) / "run") as directory,
        open_server(directory) as server,
    ):
        databases = TestDatabases(server, database_prefix(Path(scratch_directory)))
        databases.build_template(build_template)
        try:
            with databases.clone("guards") as dsn, psycopg.connect(dsn, autocommit=True) as connection:
                insert_sample_rows(connection)
                yield connection
        finally:
            databases.drop_all()


def remove_from_catalogue(connection: Connection, guards: Sequence[Guard], results: Results) -> None:
    """Attack each of these with it in place, and without it."""
    for guard in results.missing(guards):
        attacked(connection, guard)
        noticed = attack_without(connection, guard)
        attack = ATTACKS[str(guard)]
        red = f"attack: {attack.description}" if noticed else None
        results.note(Removed(guard.kind, str(guard), guard.removal, red, ", ".join(attack.behind)))


# Statements -----------------------------------------------------------------------------------------------------------


def remove_from_statements(written: Sequence[Mutation], results: Results, jobs: int, of: str) -> None:
    """Take each of these out of its file in a copy of this commit, and run its test there."""
    missing = results.missing(written)
    if not missing:
        return
    with ExitStack() as stack:
        copies: SimpleQueue[Scratch] = SimpleQueue()
        for _ in range(min(jobs, len(missing))):
            copies.put(stack.enter_context(scratch_copy(of)))
        first = copies.get()
        broken = first.run(*sorted({TESTS[str(each)] for each in missing}))
        if broken:
            raise SystemExit(f"red before anything was removed: {broken}")
        copies.put(first)

        def remove(mutation: Mutation) -> Removed:
            copy = copies.get()
            try:
                noticed = copy.run_without(mutation, TESTS[str(mutation)])
            finally:
                copies.put(copy)
            change = "skip locked" if mutation.kind == "skip locked" else "the owner's predicate becomes true"
            red = f"tests/proof/guards/test_statements.py: {noticed}" if noticed else None
            return Removed(mutation.kind, str(mutation), f"{mutation.file}: {change}", red)

        with ThreadPoolExecutor(jobs) as threads:
            for removed in threads.map(remove, missing):
                results.note(removed)
