"""Senders as processes of their own, which post webhooks to this machine."""

from duly.backoff import Backoff
from duly.lease.work import Tuning, Work
from duly.outbox.channels.webhook import WebhookChannel
from duly.outbox.sender import SendWork
from duly.outbox.states import OUTBOX
from tests.support.worker_pool import WorkerPool, WorkerSettings, run, with_tuning

TUNING = Tuning(lease_seconds=30.0, heartbeat_seconds=0.2, poll_seconds=0.05, sweep_seconds=0.2, slots=20, batch=100)


def works(settings: WorkerSettings) -> list[Work]:
    """Send the messages of the outbox, as these settings say."""
    channels = {"webhook": WebhookChannel(seconds=5, allow_private=True)}
    soon = Backoff(base_seconds=0.05, cap_seconds=0.1)
    return [SendWork("outbox", OUTBOX, channels, with_tuning(TUNING, settings), backoff=soon)]


def main() -> None:
    """Be a sender."""
    run(works)


class SenderPool(WorkerPool):
    """Senders of one name."""

    module = __name__
