"""Logs are append-only on every partition; only retention deletes, and always complete histories."""

from duly.testing import move_clock
from tests.fast.jobs.test_retention import DAY, create_messages, fail, purge, remaining_recipients, worker
from tests.support.actions import Admin

__all__ = ["worker"]


def test_retention_deletes_a_bounded_batch_of_the_oldest_messages(admin: Admin, worker: Admin) -> None:
    create_messages(admin, "anna", "ben", "cora", "dora", "eric")
    for recipient in ("cora", "anna", "eric", "ben", "dora"):
        fail(admin, recipient)
        move_clock(admin, 1)
    move_clock(admin, 31 * DAY)
    assert purge(worker, limit=2) == (2, 4)
    assert remaining_recipients(admin) == ["ben", "dora", "eric"]
    assert purge(worker, limit=2) == (2, 4)
    assert remaining_recipients(admin) == ["dora"]
    assert purge(worker, limit=2) == (1, 2)
    assert purge(worker, limit=2) == (0, 0)
