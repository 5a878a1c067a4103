"""Random states: the rows that explain calls next are exactly those that are claimed next."""

import pytest

from tests.support.explain.runs import check_runs
from tests.support.scheduler.actions import ScheduleActions

SEEDS = range(5, 80)
MET = {
    *("due", "locked", "to_be_skipped", "being_planned", "no_worker", "to_be_sent", "message_locked"),
    *("behind_messages", "in_line", "tried_again", "quiet", "slots_taken", "sender_expired"),
}


@pytest.mark.breaks_invariants
async def test_rows_explained_as_next_are_exactly_the_rows_claimed_next(schedules: ScheduleActions) -> None:
    found = {reason for seed in SEEDS for reason in await check_runs(seed, schedules)}
    assert found >= MET
