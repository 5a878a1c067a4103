"""`duly migrate`: the database brought to a revision."""

import json
import sys

from duly.cli.opening import warn_of_unknown_variables
from duly.db.location import open_database, version_of
from duly.db.migrate import direct_dsn, migrate, migration_sql
from duly.db.migrations import names_of
from duly.settings import load_settings

__all__ = ["run_migrate"]


def run_migrate(to: str, as_sql: bool, as_json: bool) -> None:
    """Migrate, or print what would be run."""
    settings = load_settings()
    if as_sql:
        migration_sql(names_of(settings), to)
        return
    warn_of_unknown_variables()
    with open_database(settings) as database:
        version_of(database.dsn)
        revision = migrate(direct_dsn(settings, database), names_of(settings), to, report=complain)
    print(json.dumps({"revision": revision}) if as_json else f"duly: the database is at {revision or 'base'}")


def complain(message: str) -> None:
    """Something a person may want to know while it goes on."""
    print(f"duly: {message}", file=sys.stderr, flush=True)
