"""The audit hook of the Apprise sandbox, in a process of its own."""

import subprocess

from tests.support.processes import PYTHON, plain_environment

# A file is opened while the interpreter clears its modules, as libraries do that clean up at exit.
ENDING = """
import os
from duly.outbox.channels.apprise import sandbox

class Late:
    def __del__(self, open=open, path=os.devnull):
        open(path).close()

sandbox.install_audit_hook()
sandbox.kept = Late()
"""


def test_a_process_with_the_audit_hook_exits_without_output() -> None:
    ended = subprocess.run([*PYTHON, "-c", ENDING], env=plain_environment(), capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
