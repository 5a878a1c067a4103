"""Every reason why a job is not running, each produced in a real database, and its sentence."""

from duly.db.pool import Pool
from duly.explain import MAX_AHEAD
from duly.jobs.explain import explain
from tests.fast.jobs.test_explain import pool, register_worker
from tests.support.jobs.actions import ORG, Connection, JobActions

__all__ = ["pool"]


async def test_explain_counts_jobs_ahead_only_up_to_a_limit(jobs: JobActions, pool: Pool, worker: Connection) -> None:
    await register_worker(jobs)
    jobs.admin.execute(
        "select ledger.enqueue_many(%s, 'work', array_fill('{}'::jsonb, array[%s + 0])) from generate_series(1, 2)",
        [ORG, MAX_AHEAD],
    )
    found = await explain(pool, ORG, jobs.enqueue()[0])
    assert f"more than {MAX_AHEAD} due jobs go first" in found.sentence
