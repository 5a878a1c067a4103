"""The database of a command: it exists and answers, or the command ends with one line.

Only `up` and `migrate` create one. Environment variables that look like settings of duly but are none are reported
here too, once, and not again by the components of `duly up`.
"""

import os
import sys
from collections.abc import Callable

from duly.db.location import Database, fetch_server_version, has_configured_database, no_database_error, open_database
from duly.executors.lifeline import VARIABLE
from duly.formatting import rewrite_commands
from duly.logging import get_log
from duly.settings import Settings, unknown_variables

WARNED: set[str] = set()


def open_existing(settings: Settings, warn: Callable[[str], object] | None = None) -> Database:
    """Open the database of these settings; raises NoDatabase if there is none, Unavailable if we cannot log in."""
    warn_of_unknown_variables(warn)
    database = open_database(settings, create=False)
    try:
        fetch_server_version(database.dsn)
    except BaseException:
        database.close()
        raise
    return database


def require_database(settings: Settings) -> None:
    """Raise NoDatabase if none is configured or was created here, before anything is written."""
    if not has_configured_database(settings):
        raise no_database_error(settings)


def warn_of_unknown_variables(warn: Callable[[str], object] | None = None) -> None:
    """Report each variable that looks like a setting of duly but is none; the components of `up` leave that to it."""
    if VARIABLE in os.environ:
        return
    for message in unknown_variables():
        if message not in WARNED:  # a command may open its database more than once
            WARNED.add(message)
            (warn or print_warning)(message)


def print_warning(message: str) -> None:
    """Print a line to standard error."""
    print(f"duly: {rewrite_commands(message)}", file=sys.stderr, flush=True)


def log_warning(message: str) -> None:
    """Log an unknown variable, in commands whose output is a log."""
    get_log(__name__).warning("settings.unknown_variable", detail=message)
