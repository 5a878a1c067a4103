"""The `duly` command. Each subcommand lives in a module of its own and is imported only when it runs."""

import json
import sys

from duly.cli.app import app
from duly.errors import DulyError

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line; an error of ours becomes one message and its exit status."""
    try:
        app(prog_name="duly")
    except DulyError as error:
        tell(error)
        sys.exit(error.exit_status)
    except KeyboardInterrupt:
        sys.exit(130)


def tell(error: DulyError) -> None:
    """The error for a person, or with `--json` for a program."""
    if "--json" in sys.argv:
        print(json.dumps({"error": {"code": error.code, "message": str(error)}}))
    else:
        print(f"duly: {error}", file=sys.stderr)
