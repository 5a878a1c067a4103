"""A pipe from parent to child: when the parent is gone, however it went, the child stops too."""

import os
import signal
import threading

__all__ = ["VARIABLE", "follow_parent"]

VARIABLE = "DULY_LIFELINE"


def follow_parent() -> None:
    """In a child of the process tree: end ourselves politely once nobody holds the other end of the pipe."""
    descriptor = os.environ.pop(VARIABLE, None)
    if descriptor is None:
        return

    def wait() -> None:
        os.read(int(descriptor), 1)  # nothing is ever written: this returns at the parent's end
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="lifeline", daemon=True).start()
