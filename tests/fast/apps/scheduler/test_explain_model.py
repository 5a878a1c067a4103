"""Random states: what explain calls takeable is what is taken next, and nothing else."""

import pytest

from tests.support.explain.runs import check_runs
from tests.support.scheduler.actions import ScheduleActions

SEEDS = range(5)


@pytest.mark.lawless
async def test_what_is_called_takeable_is_taken_and_nothing_else(schedules: ScheduleActions) -> None:
    for seed in SEEDS:
        await check_runs(seed, schedules)
