"""Random states: what explain calls claimable is what is claimed next, and nothing else."""

import pytest

from duly.db.pool import Pool
from tests.fast.apps.ingest.test_explain import pool
from tests.support.explain.sessions import check_sessions
from tests.support.ingest.actions import CaptureActions

__all__ = ["pool"]

SEEDS = range(5, 80)
MET = {
    *("due", "locked", "behind_others", "slots_taken", "no_worker"),
    *("expired", "idle", "open", "clock_set_back"),
}


@pytest.mark.breaks_invariants
async def test_rows_explained_as_claimable_are_exactly_the_rows_claimed(captures: CaptureActions, pool: Pool) -> None:
    found = {reason for seed in SEEDS for reason in await check_sessions(seed, captures, pool)}
    assert found >= MET
