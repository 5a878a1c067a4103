"""Hundreds of kills, zombies, lost servers and lost answers, and no promise broken.

`test_gate.py` is the minute of it that every change must survive, `duly chaos` the hours. Each test draws a seed, and
says it when it fails; DULY_CHAOS_SEED repeats it.
"""

import os
import random
from collections.abc import Generator
from contextlib import contextmanager
from itertools import islice

import pytest

from duly.crashpoint import CRASHPOINTS
from tests.proof.faults.checks import TAKEN_OVER
from tests.proof.faults.episodes import EPISODES, ORDINARY, Outcome, hold_to_account, plan, run_episode
from tests.proof.faults.faults import (
    cut_commits,
    kill_postmaster,
    kill_workers,
    stop_past_the_lease,
    stop_server_at_once,
)
from tests.proof.faults.points import PASSED, Place, die_at
from tests.proof.faults.workers import WORKS
from tests.proof.faults.world import SIX_HOURS, Shape, World, open_world

KILLS = 300
STOPS = 60
POSTMASTERS = 5
LOST_COMMITS = 100
UNANSWERED = 60  # of them at least; seven in ten are clients', the others workers'
MIXED_SECONDS = 12.0
REACH_SECONDS = 40.0

pytestmark = pytest.mark.timeout(2400)


@pytest.fixture
def seed() -> int:
    """Another one every time, unless somebody wants one again."""
    return int(os.environ.get("DULY_CHAOS_SEED", random.randrange(1, 10**6)))  # noqa: S311


@contextmanager
def promises_are_kept(seed: int, shape: Shape = Shape()) -> Generator[World, None, None]:  # noqa: B008 (frozen)
    """A world under load, in which something is done; and then every promise is held against it."""
    with open_world(seed, shape) as world:
        world.start_clients()
        world.pass_time(SIX_HOURS)
        yield world
        found = hold_to_account(world)
        assert found == [], (f"DULY_CHAOS_SEED={seed}", world.counts, world.said)


def test_workers_are_killed_three_hundred_times(seed: int) -> None:
    with promises_are_kept(seed) as world:
        while world.counts["workers killed"] < KILLS:
            kill_workers(world, 20)
            if world.counts["workers killed"] % 100 == 0:
                world.pass_time(SIX_HOURS)
    assert world.counts["workers killed"] >= KILLS
    held_nothing = [work for work in TAKEN_OVER if not world.counts[f"begun again: {work}"]]
    assert not held_nothing, "nobody who was killed held anything of these, so nothing was shown of them"


def test_workers_are_stopped_past_their_lease_sixty_times_and_refused_when_they_go_on(seed: int) -> None:
    with promises_are_kept(seed, Shape(workers=12)) as world:
        while world.counts["workers stopped past their lease"] < STOPS:
            stop_past_the_lease(world, 10)
            world.fill_up()
    assert world.counts["refused writes of zombies"] > 0, "no zombie tried to write, so nothing was shown"


def test_the_server_is_killed_five_times_and_nothing_acknowledged_is_lost(seed: int) -> None:
    with promises_are_kept(seed) as world:
        for _ in range(POSTMASTERS):
            world.pause(world.chance.uniform(0.5, 1.5))
            kill_postmaster(world)
        stop_server_at_once(world)
    assert world.counts["postmaster kills"] >= POSTMASTERS


def test_the_answers_to_a_hundred_commits_are_lost_and_each_request_is_done_once(seed: int) -> None:
    with promises_are_kept(seed, Shape(client_seconds=0.02)) as world:
        while lost_commits(world) < LOST_COMMITS:
            cut_commits(world)
    assert world.counts["unanswered"] >= UNANSWERED, "clients hardly missed an answer, so hardly anything was shown"


def lost_commits(world: World) -> int:
    """So many commits of something written whose answer nobody heard."""
    return sum(world.counts[f"commits of {whose} whose answer was lost"] for whose in ("clients", "workers"))


def test_a_bit_of_everything(seed: int) -> None:
    see_it_kept("everything", seed)


@pytest.mark.skipif(EPISODES["pooler"].missing() is not None, reason="pgbouncer is not installed")
def test_a_bit_of_everything_through_a_pooler(seed: int) -> None:
    see_it_kept("pooler", seed)


def see_it_kept(name: str, seed: int) -> None:
    """A short episode that breaks no promise, and does what its seed plans."""
    outcome: Outcome = run_episode(name, seed, MIXED_SECONDS)
    assert outcome.violations == [], (f"DULY_CHAOS_SEED={seed}", outcome.counts, outcome.faults)
    done = [line.split(maxsplit=1)[1] for line in outcome.faults][:-1]  # but for the settling down
    if outcome.counts.get("fault: end backends") and not EPISODES[name].shape.through_pooler:
        assert outcome.counts["listeners ended"] > 0
    assert done == [str(step) for step in islice(plan(seed, ORDINARY), len(done))]


# Every crash point in every kind of work ------------------------------------------------------------------------------


def test_a_worker_dies_at_every_crash_point_of_every_kind_of_work(seed: int) -> None:
    with promises_are_kept(seed, Shape(workers=0, client_seconds=0.15)) as world:
        reached: set[Place] = set()
        for point in sorted(CRASHPOINTS):
            reached |= die_at(world, {Place(work, point): 1 for work in WORKS}, REACH_SECONDS)
        assert reached == set(PASSED), (set(PASSED) - reached, reached - set(PASSED))
