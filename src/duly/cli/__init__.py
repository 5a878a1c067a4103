"""The `duly` command. Each subcommand is defined in a module of its own, which is imported when it runs."""

import json
import os
import shutil
import sys
from pathlib import Path

from duly.cli.app import app
from duly.errors import DulyError
from duly.formatting import COMMAND_VARIABLE, rewrite_commands

__all__ = ["app", "main"]

NAME = "duly"


def main() -> None:
    """Run the command line; a DulyError becomes one message and its exit status."""
    os.environ.setdefault(COMMAND_VARIABLE, invocation_name(sys.argv[0]))
    try:
        app(prog_name="duly")
    except DulyError as error:
        print_error(error)
        sys.exit(error.exit_status)
    except KeyboardInterrupt:
        sys.exit(130)


def invocation_name(program: str) -> str:
    """Return what a user can type to run us again: the name alone if it is on the PATH."""
    path = Path(program)
    if path.name != NAME:
        return NAME  # python -m duly
    found = shutil.which(NAME)
    return NAME if found and Path(found).absolute() == path.absolute() else program


def print_error(error: DulyError) -> None:
    """Print an error after its notes; with `--json` to standard output, as JSON."""
    for note in getattr(error, "__notes__", ()):
        print(note, file=sys.stderr)
    message = rewrite_commands(str(error))
    if "--json" in sys.argv:
        print(json.dumps({"error": {"code": error.code, "message": message}}))
    else:
        print(f"duly: {message}", file=sys.stderr)
