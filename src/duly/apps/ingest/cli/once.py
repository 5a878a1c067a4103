"""`main.py`: one cycle of the ingest worker on a configured database, never on an embedded one."""

import sys

import psycopg

from duly.cli.worker import run_configured_worker
from duly.configuration.engine import DATABASE_VARIABLES
from duly.errors import DulyError, Misconfigured
from duly.settings import load_settings

NOTHING = "nothing to do: no session is pending, and no lease has expired"


def main() -> None:
    """Claim at most one session, process it, and print its result.

    Exits 0 if the session is done or failed, or there was none; 1 if its lease was lost or an error occurred.
    """
    try:
        if load_settings().database_url is None:
            raise Misconfigured(f"no database: set one of {', '.join(DATABASE_VARIABLES)} to its URL")
        cycle = run_configured_worker(only="ingest", app_name=None, once=True, port=None, as_json=False)
    except (DulyError, psycopg.Error) as error:
        print(f"duly: {error}", file=sys.stderr)
        sys.exit(1)
    for line in cycle.lines or [NOTHING]:
        print(f"duly: {line}", file=sys.stdout if cycle.is_done else sys.stderr)
    if not cycle.is_done:
        sys.exit(1)
