"""`duly migrate`: upgrade the engine and the applications, add one, or remove one."""

import json
import sys
from typing import Annotated

import typer

from duly.cli.existing_database import print_warning, warn_of_unknown_variables
from duly.cli.options import Json
from duly.db.location import direct_dsn, fetch_server_version, open_database
from duly.db.migrate import count_rows_to_drop, migrate, migration_sql
from duly.db.migrations import Names, names_from_settings
from duly.errors import InvalidArgument
from duly.logging import configure_logs
from duly.settings import load_settings

app = typer.Typer()


@app.command("migrate")
def run_migrate(
    to: Annotated[
        str,
        typer.Option(help="A revision to migrate to; `posts@base` removes posts, `engine@base` removes everything."),
    ] = "head",
    apps: Annotated[
        str | None,
        typer.Option(help="Applications to add: names with commas between them, `all`, or `none` for the engine only."),
    ] = None,
    as_sql: Annotated[
        bool, typer.Option("--sql", help="Print the SQL for an empty database instead of running it.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask before a downgrade that drops tables with rows.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Migrate the database in one transaction, with short lock timeouts.

    Upgrades the engine and the installed applications; an empty one gets those of DULY_APPS.

    A downgrade that drops tables with rows lists them and asks first; without a terminal it needs --yes.

    Example: duly migrate --sql > duly.sql
    """
    settings = load_settings()
    if settings.log_level == "debug":
        configure_logs(settings, sys.stderr)
    if as_sql and to != "head":
        raise InvalidArgument(f"--to {to}: --sql prints the newest schema; leave --to out")
    if as_sql:
        migration_sql(names_from_settings(settings), apps or settings.apps)
        return
    warn_of_unknown_variables()
    with open_database(settings) as database:
        fetch_server_version(database.dsn)
        dsn, names = direct_dsn(settings, database), names_from_settings(settings)
        if not yes:
            confirm_drop(dsn, names, to, can_ask=is_terminal() and not as_json)
        revisions = migrate(dsn, names, to, print_warning, apps, settings.apps)
        if revisions:
            database.allow_logins((settings.worker_role, settings.api_role, settings.readonly_role))
    text = f"duly: the database is at {', '.join(revisions) or 'base'}"
    print(json.dumps({"revisions": revisions}) if as_json else text)


def confirm_drop(dsn: str, names: Names, to: str, can_ask: bool) -> None:
    """List the rows that a downgrade would drop and ask; raise InvalidArgument if there is no terminal."""
    counts = count_rows_to_drop(dsn, names, to)
    if not counts:
        return
    total = f"{sum(counts.values()):,} rows in {len(counts)} tables"
    if not can_ask:
        listed = ", ".join(f"{table} {rows:,}" for table, rows in counts.items())
        raise InvalidArgument(f"--to {to} drops {total}: {listed}; nothing was changed; to drop them, add --yes")
    for table, rows in counts.items():
        print(f"{rows:>12,}  {table}", file=sys.stderr)
    typer.confirm(f"Drop {total} for good?", abort=True, err=True)


def is_terminal() -> bool:
    """Return whether there is a user to ask."""
    return sys.stdin.isatty()
