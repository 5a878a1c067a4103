"""Episodes: a world of some shape, faults of some kinds for a while, then the question whether every promise was kept.

An episode is repeated by its seed: the same world, the same faults in the same order, with the same numbers (`plan`).
What the processes do between two faults is theirs, so that a failure comes again often, and not always.
"""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from tests.proof.faults.checks import violations
from tests.proof.faults.crash_sites import CrashSite, rounds
from tests.proof.faults.faults import FAULTS, die_at_crash_points, find_faketime, hold_a_snapshot, tap_concurrently
from tests.proof.faults.harness import SIX_HOURS, Harness, Shape, open_harness, random_for
from tests.support.pooler import find_pgbouncer

TMPFS_MEGABYTES = 400
MAX_TRIES = 3  # of a crash point that was not met
CLOCKS = {"+1h": 3600.0, "-1h": -3600.0}
ORDINARY = tuple(name for name in FAULTS if name != "apply functions again")
Steps = Callable[[Harness, float], None]


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
    site = contextmanager(episode.on)() if episode.on else nullcontext(None)
    with site as home, open_harness(seed, replace(episode.shape, durable=durable, home=home)) as harness:
        harness.report = report
        harness.start_clients()
        harness.pass_time(SIX_HOURS)  # the first reminders are due
        episode.steps(harness, seconds)
        harness.log_step("settle down")
        if episode.shape.through_pooler:
            faults = [several for name, several in harness.counts.items() if name.startswith("fault: ")]
            harness.counts["faults through a pooler"] = sum(faults)
        found = check_promises(harness)
        return Outcome(name, seed, time.monotonic() - began, dict(harness.counts), harness.log_lines, found)


def check_promises(harness: Harness) -> list[str]:
    """Mend everything, let a last storm pass, let workers finish; then every promise that is broken, in words."""
    harness.undo_faults()
    harness.calm_down()
    tap_concurrently(harness)
    found = [*harness.wait_until_settled(), *violations(harness)]
    of_stalled = (
        harness.counts["refused writes of stalled workers"] + harness.counts["losses that stalled workers noticed"]
    )
    harness.counts["leases lost by others"] = len(harness.losses()) - of_stalled
    harness.counts["workers refused for want of the schema"] = harness.count_schema_refusals()
    harness.counts["poolers that died by themselves"] = harness.pooler_deaths()
    return found


@dataclass(frozen=True)
class Step:
    """A fault of a plan: the how manieth, which, with which numbers, and how long the world goes on before the next."""

    nth: int
    name: str
    given: Mapping[str, Any]
    rest: float

    def __str__(self) -> str:
        given = (f"{name}={value}" for name, value in self.given.items())
        return " ".join([self.name, *given])


def plan(seed: int, names: Sequence[str]) -> Iterator[Step]:
    """These faults again and again, in an order and with numbers that depend on the seed alone; without end."""
    waiting: list[str] = []
    for nth in count(1):
        if not waiting:
            waiting = random_for(seed, nth, "order").sample(names, len(names))
        name = waiting.pop()
        chance = random_for(seed, nth, name)
        yield Step(nth, name, FAULTS[name].draw(chance), chance.uniform(0.1, 0.8))


def do(harness: Harness, step: Step) -> None:
    """One fault of a plan."""
    harness.log_step(str(step))
    harness.record_logs()
    harness.chance = random_for(harness.seed, step.nth, step.name, "whom")
    FAULTS[step.name].do(harness, **step.given)
    harness.counts[f"fault: {step.name}"] += 1
    harness.fill_up()
    harness.pause(step.rest)


def rounds_of(*names: str) -> Steps:
    """These faults, as the seed plans them."""

    def steps(harness: Harness, seconds: float) -> None:
        end = time.monotonic() + seconds
        for step in plan(harness.seed, names):
            if time.monotonic() > end:
                return
            do(harness, step)

    return steps


def at_every_crash_point(harness: Harness, _: float) -> None:
    """A worker dies at every crash point of every kind of work, however long it takes; who did not is tried again."""
    waiting = list(rounds(random_for(harness.seed, "crash points")))
    for _ in range(MAX_TRIES):
        again: list[list[CrashSite]] = []
        for sites in waiting:
            harness.record_logs()
            harness.log_step(f"die at {', '.join(map(repr, sites))}")
            met = die_at_crash_points(harness, dict.fromkeys(sites, 1))
            again += [left] if (left := [site for site in sites if site not in met]) else []
        waiting = again


def with_other_clocks(harness: Harness, seconds: float) -> None:
    """Workers an hour ahead and an hour behind work beside the others."""
    library = find_faketime()
    with ExitStack() as stack:
        for shift, ahead in CLOCKS.items():
            pool = harness.add_pool(
                stack, LD_PRELOAD=str(library), FAKETIME=shift, FAKETIME_DONT_FAKE_MONOTONIC="1", TZ="UTC"
            )
            pid = harness.start_worker("clock=print", pool=pool)
            shown = float(pool.wait_for_line(pid, "clock").split()[1])
            assert abs(shown - time.time() - ahead) < 60, f"its clock shows {shown}, and ours {time.time()}"
        for _ in range(harness.shape.workers):
            harness.start_worker(pool=harness.pool_chance.choice(harness.pools[1:]))
        rounds_of("kill workers", "stop past the lease", "let the clock jump", "cut every wire", "end backends")(
            harness, seconds
        )
        harness.stop_workers()
        del harness.pools[1:]


def under_a_held_snapshot(harness: Harness, seconds: float) -> None:
    """A snapshot is held all the while."""
    sight = hold_a_snapshot(harness)
    seen, began = sight(), time.monotonic()
    rounds_of("kill workers", "stop past the lease", "lose answers to commits")(harness, seconds)
    assert seen is not None
    assert sight() == seen, "the snapshot was let go"
    harness.counts["seconds under a held snapshot"] += int(time.monotonic() - began)


def with_a_full_disk(harness: Harness, seconds: float) -> None:
    """The server's disk is filled to the last block, and emptied again."""
    assert harness.shape.home
    ballast = harness.shape.home.parent / "ballast"
    end = time.monotonic() + seconds
    for step in plan(harness.seed, ["kill workers"]):
        if time.monotonic() > end:
            break
        do(harness, step)
        harness.log_step("fill the disk")
        harness.record_logs()
        fill(ballast)
        harness.pause(2.0 + 4 * step.rest)
        ballast.unlink()
        harness.server.ensure()
        harness.log_step("disk space again")
        harness.counts["disks filled"] += 1
        harness.counts["writes refused by a full disk"] = harness.count_disk_full_errors()
        harness.pause(2.0)
        harness.fill_up()
    assert harness.counts["writes refused by a full disk"], "the disk was full, and no write was refused"


def fill(ballast: Path) -> None:
    """Write until the disk is full."""
    block = bytes(1024 * 1024)
    with ballast.open("wb", buffering=0) as file:
        for size in (block, block[:4096]):
            try:
                while True:
                    file.write(size)
            except OSError:
                continue


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
    "crash points": Episode(
        "a worker dies at every crash point of every kind of work", at_every_crash_point, Shape(workers=0)
    ),
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
    "migrations": Episode("migrations under load", rounds_of("apply functions again", "kill workers")),
    "snapshot": Episode("a snapshot held all the while", under_a_held_snapshot),
}
