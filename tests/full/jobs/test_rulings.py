"""What docs/decisions/0008 to 0014 decided about the ledger, clause by clause: an index.

Other files here test most of them further, and through more entry points.
"""

from duly.jobs import repository
from tests.fast.jobs.test_rulings import before
from tests.support.jobs.actions import Connection, JobActions

__all__ = ["before"]


async def test_a_failure_is_two_updates_in_one_transaction_the_second_fenced_by_the_owner(
    jobs: JobActions, other: Connection
) -> None:
    (key,) = jobs.enqueue(backoff_policy="none")
    (lease,) = await jobs.claim()
    async with jobs.worker.transaction():
        assert await repository.mark_failed(jobs.worker, [lease], ["OOPS"], ["because"]) == {key}
        cursor = await jobs.worker.execute("select status::text, lease_owner, finished_at from ledger.job")
        assert await cursor.fetchone() == ("failed", lease.owner, None)
        assert jobs.columns("status") == ["running"]  # for every other connection
        assert await repository.retry_or_dead_letter(jobs.worker, [(key, "worker-1/another")]) == 0
        assert await repository.retry_or_dead_letter(jobs.worker, [(key, lease.owner)]) == 1
    assert [(before, after) for before, after, _ in jobs.events(key)[2:]] == [
        ("running", "failed"),
        ("failed", "queued"),
    ]
    assert jobs.columns("lease_owner") == [None]
