"""The fault gate: in about a minute, a few of every kind of fault, and no promise broken. Every change must survive it.

`test_faults.py` has hundreds of each, nightly. A test draws a seed, and says it when it fails; DULY_CHAOS_SEED repeats
it.
"""

import pytest

from tests.proof.faults.crash_sites import die_at, rounds
from tests.proof.faults.faults import cut_commits, kill_postmaster, kill_workers, stop_past_the_lease
from tests.proof.faults.harness import Shape, random_for
from tests.proof.faults.test_faults import REACH_SECONDS, guarantees_kept, lost_commits, seed

__all__ = ["seed"]

KILLS = 40
STALLED, MAX_STALLED = 6, 60
STOPPED = "workers stopped past their lease"
LOST_COMMITS = 15

pytestmark = pytest.mark.timeout(600)


def test_guarantees_hold_under_kills_suspensions_server_crashes_and_lost_answers(seed: int) -> None:
    with guarantees_kept(seed, Shape(workers=8)) as harness:
        kill_workers(harness, KILLS)
        while not harness.counts["refused writes of stalled workers"] and harness.counts[STOPPED] < MAX_STALLED:
            stop_past_the_lease(harness, STALLED)  # who had nothing to write is refused nothing: others are stopped
            harness.fill_up()
        kill_postmaster(harness)
        while lost_commits(harness) < LOST_COMMITS:
            cut_commits(harness)
    assert harness.counts["workers killed"] >= KILLS
    assert harness.counts["refused writes of stalled workers"] > 0, "no stalled worker tried to write"


def test_guarantees_hold_when_a_worker_dies_at_one_crash_point_of_every_work_type(seed: int) -> None:
    drawn = next(rounds(random_for(seed)))
    with guarantees_kept(seed, Shape(workers=0, client_seconds=0.15)) as harness:
        reached = die_at(harness, dict.fromkeys(drawn, 1), REACH_SECONDS)
        assert reached == set(drawn), (f"DULY_CHAOS_SEED={seed}", set(drawn) - reached)
