"""Senders as processes of their own, which post webhooks to this machine.

    python -m tests.support.send_worker nursery <dsn> [setting=value ...]    forks a sender for every line it reads

As with `post_worker`, every line of a sender, on either stream, begins with its process id.
"""

import os
import random
import signal
import sys
from dataclasses import replace
from typing import TextIO, cast

from duly.delivery.machine import OUTBOX
from duly.delivery.webhook import Webhook
from duly.delivery.work import SendWork
from duly.kernel.backoff import Backoff
from duly.kernel.work import Pace
from duly.logs import configure_logs
from duly.settings import load_settings
from duly.worker.runtime import run_worker
from tests.support.post_worker import Marked, Nursery, tell

__all__ = ["PACE", "SendNursery"]

PACE = Pace(lease_seconds=30.0, heartbeat_seconds=0.2, poll_seconds=0.05, sweep_seconds=0.2, slots=20, batch=100)


def be_a_sender(dsn: str, *given: str) -> None:
    """Send until told to stop."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    random.seed()
    settings = load_settings()
    configure_logs(settings, cast("TextIO", Marked()))
    wanted = dict(each.split("=") for each in given)
    pace = replace(PACE, **{name: type(getattr(PACE, name))(value) for name, value in wanted.items()})
    channels = {"webhook": Webhook(seconds=5, allow_private=True)}
    work = SendWork("outbox", OUTBOX, channels, pace, backoff=Backoff(base_seconds=0.05, cap_seconds=0.1))
    run_worker([work], settings, dsn=dsn)
    tell("end")


def nurse(dsn: str, *given: str) -> None:
    """Fork a sender for every line, with the settings on it."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them, so they leave no trace
    os.write(1, b"ready\n")
    for line in sys.stdin:
        if (pid := os.fork()) == 0:
            try:
                be_a_sender(dsn, *given, *line.split())
            finally:
                os._exit(0)
        os.write(1, f"born {pid}\n".encode())


class SendNursery(Nursery):
    """Senders of one name, born and ended as a test likes."""

    module = "tests.support.send_worker"


if __name__ == "__main__":
    nurse(*sys.argv[2:])
