"""PgBouncer in transaction mode between a test and its server."""

import os
import shutil
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from duly.db.embedded.account import server_account

CONFIGURATION = """\
[databases]
* = host={server} port=5432 pool_size={size}

[pgbouncer]
pool_mode = transaction
listen_addr =
unix_socket_dir = {here}
listen_port = 6432
auth_type = trust
auth_file = {here}/users
logfile = {here}/log
max_client_conn = 400
server_login_retry = 1
ignore_startup_parameters = extra_float_digits,options
"""


def find_pgbouncer() -> str | None:
    """The program, where Debian puts it or on the PATH."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


needs_pgbouncer = pytest.mark.skipif(
    not find_pgbouncer(), reason="no pgbouncer on this machine (Debian: apt install pgbouncer)"
)


@contextmanager
def pooler(
    address: str, directory: Path, *others: str, size: int = 4, is_restarted: bool = False
) -> Generator[str, None, None]:
    """The same database behind a pooler of few connections, for its user and others; gone afterwards.

    As a machine's own supervisor does, it may be started again when it dies; the file `deaths` then has a line each.
    """
    program = find_pgbouncer()
    assert program, "mark the test with needs_pgbouncer"
    parts = conninfo_to_dict(address)
    account = server_account()
    here = directory / "pooler"
    here.mkdir(parents=True)
    (here / "users").write_text("".join(f'"{user}" ""\n' for user in (parts["user"], *others)))
    (here / "pgbouncer.ini").write_text(CONFIGURATION.format(server=parts["host"], here=here, size=size))
    os.chown(here, account.uid, account.gid)
    command = [program, "-q", str(here / "pgbouncer.ini")]
    again = ["sh", "-c", f'while :; do "$@"; echo died >>"{here}/deaths"; done', "sh", *command]
    with subprocess.Popen(
        again if is_restarted else command,
        cwd="/",
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        **account.subprocess_identity(),
    ) as running:
        pooled = make_conninfo("", host=str(here), port=6432, user=str(parts["user"]), dbname=str(parts["dbname"]))
        wait_until_it_answers(pooled, running)
        try:
            yield pooled
        finally:
            os.killpg(running.pid, signal.SIGTERM)


def wait_until_it_answers(pooled: str, running: subprocess.Popen[bytes]) -> None:
    """Connect as soon as it listens."""
    while running.poll() is None:
        try:
            psycopg.connect(pooled).close()
        except psycopg.OperationalError:
            continue
        return
    raise AssertionError(f"pgbouncer ended with {running.returncode}")
