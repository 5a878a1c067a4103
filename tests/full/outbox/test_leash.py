"""The hook that watches what a plugin of Apprise does, in a process of its own."""

import subprocess

from tests.support.processes import PYTHON, plain_environment

# A file is opened while the interpreter takes its modules apart, as libraries do that clean up at the very end.
ENDING = """
import os
from duly.outbox.channels.apprise import leash

class Late:
    def __del__(self, open=open, path=os.devnull):
        open(path).close()

leash.watch()
leash.kept = Late()
"""


def test_a_process_that_watched_ends_without_a_word() -> None:
    ended = subprocess.run([*PYTHON, "-c", ENDING], env=plain_environment(), capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
