"""Senders as processes of their own, which post webhooks to this machine.

python -m tests.support.send_worker nursery <dsn> [setting=value ...]    forks a sender for every line it reads
"""

import sys

from duly.delivery.machine import OUTBOX
from duly.delivery.webhook import Webhook
from duly.delivery.work import SendWork
from duly.kernel.backoff import Backoff
from duly.kernel.work import Pace, Work
from tests.support.nursery import Nursery, nurse, with_pace

__all__ = ["PACE", "SendNursery"]

PACE = Pace(lease_seconds=30.0, heartbeat_seconds=0.2, poll_seconds=0.05, sweep_seconds=0.2, slots=20, batch=100)


def works_of(given: dict[str, str]) -> list[Work]:
    """Messages of the outbox as these settings want them sent."""
    channels = {"webhook": Webhook(seconds=5, allow_private=True)}
    soon = Backoff(base_seconds=0.05, cap_seconds=0.1)
    return [SendWork("outbox", OUTBOX, channels, with_pace(PACE, given), backoff=soon)]


class SendNursery(Nursery):
    """Senders of one name, born and ended as a test likes."""

    module = "tests.support.send_worker"


if __name__ == "__main__":
    nurse(works_of, *sys.argv[2:])
