"""Random states: what explain calls takeable is what is taken next, and nothing else."""

import pytest

from tests.support.explain.runs import check_runs
from tests.support.scheduler.actions import ScheduleActions

SEEDS = range(5, 80)
MET = {
    *("due", "locked", "to_be_skipped", "being_planned", "no_worker", "to_be_sent", "message_locked"),
    *("behind_messages", "in_line", "tried_again", "quiet", "slots_taken", "sender_lapsed"),
}


@pytest.mark.lawless
async def test_what_is_called_takeable_is_taken_and_nothing_else(schedules: ScheduleActions) -> None:
    found = {reason for seed in SEEDS for reason in await check_runs(seed, schedules)}
    assert found >= MET
