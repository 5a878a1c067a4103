"""Episodes: a world of some shape, faults of some kinds for a while, then the question whether every promise was kept.

An episode is repeated by its seed: the same world, the same faults in the same order, with the same numbers. What the
processes do between two faults is theirs, so that a failure comes again often, and not always.
"""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.faults.checks import violations
from tests.faults.faults import FAULTS, find_faketime, hold_a_snapshot, kill_workers, migrate_down_and_up
from tests.faults.world import SIX_HOURS, Shape, World, open_world
from tests.support.pooler import find_pgbouncer

__all__ = ["EPISODES", "Episode", "Outcome", "run_episode"]

TMPFS_MEGABYTES = 400
ORDINARY = tuple(name for name in FAULTS if name not in ("migrate down and up", "hold a snapshot"))
Steps = Callable[[World, float], None]


@dataclass(frozen=True)
class Outcome:
    """What an episode came to."""

    episode: str
    seed: int
    seconds: float
    counts: Mapping[str, int]
    faults: Sequence[str]  # what was done, and when
    violations: Sequence[str]


@dataclass(frozen=True)
class Episode:
    """A kind of episode: what is done, in which world, and what a machine needs for it."""

    about: str
    steps: Steps
    shape: Shape = field(default_factory=Shape)
    missing: Callable[[], str | None] = lambda: None  # why it cannot be had here
    on: Callable[[], Generator[Path | None, None, None]] | None = None  # where the server lies, if anywhere special


def run_episode(
    name: str, seed: int, seconds: float, *, durable: bool = False, report: Callable[[str], None] = lambda _: None
) -> Outcome:
    """One episode, from an empty database to the last check."""
    episode = EPISODES[name]
    began = time.monotonic()
    place = contextmanager(episode.on)() if episode.on else nullcontext(None)
    with place as home, open_world(seed, replace(episode.shape, durable=durable, home=home)) as world:
        world.report = report
        world.start_clients()
        world.pass_time(SIX_HOURS)  # the first reminders are due
        episode.steps(world, seconds)
        world.say("settle down")
        found = [*world.settle_down(), *violations(world)]
        world.counts["refused writes of zombies"] = world.refusals()
        world.counts["poolers that died by themselves"] = world.pooler_deaths()
        return Outcome(name, seed, time.monotonic() - began, dict(world.counts), world.said, found)


def do(world: World, name: str) -> None:
    """One fault, by its name."""
    world.say(name)
    FAULTS[name](world)
    world.counts[f"fault: {name}"] += 1
    world.fill_up()


def rounds_of(*names: str) -> Steps:
    """These faults, in an order that the seed draws, again and again; the logs are remembered in between."""

    def steps(world: World, seconds: float) -> None:
        end = time.monotonic() + seconds
        waiting: list[str] = []
        while time.monotonic() < end:
            if not waiting:
                waiting = world.chance.sample(names, len(names))
                world.remember_logs()
            do(world, waiting.pop())
            world.pause(world.chance.uniform(0.1, 0.8))

    return steps


def with_other_clocks(world: World, seconds: float) -> None:
    """Workers an hour ahead and an hour behind work beside the others."""
    library = find_faketime()
    with ExitStack() as stack:
        for shift in ("+1h", "-1h"):
            world.nurse(stack, LD_PRELOAD=str(library), FAKETIME=shift, FAKETIME_DONT_FAKE_MONOTONIC="1", TZ="UTC")
        for _ in range(world.shape.workers):
            world.bear(of=world.chance.choice(world.nurseries[1:]))
        rounds_of("kill workers", "stop past the lease", "let the clock jump", "cut every wire", "end backends")(
            world, seconds
        )
        world.counts["workers with another clock"] += world.counts["workers born"]
        world.stop_workers()
        del world.nurseries[1:]


def under_a_held_snapshot(world: World, seconds: float) -> None:
    """A snapshot is held all the while."""
    hold_a_snapshot(world)
    rounds_of("kill workers", "stop past the lease", "lose answers to commits")(world, seconds)
    world.counts["seconds under a held snapshot"] += int(seconds)


def with_a_full_disk(world: World, seconds: float) -> None:
    """The server's disk is filled to the last block, and emptied again."""
    assert world.shape.home
    ballast = world.shape.home.parent / "ballast"
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        kill_workers(world, 3)
        world.say("fill the disk")
        fill(ballast)
        world.pause(world.chance.uniform(2.0, 5.0))
        ballast.unlink()
        world.server.ensure()
        world.say("room again")
        world.counts["disks filled"] += 1
        world.pause(2.0)
        world.fill_up()


def fill(ballast: Path) -> None:
    """Write until there is no room."""
    block = bytes(1024 * 1024)
    with ballast.open("wb", buffering=0) as file:
        for size in (block, block[:4096]):
            try:
                while True:
                    file.write(size)
            except OSError:
                continue


def through_migrations(world: World, seconds: float) -> None:
    """The newest migration is undone and done again, under load."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        world.say("migrate down and up")
        migrate_down_and_up(world)
        world.fill_up()
        world.pause(world.chance.uniform(1.0, 3.0))
        kill_workers(world, 2)


# What a machine needs -------------------------------------------------------------------------------------------------


def no_pgbouncer() -> str | None:
    """Why there is no pooler."""
    return None if find_pgbouncer() else "pgbouncer is not installed"


def no_faketime() -> str | None:
    """Why there are no other clocks."""
    return None if find_faketime() else "libfaketime is not installed"


def no_tmpfs() -> str | None:
    """Why no disk can be filled."""
    with tempfile.TemporaryDirectory() as directory:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", directory], capture_output=True)
        if mounted.returncode == 0:
            subprocess.run(["umount", directory], check=True)
            return None
    return "a small tmpfs cannot be mounted by this account"


def on_a_small_disk() -> Generator[Path | None, None, None]:
    """A home on a disk of its own, which is small."""
    directory = Path(tempfile.mkdtemp(prefix="duly-small-", dir="/tmp"))
    options = f"size={TMPFS_MEGABYTES}m,mode=755"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", directory], check=True)
    try:
        yield directory / "server"
    finally:
        subprocess.run(["umount", "-l", directory], check=True)
        os.rmdir(directory)  # noqa: PTH106


EPISODES: Mapping[str, Episode] = {
    "everything": Episode("every fault of the list, in turns", rounds_of(*ORDINARY)),
    "pooler": Episode(
        "the same with PgBouncer in transaction mode between everything",
        rounds_of(*ORDINARY),
        Shape(through_pooler=True),
        no_pgbouncer,
    ),
    "clocks": Episode("workers an hour ahead and an hour behind", with_other_clocks, missing=no_faketime),
    "full disk": Episode(
        "the server's disk is filled and emptied",
        with_a_full_disk,
        Shape(settings={"max_wal_size": "64MB", "min_wal_size": "32MB"}),
        no_tmpfs,
        on_a_small_disk,
    ),
    "migrations": Episode("migrations down and up under load", through_migrations),
    "snapshot": Episode("a snapshot held all the while", under_a_held_snapshot),
}
