"""Faults that every change must survive: so many kills, zombies, lost servers and lost answers, and no promise broken.

The long tier is `duly chaos`. Each test draws a seed, and says it when it fails; DULY_CHAOS_SEED repeats it.
"""

import os
import random
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress

import pytest

from duly.kernel.crashpoint import CRASHPOINTS
from tests.faults.checks import violations
from tests.faults.episodes import EPISODES, run_episode
from tests.faults.faults import cut_commits, kill_postmaster, kill_workers, stop_past_the_lease, stop_server_at_once
from tests.faults.workers import WORKS
from tests.faults.world import SIX_HOURS, Shape, World, open_world
from tests.support.processes import is_gone

KILLS = 300
STOPS = 60
POSTMASTERS = 5
LOST_COMMITS = 100
MIXED_SECONDS = 12.0
REACH_SECONDS = 20.0
ENOUGH = 20

pytestmark = pytest.mark.timeout(600)


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
        found = [*world.settle_down(), *violations(world)]
        assert found == [], (f"DULY_CHAOS_SEED={seed}", world.counts, world.said)
        assert world.counts["acknowledged jobs"] > 0, "nothing was asked, so nothing was shown"
        assert world.counts["acknowledged posts"] > 0
        assert world.counts["acknowledged captures"] > 0


def test_workers_are_killed_three_hundred_times(seed: int) -> None:
    with promises_are_kept(seed) as world:
        while world.counts["workers killed"] < KILLS:
            kill_workers(world, 20)
            if world.counts["workers killed"] % 100 == 0:
                world.pass_time(SIX_HOURS)
    assert world.counts["workers killed"] >= KILLS


def test_workers_are_stopped_past_their_lease_sixty_times_and_refused_when_they_go_on(seed: int) -> None:
    with promises_are_kept(seed, Shape(workers=12)) as world:
        while world.counts["workers stopped past their lease"] < STOPS:
            stop_past_the_lease(world, 10)
            world.fill_up()
    assert world.refusals() > 0, "no zombie tried to write, so nothing was shown"


def test_the_server_is_killed_five_times_and_nothing_acknowledged_is_lost(seed: int) -> None:
    with promises_are_kept(seed) as world:
        for _ in range(POSTMASTERS):
            world.pause(world.chance.uniform(0.5, 1.5))
            kill_postmaster(world)
        stop_server_at_once(world)
    assert world.counts["postmaster kills"] >= POSTMASTERS


def test_the_answers_to_a_hundred_commits_are_lost_and_each_request_is_done_once(seed: int) -> None:
    with promises_are_kept(seed, Shape(client_seconds=0.02)) as world:
        while world.counts["commits whose answer was lost"] < LOST_COMMITS:
            cut_commits(world)
    assert world.counts["commits whose answer was lost"] >= LOST_COMMITS
    assert world.counts["unanswered"] > 0, "no client missed an answer, so nothing was shown"


def test_a_bit_of_everything(seed: int) -> None:
    outcome = run_episode("everything", seed, MIXED_SECONDS)
    assert outcome.violations == [], (f"DULY_CHAOS_SEED={seed}", outcome.counts, outcome.faults)


@pytest.mark.skipif(EPISODES["pooler"].missing() is not None, reason="pgbouncer is not installed")
def test_a_bit_of_everything_through_a_pooler(seed: int) -> None:
    outcome = run_episode("pooler", seed, MIXED_SECONDS)
    assert outcome.violations == [], (f"DULY_CHAOS_SEED={seed}", outcome.counts, outcome.faults)


# Every crash point in every kind of work ------------------------------------------------------------------------------

# What a kind of work never passes, and why.
NOT_THERE = {
    **{
        (work, point): "only messages are sent"
        for work in ("ledger", "ingest", "scheduler", "posts")
        for point in ("before_send", "after_send")
    },
    **{
        (work, point): "what lapses is taken over by the next holder, not swept"
        for work in ("ingest", "scheduler")
        for point in ("before_sweep", "after_sweep")
    },
}
HOW = {
    "renew": ("heartbeat_seconds=0.25", "seconds=0.8"),
    "release": ("seconds=5", "slots=3"),
}


def test_a_worker_dies_at_every_crash_point_of_every_kind_of_work(seed: int) -> None:
    with promises_are_kept(seed, Shape(workers=0, client_seconds=0.15)) as world:
        let_messages_pile_up(world)
        reached: set[tuple[str, str]] = set()
        for point in sorted(CRASHPOINTS):
            world.receiver.slowly = 0.6 if point.endswith(("renew", "release")) else 0.0
            reached |= {(work, point) for work in die_at(world, point)}
        world.receiver.slowly = 0.0
        expected = {(work, point) for work in WORKS for point in CRASHPOINTS} - NOT_THERE.keys()
        assert reached == expected, (expected - reached, reached - expected)


def let_messages_pile_up(world: World) -> None:
    """Everything but sending is done, until there is enough to send."""
    pid = world.nursery.bear("only=ingest,scheduler,posts")
    several = (
        "select least((select count(*) from duly.outbox where status = 'pending'),"
        " (select count(*) from schedule_ingest.schedule_notification where status = 'pending'))"
    )
    deadline = time.monotonic() + 3 * REACH_SECONDS
    while world.ask(several)[0] < ENOUGH:
        assert time.monotonic() < deadline, "there is nothing to send"
        world.pause(1.0)
        world.pass_time(SIX_HOURS)
    world.nursery.end(pid)


def die_at(world: World, point: str) -> set[str]:
    """A worker of every kind that is to die at this point; the kinds whose workers did."""
    how = HOW.get(point.split("_")[1], ("seconds=0.02",))
    born = {work: world.nursery.bear(f"only={work}", f"crash={point}", *how) for work in WORKS}
    wanted = {work: pid for work, pid in born.items() if (work, point) not in NOT_THERE}
    world.pass_time(SIX_HOURS)  # posts and schedules are due, and what the last ones held has lapsed
    deadline = time.monotonic() + REACH_SECONDS
    told = set[int]()
    while not all(map(is_gone, wanted.values())) and time.monotonic() < deadline:
        if point.endswith("release"):
            told |= tell_the_busy_to_go(world, set(wanted.values()) - told)
        world.pause(0.05)
    gone = {work for work, pid in born.items() if is_gone(pid)}
    for pid in born.values():
        world.nursery.end(pid)
    in_peace = {pid for pid, words in world.nursery.heard if words == "end"}
    return {work for work in gone if born[work] not in in_peace}


def tell_the_busy_to_go(world: World, pids: set[int]) -> set[int]:
    """SIGTERM to those who hold something."""
    world.pause(0.5)
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    return pids
