"""Random states: explain says `due` of exactly the jobs that are claimed next."""

import pytest

from duly.db.pool import Pool
from tests.fast.jobs.test_explain import pool
from tests.support.explain.jobs import check_jobs
from tests.support.jobs.actions import JobActions

__all__ = ["pool"]

SEEDS = range(5)


@pytest.mark.breaks_invariants
async def test_rows_explained_as_claimable_are_exactly_the_rows_claimed(jobs: JobActions, pool: Pool) -> None:
    for seed in SEEDS:
        await check_jobs(seed, jobs, pool)
