"""Random states: explain says `due` of exactly the jobs that are claimed next."""

import pytest

from duly.db.pool import Pool
from tests.fast.jobs.test_explain import pool
from tests.support.explain.jobs import check_jobs
from tests.support.jobs.actions import JobActions

__all__ = ["pool"]

SEEDS = range(5, 80)
MET = {
    *("due", "locked", "behind_others", "slots_taken", "no_worker"),
    *("not_handled", "limit_reached", "expired", "holder_gone"),
}


@pytest.mark.breaks_invariants
async def test_rows_explained_as_claimable_are_exactly_the_rows_claimed(jobs: JobActions, pool: Pool) -> None:
    found = {reason for seed in SEEDS for reason in await check_jobs(seed, jobs, pool)}
    assert found >= MET
