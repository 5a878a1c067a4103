"""Owners and ids: unique, and readable where people read them."""

import subprocess
import sys

import pytest

from tests.support.processes import PYTHON, plain_environment

FORKING = """
import os
from duly.lease.owner import new_id, new_owner
print(new_id(), new_owner("w"), flush=True)
children = [os.fork() for _ in range(2)]
for _ in range(100):
    os.write(1, f"{new_id()} {new_owner('w')}\\n".encode())
for child in filter(None, children):
    if all(children):
        os.waitpid(child, 0)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork on Windows")
def test_forked_processes_share_neither_ids_nor_owners() -> None:
    ran = subprocess.run([*PYTHON, "-c", FORKING], env=plain_environment(), capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    tokens = ran.stdout.split()
    assert len(tokens) == 2 * (1 + 4 * 100)  # two forks make four processes
    assert len(set(tokens)) == len(tokens)
