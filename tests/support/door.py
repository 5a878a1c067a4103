"""The command line as tests come to it: in this process, or as a process of its own."""

import json
import subprocess
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from duly.cli import app
from duly.errors import DulyError
from tests.support.processes import PYTHON, Program, plain_environment

__all__ = ["DULY", "Door"]

DULY = (*PYTHON, "-m", "duly")


class Door:
    """The commands of one database, whose objects lie in a directory of the test's own.

    What a test has said, told and refused begins with `about`, where all its commands begin alike.
    """

    def __init__(self, database: str, directory: Path, about: str | None = None) -> None:
        self.directory = directory
        self.about = [about] if about else []
        self.environment = {"DATABASE_URL": database, "DULY_OBJECTS_DIR": str(directory / "objects")}

    def run(self, *words: object) -> Result:
        """How a command ends."""
        return CliRunner().invoke(app, [str(word) for word in words], env=self.environment, prog_name="duly")

    def say(self, *words: object) -> str:
        """What it prints, when all is well."""
        result = self.run(*self.about, *words)
        assert result.exit_code == 0, result.output + repr(result.exception)
        return result.stdout

    def tell(self, *words: object) -> Any:
        """The same, for programs."""
        return json.loads(self.say(*words, "--json"))

    def refuse(self, *words: object) -> DulyError:
        """The error it ends with."""
        result = self.run(*self.about, *words)
        assert isinstance(result.exception, DulyError), result.output + repr(result.exception)
        assert result.stdout == ""
        return result.exception

    def process(self, *words: object) -> subprocess.CompletedProcess[str]:
        """How it ends as a process."""
        environment = plain_environment(**self.environment, TERM="dumb")
        return subprocess.run([*DULY, *map(str, words)], env=environment, capture_output=True, text=True)

    def start(self, *words: object, **environment: str) -> Program:
        """The same, to be waited for."""
        return Program([*DULY, *map(str, words)], environment=plain_environment(**self.environment, **environment))
