"""Crash points: which kind of work passes which, how a worker is brought to pass it, and whether it died there."""

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from duly.kernel.crashpoint import CRASHPOINTS, KILLED
from tests.faults.people import ORG
from tests.faults.workers import WORKS
from tests.faults.world import World
from tests.support.processes import is_gone

__all__ = ["NOT_THERE", "PASSED", "Place", "die_at"]

BUSY_SECONDS = (0.5, 0.6)  # by then a worker holds something; whoever is told again lets go of it


class Place(NamedTuple):
    """A crash point in a kind of work."""

    work: str
    point: str

    def __repr__(self) -> str:
        return f"{self.work}.{self.point}"


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
        for point in ("before_sweep", "after_sweep")
    },
}
PASSED = sorted({Place(work, point) for work in WORKS for point in CRASHPOINTS} - NOT_THERE.keys())
HOW: Mapping[str, tuple[str, ...]] = {
    "renew": ("heartbeat_seconds=0.25", "seconds=0.8"),
    "release": ("seconds=5", "slots=3"),
}
# Jobs take as long as they say; somebody must be at one to give it back.
LONG_JOBS = """
select ledger.enqueue(%s, 'nap', '{"seconds": 4}', priority => 50, max_attempts => 1000) from generate_series(1, 3)
"""
SLOW = ("renew", "release")  # who is to pass these must hold something for a while


def die_at(world: World, places: Mapping[Place, int], seconds: float) -> set[Place]:
    """A worker for each place that is to die at its n-th pass of it; the places where one did.

    One that ended otherwise, in peace before it held anything or for want of a server, is followed by another.
    """
    world.receiver.slowly = 0.6 if any(place.point.endswith(SLOW) for place in places) else 0.0
    living: dict[int, Place] = {}
    untold: dict[int, list[float]] = {}  # those who are to be told to go, and when
    met = set[Place]()

    def bear(place: Place) -> None:
        pid = world.bear(*words_of(place, places[place]), of=world.nursery)
        living[pid] = place
        if place.point.endswith("release"):
            untold[pid] = [time.monotonic() + seconds for seconds in BUSY_SECONDS]

    if any(place.work == "ledger" and place.point.endswith("release") for place in places):
        world.ask(LONG_JOBS, ORG)
    for place in places:
        bear(place)
    end = time.monotonic() + seconds
    while time.monotonic() < end and not met >= places.keys() & set(PASSED):
        for pid, times in untold.items():
            if times and times[0] < time.monotonic():
                del times[0]
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
        for pid in [pid for pid in living if is_gone(pid)]:
            place = living.pop(pid)
            untold.pop(pid, None)
            world.nursery.see_gone(pid)
            if world.nursery.status_of(pid) == KILLED:
                met.add(place)
            else:
                bear(place)
        world.pause(0.05)
    for pid, place in living.items():
        world.nursery.end(pid)
        met |= {place} if world.nursery.status_of(pid) == KILLED else set()
    world.receiver.slowly = 0.0
    return met


def words_of(place: Place, nth: int) -> tuple[str, ...]:
    """What such a worker is told at its birth."""
    how = HOW.get(place.point.split("_")[1], ("seconds=0.02",))
    return (f"only={place.work}", f"crash={place.point}:{nth}", *how)
