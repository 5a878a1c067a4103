"""A pipe from parent to child: when the parent is gone, however it ended, the child stops too."""

import os
import signal
import threading

VARIABLE = "DULY_LIFELINE"


def exit_with_parent() -> None:
    """Send ourselves SIGTERM once the parent's end of the pipe is closed; called in a child of the process tree."""
    descriptor = os.environ.pop(VARIABLE, None)
    if descriptor is None:
        return

    def wait() -> None:
        os.read(int(descriptor), 1)  # nothing is ever written: this returns when the parent has exited
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="lifeline", daemon=True).start()
