"""psql as people type it: what comes back is what stands on the screen."""

import shutil
import subprocess

from duly.db.embedded.binaries import candidates, inspect
from tests.support.processes import plain_environment


class PsqlRefused(Exception):
    """What psql was refused, in the database's words."""


def psql(dsn: str, *arguments: str) -> list[str]:
    """The rows that a command or a file brings, a line each, columns between bars; with `-c`, or with `-f`."""
    command = [find_psql(), "-d", dsn, "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", *arguments]
    answer = subprocess.run(command, env=plain_environment(), capture_output=True, text=True, timeout=60)
    if answer.returncode:
        raise PsqlRefused(answer.stderr)
    return answer.stdout.splitlines()


def find_psql() -> str:
    """The psql beside a server of this machine, or the one on the path."""
    beside = [binaries.program("psql") for binaries in map(inspect, candidates()) if binaries]
    found = next((str(program) for program in beside if program.exists()), None) or shutil.which("psql")
    assert found, "the tests need psql (Debian: apt install postgresql-client)"
    return found
