"""Crash points: which kind of work passes which, how a worker is brought to pass it, and whether it died there."""

import os
import random
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

from duly.crashpoint import CRASHPOINTS, KILLED, VARIABLE
from tests.proof.faults.people import ORG
from tests.proof.faults.workers import WORKS
from tests.proof.faults.world import SIX_HOURS, World
from tests.support.processes import is_gone

BUSY_SECONDS = 0.5  # by then a worker holds something; one that did not is followed by another that gets longer
LONGEST_BUSY_SECONDS = 3.0
AGAIN_SECONDS = 0.1  # whoever is told again lets go of what it holds
DUE_SECONDS = 4.0  # so long a worker that met nothing waits until more is due
PILE_SECONDS = 120.0
PILE = 20


class Place(NamedTuple):
    """A crash point in a kind of work."""

    work: str
    point: str

    def __repr__(self) -> str:
        return f"{self.work}.{self.point}"

    @property
    def deed(self) -> str:
        """What is done there."""
        return self.point.split("_")[1]


# What a kind of work never passes, and why.
NOT_THERE: Mapping[Place, str] = {
    **{
        Place(work, point): "only messages are sent"
        for work in ("ledger", "ingest", "scheduler", "posts")
        for point in ("before_send", "after_send")
    },
    **{
        Place(work, point): "what lapses is taken over by the next holder, not swept"
        for work in ("ingest", "scheduler")
        for point in ("before_sweep", "after_sweep", "after_sweep_commit")
    },
}
PASSED = sorted({Place(work, point) for work in WORKS for point in CRASHPOINTS} - NOT_THERE.keys())
ONCE = ("release", "sweep")  # a worker lets go once, and there is something to sweep once
SLOW = ("renew", "release")  # who is to pass these must hold something for a while
HOW: Mapping[str, tuple[str, ...]] = {
    "renew": ("heartbeat_seconds=0.25", "seconds=0.8"),
    "release": ("seconds=5", "slots=3"),
}
# Jobs take as long as they say; somebody must be at one to give it back. They outlive many holders and soon come back.
LONG_JOBS = """
select ledger.enqueue(
    %s, 'nap', '{"seconds": 4}', key => 'harness-' || gen_random_uuid(), priority => 50,
    max_attempts => 1000, backoff_base_seconds => 0.05, backoff_cap_seconds => 0.5
)
from generate_series(1, 3)
"""
TO_BE_SENT = """
select least(
    (select count(*) from duly.outbox where status = 'pending'),
    (select count(*) from schedule_ingest.schedule_notification where delivery = 'pending')
)
"""


@dataclass
class Doomed:
    """A worker that is to die at a place, how long it may be busy before it is told to go, and when it will be."""

    place: Place
    pid: int
    busy_seconds: float
    told_at: list[float]

    def tell(self) -> None:
        """Tell it to go, when it is time."""
        if self.told_at and self.told_at[0] < time.monotonic():
            del self.told_at[0]
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)


def rounds(chance: random.Random) -> Iterator[list[Place]]:
    """Every place once, in a drawn order; no kind of work twice in a round, or they would take from each other."""
    drawn = [chance.sample(of, len(of)) for work in WORKS if (of := [place for place in PASSED if place.work == work])]
    for several in zip_longest(*drawn):
        yield [place for place in several if place]


def die_at(world: World, places: Mapping[Place, int], seconds: float) -> set[Place]:
    """A worker for each place that is to die at its n-th pass of it; the places where one did.

    One that ended otherwise, in peace before it held anything or for want of a server, is followed by another. Nobody
    else may be at work, or they would leave nothing for it.
    """
    prepare(world, places, seconds)
    living = [start_doomed(world, place, nth) for place, nth in places.items()]
    met = set[Place]()
    end, due = time.monotonic() + seconds, time.monotonic() + DUE_SECONDS
    while time.monotonic() < end and not met >= places.keys() & set(PASSED):
        for doomed in list(living):
            doomed.tell()
            if is_gone(doomed.pid):
                living.remove(doomed)
                if has_met(world, doomed):
                    met.add(doomed.place)
                else:
                    longer = min(2 * doomed.busy_seconds, LONGEST_BUSY_SECONDS)
                    living.append(start_doomed(world, doomed.place, places[doomed.place], longer))
        if time.monotonic() > due:
            world.pass_time(SIX_HOURS)
            due = time.monotonic() + DUE_SECONDS
        world.pause(0.05)
    for doomed in living:
        world.pool.kill(doomed.pid)
        met |= {doomed.place} if has_met(world, doomed) else set()
    world.receiver.delay_seconds = 0.0
    return met


def prepare(world: World, places: Mapping[Place, int], seconds: float) -> None:
    """See to it that there is something to do, to hold and to sweep; then posts and schedules are due."""
    deeds = {place.deed for place in places}
    if any(place.work in ("outbox", "notifications") for place in places):
        let_messages_pile_up(world)
    if swept := {place.work for place in places if place.deed == "sweep" and place in PASSED}:
        die_at(world, {Place(work, "before_settle"): 1 for work in swept}, seconds)
    world.receiver.delay_seconds = 0.6 if deeds & {*SLOW} else 0.0
    world.pass_time(SIX_HOURS)


def start_doomed(world: World, place: Place, nth: int, busy_seconds: float = BUSY_SECONDS) -> Doomed:
    """Start a worker that is to die at this place."""
    if place.work == "ledger" and place.deed == "release":
        world.ask(LONG_JOBS, ORG)
    how = HOW.get(place.deed, ("seconds=0.02",))
    crash = {VARIABLE: f"{place.point}:{nth}"}
    pid = world.start_worker(f"only={place.work}", *how, pool=world.pool, **crash)
    told_at = time.monotonic() + busy_seconds
    return Doomed(place, pid, busy_seconds, [told_at, told_at + AGAIN_SECONDS] if place.deed == "release" else [])


def has_met(world: World, doomed: Doomed) -> bool:
    """Did it die where it should?"""
    return world.pool.exit_status(doomed.pid) == KILLED


def let_messages_pile_up(world: World) -> None:
    """Everything but sending is done, until there is enough to send."""
    if world.ask(TO_BE_SENT)[0] >= PILE:
        return
    pid = world.pool.start("only=ingest,scheduler,posts")
    deadline = time.monotonic() + PILE_SECONDS
    while world.ask(TO_BE_SENT)[0] < PILE:
        assert time.monotonic() < deadline, "there is nothing to send"
        world.pause(1.0)
        world.pass_time(SIX_HOURS)
    world.pool.kill(pid)
