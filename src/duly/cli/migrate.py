"""`duly migrate`: the database brought to a revision."""

import json
import sys

import typer

from duly.cli.opening import warn_of_unknown_variables
from duly.db.location import open_database, version_of
from duly.db.migrate import count_rows_to_drop, direct_dsn, migrate, migration_sql
from duly.db.migrations import Names, names_of
from duly.errors import InvalidArgument
from duly.logging import configure_logs
from duly.settings import load_settings

__all__ = ["run_migrate"]


def run_migrate(to: str, as_sql: bool, yes: bool, as_json: bool) -> None:
    """Migrate, after asking before rows are dropped; or print the SQL for an empty database."""
    settings = load_settings()
    if settings.log_level == "debug":
        configure_logs(settings, sys.stderr)
    if as_sql:
        migration_sql(names_of(settings), to)
        return
    warn_of_unknown_variables()
    with open_database(settings) as database:
        version_of(database.dsn)
        dsn, names = direct_dsn(settings, database), names_of(settings)
        if not yes:
            ask_before_dropping(dsn, names, to, may_ask=is_terminal() and not as_json)
        revision = migrate(dsn, names, to, report=complain)
    print(json.dumps({"revision": revision}) if as_json else f"duly: the database is at {revision or 'base'}")


def ask_before_dropping(dsn: str, names: Names, to: str, may_ask: bool) -> None:
    """Name what a downgrade would drop and have it confirmed; refuse where there is nobody to ask."""
    counts = count_rows_to_drop(dsn, names, to)
    if not counts:
        return
    total = f"{sum(counts.values()):,} rows in {len(counts)} tables"
    if not may_ask:
        listed = ", ".join(f"{table} {rows:,}" for table, rows in counts.items())
        raise InvalidArgument(f"--to {to} drops {total}: {listed}; nothing was changed; to drop them, add --yes")
    for table, rows in counts.items():
        print(f"{rows:>12,}  {table}", file=sys.stderr)
    typer.confirm(f"Drop {total} for good?", abort=True, err=True)


def is_terminal() -> bool:
    """Is there a person to ask?"""
    return sys.stdin.isatty()


def complain(message: str) -> None:
    """Something a person may want to know while it goes on."""
    print(f"duly: {message}", file=sys.stderr, flush=True)
