"""A decoder with a bug, to be imported by a child process: nothing else is needed for dying."""

import os
import signal
from typing import NoReturn


def crash(_: bytes) -> NoReturn:
    """Die of a picture."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("it is dead")
