"""`duly psql`: the database at first hand."""

import os
import shutil
import signal
import subprocess
import sys

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from duly.cli.opening import open_existing
from duly.db.pool import with_keepalive
from duly.errors import NoBinaries
from duly.settings import load_settings

__all__ = ["run_psql"]


def run_psql(arguments: list[str]) -> None:
    """Run the psql of the embedded server, or the one on PATH, on our database; its exit status is ours."""
    with open_existing(load_settings()) as database:
        beside_server = database.server and database.server.plan.binaries.program("psql")
        program = beside_server if beside_server and beside_server.exists() else shutil.which("psql")
        if not program:
            raise NoBinaries("no psql found; install one (Debian: apt install postgresql-client)")
        parts = conninfo_to_dict(with_keepalive(database.dsn, "psql"))
        password = parts.pop("password", None)  # on a command line everybody could read it
        environment = {**os.environ, **({"PGPASSWORD": str(password)} if password else {})}
        with subprocess.Popen([program, "-d", make_conninfo("", **parts), *arguments], env=environment) as psql:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is psql's: it cancels a query
            sys.exit(psql.wait())
