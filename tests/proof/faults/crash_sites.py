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
from tests.proof.faults.harness import SIX_HOURS, Harness
from tests.proof.faults.people import ORG
from tests.proof.faults.workers import WORKS
from tests.support.processes import has_ended

BUSY_SECONDS = 0.5  # by then a worker holds something; one that did not is followed by another that gets longer
MAX_BUSY_SECONDS = 3.0
AGAIN_SECONDS = 0.1  # a second signal makes a worker release its rows
DUE_SECONDS = 4.0  # so long a worker that met nothing waits until more is due
PILE_SECONDS = 120.0
PILE = 20


class CrashSite(NamedTuple):
    """A crash point in a kind of work."""

    work: str
    point: str

    def __repr__(self) -> str:
        return f"{self.work}.{self.point}"

    @property
    def operation(self) -> str:
        """What is done there."""
        return self.point.split("_")[1]


# What a kind of work never passes, and why.
UNREACHABLE: Mapping[CrashSite, str] = {
    **{
        CrashSite(work, point): "only messages are sent"
        for work in ("ledger", "ingest", "scheduler", "posts")
        for point in ("before_send", "after_send")
    },
    **{
        CrashSite(work, point): "an expired row is claimed by the next holder, not swept"
        for work in ("ingest", "scheduler")
        for point in ("before_sweep", "after_sweep", "after_sweep_commit")
    },
}
PASSED = sorted({CrashSite(work, point) for work in WORKS for point in CRASHPOINTS} - UNREACHABLE.keys())
ONCE = ("release", "sweep")  # a worker lets go once, and there is something to sweep once
SLOW = ("renew", "release")  # who is to pass these must hold something for a while
HOW: Mapping[str, tuple[str, ...]] = {
    "renew": ("heartbeat_seconds=0.25", "seconds=0.8"),
    "release": ("seconds=5", "slots=3"),
}
# Jobs take as long as they say; a worker must be running one to release it. They outlive many holders.
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
class DoomedWorker:
    """A worker that is to die at a crash point, and when it is asked to stop if it does not reach it."""

    site: CrashSite
    pid: int
    busy_seconds: float
    stop_at: list[float]

    def stop_when_due(self) -> None:
        """Tell it to go, when it is time."""
        if self.stop_at and self.stop_at[0] < time.monotonic():
            del self.stop_at[0]
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)


def rounds(chance: random.Random) -> Iterator[list[CrashSite]]:
    """Every place once, in a drawn order; no kind of work twice in a round, or they would take from each other."""
    drawn = [chance.sample(of, len(of)) for work in WORKS if (of := [site for site in PASSED if site.work == work])]
    for several in zip_longest(*drawn):
        yield [site for site in several if site]


def die_at(harness: Harness, sites: Mapping[CrashSite, int], seconds: float) -> set[CrashSite]:
    """A worker for each place that is to die at its n-th pass of it; the places where one did.

    One that ended otherwise, normally before it held a row or for want of a server, is followed by another. No worker
    else may be at work, or they would leave nothing for it.
    """
    prepare(harness, sites, seconds)
    living = [start_doomed(harness, site, nth) for site, nth in sites.items()]
    met = set[CrashSite]()
    end, due = time.monotonic() + seconds, time.monotonic() + DUE_SECONDS
    while time.monotonic() < end and not met >= sites.keys() & set(PASSED):
        for doomed in list(living):
            doomed.stop_when_due()
            if has_ended(doomed.pid):
                living.remove(doomed)
                if has_met(harness, doomed):
                    met.add(doomed.site)
                else:
                    longer = min(2 * doomed.busy_seconds, MAX_BUSY_SECONDS)
                    living.append(start_doomed(harness, doomed.site, sites[doomed.site], longer))
        if time.monotonic() > due:
            harness.pass_time(SIX_HOURS)
            due = time.monotonic() + DUE_SECONDS
        harness.pause(0.05)
    for doomed in living:
        harness.pool.kill(doomed.pid)
        met |= {doomed.site} if has_met(harness, doomed) else set()
    harness.receiver.delay_seconds = 0.0
    return met


def prepare(harness: Harness, sites: Mapping[CrashSite, int], seconds: float) -> None:
    """See to it that there is something to do, to hold and to sweep; then posts and schedules are due."""
    operations = {site.operation for site in sites}
    if any(site.work in ("outbox", "notifications") for site in sites):
        let_messages_pile_up(harness)
    if swept := {site.work for site in sites if site.operation == "sweep" and site in PASSED}:
        die_at(harness, {CrashSite(work, "before_settle"): 1 for work in swept}, seconds)
    harness.receiver.delay_seconds = 0.6 if operations & {*SLOW} else 0.0
    harness.pass_time(SIX_HOURS)


def start_doomed(harness: Harness, site: CrashSite, nth: int, busy_seconds: float = BUSY_SECONDS) -> DoomedWorker:
    """Start a worker that is to die at this place."""
    if site.work == "ledger" and site.operation == "release":
        harness.query(LONG_JOBS, ORG)
    how = HOW.get(site.operation, ("seconds=0.02",))
    crash = {VARIABLE: f"{site.point}:{nth}"}
    pid = harness.start_worker(f"only={site.work}", *how, pool=harness.pool, **crash)
    stop_at = time.monotonic() + busy_seconds
    return DoomedWorker(
        site, pid, busy_seconds, [stop_at, stop_at + AGAIN_SECONDS] if site.operation == "release" else []
    )


def has_met(harness: Harness, doomed: DoomedWorker) -> bool:
    """Did it die where it should?"""
    return harness.pool.exit_status(doomed.pid) == KILLED


def let_messages_pile_up(harness: Harness) -> None:
    """Everything but sending is done, until there is enough to send."""
    if harness.query(TO_BE_SENT)[0] >= PILE:
        return
    pid = harness.pool.start("only=ingest,scheduler,posts")
    deadline = time.monotonic() + PILE_SECONDS
    while harness.query(TO_BE_SENT)[0] < PILE:
        assert time.monotonic() < deadline, "there is nothing to send"
        harness.pause(1.0)
        harness.pass_time(SIX_HOURS)
    harness.pool.kill(pid)
