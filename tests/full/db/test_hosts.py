"""Two hosts, of which the first accepts no writes: clients find the second, and name the problem without one."""

import subprocess

import pytest
from psycopg.conninfo import make_conninfo

from duly.errors import Unavailable
from tests.fast.db.test_hosts import READ_ONLY, hosts, reader, standby
from tests.support.processes import PYTHON, plain_environment

__all__ = ["hosts", "reader", "standby"]


def run_duly(dsn: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = plain_environment(DATABASE_URL=dsn, DULY_LOG_FORMAT="json")
    return subprocess.run([*PYTHON, "-m", "duly", *arguments], env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("command", ["worker --once", "verify --contract posts", "doctor"])
def test_commands_find_the_host_that_accepts_writes(command: str, hosts: str) -> None:
    answer = run_duly(hosts, *command.split())
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize("command", ["worker --once", "worker", "orgs create acme"])
def test_a_writing_command_reports_a_server_that_accepts_no_writes(command: str, database: str) -> None:
    answer = run_duly(make_conninfo(database, options=f"-c {READ_ONLY}=on"), *command.split())
    assert answer.returncode == Unavailable.exit_status, answer.stderr
    assert "accepts no writes" in answer.stderr
    assert "Traceback" not in answer.stderr
