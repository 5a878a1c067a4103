"""The fault gate: in about a minute, a few of every kind of fault, and no promise broken. Every change must survive it.

`test_faults.py` has hundreds of each, nightly. A test draws a seed, and says it when it fails; DULY_CHAOS_SEED repeats
it.
"""

import pytest

from tests.proof.faults.faults import cut_commits, kill_postmaster, kill_workers, stop_past_the_lease
from tests.proof.faults.points import die_at, rounds
from tests.proof.faults.test_faults import REACH_SECONDS, lost_commits, promises_are_kept, seed
from tests.proof.faults.world import Shape, chance_of

__all__ = ["seed"]

KILLS = 40
ZOMBIES, MAX_ZOMBIES = 6, 60
STOPPED = "workers stopped past their lease"
LOST_COMMITS = 15

pytestmark = pytest.mark.timeout(600)


def test_killed_workers_zombies_a_lost_server_and_lost_answers_break_no_promise(seed: int) -> None:
    with promises_are_kept(seed, Shape(workers=8)) as world:
        kill_workers(world, KILLS)
        while not world.counts["refused writes of zombies"] and world.counts[STOPPED] < MAX_ZOMBIES:
            stop_past_the_lease(world, ZOMBIES)  # who had nothing to write is refused nothing: others are stopped
            world.fill_up()
        kill_postmaster(world)
        while lost_commits(world) < LOST_COMMITS:
            cut_commits(world)
    assert world.counts["workers killed"] >= KILLS
    assert world.counts["refused writes of zombies"] > 0, "no zombie tried to write, so nothing was shown"


def test_a_worker_dies_at_a_crash_point_of_every_kind_of_work(seed: int) -> None:
    drawn = next(rounds(chance_of(seed)))
    with promises_are_kept(seed, Shape(workers=0, client_seconds=0.15)) as world:
        reached = die_at(world, dict.fromkeys(drawn, 1), REACH_SECONDS)
        assert reached == set(drawn), (f"DULY_CHAOS_SEED={seed}", set(drawn) - reached)
