"""Random states: the rows that explain calls next are exactly those that are claimed next."""

import pytest

from tests.support.explain.runs import check_runs
from tests.support.scheduler.actions import ScheduleActions

SEEDS = range(5)


@pytest.mark.breaks_invariants
async def test_rows_explained_as_next_are_exactly_the_rows_claimed_next(schedules: ScheduleActions) -> None:
    for seed in SEEDS:
        await check_runs(seed, schedules)
