"""The `duly` command. Each subcommand lives in a module of its own and is imported only when it runs."""

import json
import os
import shutil
import sys
from pathlib import Path

from duly.cli.app import app
from duly.errors import DulyError
from duly.formatting import COMMAND_VARIABLE, as_called

__all__ = ["app", "main"]

NAME = "duly"


def main() -> None:
    """Run the command line; an error of ours becomes one message and its exit status."""
    os.environ.setdefault(COMMAND_VARIABLE, called_as(sys.argv[0]))
    try:
        app(prog_name="duly")
    except DulyError as error:
        tell(error)
        sys.exit(error.exit_status)
    except KeyboardInterrupt:
        sys.exit(130)


def called_as(program: str) -> str:
    """What a person can type to call us again: the name alone where the shell finds us by it."""
    path = Path(program)
    if path.name != NAME:
        return NAME  # python -m duly
    found = shutil.which(NAME)
    return NAME if found and Path(found).absolute() == path.absolute() else program


def tell(error: DulyError) -> None:
    """The error for a person, or with `--json` for a program; where it came from goes before it."""
    for note in getattr(error, "__notes__", ()):
        print(note, file=sys.stderr)
    message = as_called(str(error))
    if "--json" in sys.argv:
        print(json.dumps({"error": {"code": error.code, "message": message}}))
    else:
        print(f"duly: {message}", file=sys.stderr)
