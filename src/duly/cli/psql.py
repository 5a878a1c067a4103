"""`duly psql`: an interactive session on duly's database."""

import os
import shutil
import signal
import subprocess
import sys

import typer
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from duly.cli.existing_database import open_existing
from duly.db.pool import with_keepalive
from duly.errors import NoBinaries
from duly.settings import load_settings

app = typer.Typer()

PASS_ARGUMENTS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


@app.command("psql", context_settings=PASS_ARGUMENTS_ON)
def run_psql(context: typer.Context) -> None:
    """Open psql on duly's database; further arguments go to psql.

    Example: duly psql -c 'select version()'
    """
    with open_existing(load_settings()) as database:
        beside_server = database.server and database.server.plan.binaries.program("psql")
        program = beside_server if beside_server and beside_server.exists() else shutil.which("psql")
        if not program:
            raise NoBinaries("no psql found; install one (Debian: apt install postgresql-client)")
        parts = conninfo_to_dict(with_keepalive(database.dsn, "psql"))
        password = parts.pop("password", None)  # arguments are visible to other users of the machine
        environment = {**os.environ, **({"PGPASSWORD": str(password)} if password else {})}
        with subprocess.Popen([program, "-d", make_conninfo("", **parts), *context.args], env=environment) as psql:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # psql handles Ctrl-C: it cancels a query
            sys.exit(psql.wait())
