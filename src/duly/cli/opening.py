"""The database of a command: it exists and answers, or the command ends with one line.

Only `up` and `migrate` make one. What looks like a setting of ours and is none is named here too, once: not by the
components of `duly up` again.
"""

import os
import sys
from collections.abc import Callable

from duly.db.location import Database, has_database_here, no_database, open_database, version_of
from duly.executors.lifeline import VARIABLE
from duly.formatting import as_called
from duly.settings import Settings, unknown_variables

__all__ = ["must_have_database", "open_existing", "warn_of_unknown_variables"]

WARNED: set[str] = set()


def open_existing(settings: Settings, warn: Callable[[str], object] | None = None) -> Database:
    """Open the database of these settings; NoDatabase where there is none, Unavailable where we cannot log in."""
    warn_of_unknown_variables(warn)
    database = open_database(settings, create=False)
    try:
        version_of(database.dsn)
    except BaseException:
        database.close()
        raise
    return database


def must_have_database(settings: Settings) -> None:
    """Refuse to go on where no database was named or made, before anything is written here."""
    if not has_database_here(settings):
        raise no_database(settings)


def warn_of_unknown_variables(warn: Callable[[str], object] | None = None) -> None:
    """Name each variable that looks like a setting of ours and is none; the components of `up` leave that to it."""
    if VARIABLE in os.environ:
        return
    for sentence in unknown_variables():
        if sentence not in WARNED:  # a command may open its database more than once
            WARNED.add(sentence)
            (warn or complain)(sentence)


def complain(sentence: str) -> None:
    """A line for the person at the terminal."""
    print(f"duly: {as_called(sentence)}", file=sys.stderr, flush=True)
