"""The command line as tests use it: in this process, or as a process of its own."""

import asyncio
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, cast

import typer.testing
from typer.main import get_command
from typer.testing import CliRunner, Result

from duly.cli import app
from duly.cli.lazy_group import LazyGroup
from duly.errors import DulyError
from tests.support.processes import PYTHON, Program, plain_environment
from tests.support.tiers import is_fast_test_running

DULY = (*PYTHON, "-m", "duly")
setattr(typer.testing, "_get_command", cache(get_command))  # noqa: B010 (CliRunner builds all commands every time: 25 ms)


def load_all_commands() -> LazyGroup:
    """Return the top-level group with every command imported."""
    group = cast("LazyGroup", get_command(app))
    for name in tuple(group.not_loaded):
        group.load(name)
    return group


class CommandLine:
    """The commands of duly over one database; objects are stored in a directory of the test's own."""

    def __init__(self, database: str, directory: Path) -> None:
        self.directory = directory
        self.environment = {"DATABASE_URL": database, "DULY_OBJECTS_DIR": str(directory / "objects")}

    def run(self, *arguments: object, stdin: str | None = None) -> Result:
        """Run a command in this process; return how it ended."""

        def invoke() -> Result:
            texts = [str(argument) for argument in arguments]
            return CliRunner().invoke(app, texts, input=stdin, env=self.environment, prog_name="duly")

        if not is_loop_running():
            return invoke()
        with ThreadPoolExecutor(1) as thread:  # a command runs an event loop of its own
            return thread.submit(invoke).result()

    def output(self, *arguments: object, stdin: str | None = None) -> str:
        """Run a command that succeeds; return what it prints."""
        result = self.run(*arguments, stdin=stdin)
        assert result.exit_code == 0, result.output + repr(result.exception)
        return result.stdout

    def json(self, *arguments: object, stdin: str | None = None) -> Any:
        """Run a command that succeeds with --json; return the document it prints."""
        return json.loads(self.output(*arguments, "--json", stdin=stdin))

    def error(self, *arguments: object, stdin: str | None = None) -> DulyError:
        """Run a command that fails; return its error."""
        result = self.run(*arguments, stdin=stdin)
        assert isinstance(result.exception, DulyError), result.output + repr(result.exception)
        assert result.stdout == ""
        return result.exception

    def process(self, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command as a process; return how it ended."""
        given = plain_environment(**self.environment, **{"TERM": "dumb", **environment})
        return subprocess.run([*DULY, *map(str, arguments)], env=given, capture_output=True, text=True)

    def start(self, *arguments: object, **environment: str) -> Program:
        """Start a command as a process."""
        return Program([*DULY, *map(str, arguments)], environment=plain_environment(**self.environment, **environment))

    def run_worker(self, *work_types: str) -> None:
        """Run one cycle of a worker for each of these types of work: in process in a fast test, else as a process."""
        for work_type in work_types:
            if is_fast_test_running():
                self.output("worker", "--once", "--only", work_type)
            else:
                worker = self.process("worker", "--once", "--only", work_type)
                assert worker.returncode == 0, worker.stderr


def is_loop_running() -> bool:
    """Is this called from an event loop?"""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
