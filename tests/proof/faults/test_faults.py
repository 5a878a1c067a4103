"""Hundreds of kills, stalled workers, lost servers and lost answers, and no promise broken.

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
from tests.proof.faults.checks import RECLAIMED
from tests.proof.faults.crash_sites import PASSED, CrashSite, die_at
from tests.proof.faults.episodes import EPISODES, ORDINARY, Outcome, check_promises, plan, run_episode
from tests.proof.faults.faults import (
    cut_commits,
    kill_postmaster,
    kill_workers,
    stop_past_the_lease,
    stop_server_at_once,
)
from tests.proof.faults.harness import SIX_HOURS, Harness, Shape, open_harness
from tests.proof.faults.workers import WORKS

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
    """A new seed every time, unless one is given."""
    return int(os.environ.get("DULY_CHAOS_SEED", random.randrange(1, 10**6)))  # noqa: S311


@contextmanager
def guarantees_kept(seed: int, shape: Shape = Shape()) -> Generator[Harness, None, None]:  # noqa: B008 (frozen)
    """A world under load, in which something is done; and then every promise is held against it."""
    with open_harness(seed, shape) as harness:
        harness.start_clients()
        harness.pass_time(SIX_HOURS)
        yield harness
        found = check_promises(harness)
        assert found == [], (f"DULY_CHAOS_SEED={seed}", harness.counts, harness.log_lines)


def test_guarantees_hold_when_workers_are_killed_three_hundred_times(seed: int) -> None:
    with guarantees_kept(seed) as harness:
        while harness.counts["workers killed"] < KILLS:
            kill_workers(harness, 20)
            if harness.counts["workers killed"] % 100 == 0:
                harness.pass_time(SIX_HOURS)
    assert harness.counts["workers killed"] >= KILLS
    held_nothing = [work for work in RECLAIMED if not harness.counts[f"begun again: {work}"]]
    assert not held_nothing, "no killed worker held a row of these, so they were not tested"


def test_guarantees_hold_when_workers_resume_after_their_leases_expired_sixty_times(seed: int) -> None:
    with guarantees_kept(seed, Shape(workers=12)) as harness:
        while harness.counts["workers stopped past their lease"] < STOPS:
            stop_past_the_lease(harness, 10)
            harness.fill_up()
    assert harness.counts["refused writes of stalled workers"] > 0, "no stalled worker tried to write"


def test_guarantees_hold_when_the_server_is_killed_five_times(seed: int) -> None:
    with guarantees_kept(seed) as harness:
        for _ in range(POSTMASTERS):
            harness.pause(harness.chance.uniform(0.5, 1.5))
            kill_postmaster(harness)
        stop_server_at_once(harness)
    assert harness.counts["postmaster kills"] >= POSTMASTERS


def test_guarantees_hold_when_the_answers_to_a_hundred_commits_are_lost(seed: int) -> None:
    with guarantees_kept(seed, Shape(client_seconds=0.02)) as harness:
        while lost_commits(harness) < LOST_COMMITS:
            cut_commits(harness)
    assert harness.counts["unanswered"] >= UNANSWERED, "clients hardly missed an answer, so hardly anything was shown"


def lost_commits(harness: Harness) -> int:
    """Return the number of commits of writes whose answer was lost."""
    return sum(harness.counts[f"commits of {wire_name} whose answer was lost"] for wire_name in ("clients", "workers"))


def test_guarantees_hold_under_a_mix_of_all_faults(seed: int) -> None:
    run_episode_and_check("everything", seed)


@pytest.mark.skipif(EPISODES["pooler"].missing() is not None, reason="pgbouncer is not installed")
def test_guarantees_hold_under_a_mix_of_all_faults_through_a_pooler(seed: int) -> None:
    run_episode_and_check("pooler", seed)


def run_episode_and_check(name: str, seed: int) -> None:
    """A short episode that breaks no promise, and does what its seed plans."""
    outcome: Outcome = run_episode(name, seed, MIXED_SECONDS)
    assert outcome.violations == [], (f"DULY_CHAOS_SEED={seed}", outcome.counts, outcome.faults)
    done = [line.split(maxsplit=1)[1] for line in outcome.faults][:-1]  # but for the settling down
    if outcome.counts.get("fault: end backends") and not EPISODES[name].shape.through_pooler:
        assert outcome.counts["listeners ended"] > 0
    assert done == [str(step) for step in islice(plan(seed, ORDINARY), len(done))]


# Every crash point in every kind of work ------------------------------------------------------------------------------


def test_guarantees_hold_when_a_worker_dies_at_every_crash_point_of_every_work_type(seed: int) -> None:
    with guarantees_kept(seed, Shape(workers=0, client_seconds=0.15)) as harness:
        reached: set[CrashSite] = set()
        for point in sorted(CRASHPOINTS):
            reached |= die_at(harness, {CrashSite(work, point): 1 for work in WORKS}, REACH_SECONDS)
        assert reached == set(PASSED), (set(PASSED) - reached, reached - set(PASSED))
