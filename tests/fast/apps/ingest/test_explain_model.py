"""Random states: what explain calls claimable is what is claimed next, and nothing else."""

import pytest

from duly.db.pool import Pool
from tests.fast.apps.ingest.test_explain import pool
from tests.support.explain.sessions import check_sessions
from tests.support.ingest.actions import CaptureActions

__all__ = ["pool"]

SEEDS = range(5)


@pytest.mark.lawless
async def test_what_is_called_claimable_is_claimed_and_nothing_else(captures: CaptureActions, pool: Pool) -> None:
    for seed in SEEDS:
        await check_sessions(seed, captures, pool)
