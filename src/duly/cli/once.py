"""`main.py`: one cycle of the ingest worker on the database it is told of, and never on one of its own."""

import sys

from duly.cli.worker import run_worker_command
from duly.errors import DulyError, Misconfigured
from duly.settings import DATABASE_VARIABLES, load_settings

__all__ = ["main"]


def main() -> None:
    """Claim at most one session, process it, and end: 0, whatever came of the session; 1 when we could not work."""
    try:
        if load_settings().database_url is None:
            raise Misconfigured(f"no database: set one of {', '.join(DATABASE_VARIABLES)} to its address")
        run_worker_command(only="ingest", app_name=None, once=True, port=None, as_json=False)
    except DulyError as error:
        print(f"duly: {error}", file=sys.stderr)
        sys.exit(1)
