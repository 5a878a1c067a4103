"""Random states: what explain calls claimable is what is claimed next, and nothing else."""

import pytest

from duly.db.pool import Pool
from tests.fast.apps.ingest.test_explain import pool
from tests.support.explain.sessions import check_sessions
from tests.support.ingest.actions import CaptureActions

__all__ = ["pool"]

SEEDS = range(5)


@pytest.mark.breaks_invariants
async def test_rows_explained_as_claimable_are_exactly_the_rows_claimed(captures: CaptureActions, pool: Pool) -> None:
    for seed in SEEDS:
        await check_sessions(seed, captures, pool)
