"""The faults: each a function that does one thing to a world, and leaves it alive.

A fault is what may happen any day: something dies, stops, is cut off, answers late or not at all. What is done with
which numbers is drawn beforehand (`Fault.draw`), from luck that depends on the seed, the fault's place in the episode
and its name alone: a run with the same seed does the same again, whatever the world did meanwhile. Which of those alive
it meets is drawn from the same luck when it happens.
"""

import ctypes.util
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from duly.db.migrate import migrate
from duly.db.migrations import Names
from tests.proof.faults.crash_sites import ONCE, CrashSite, die_at, rounds
from tests.proof.faults.harness import SIX_HOURS, Harness, random_for
from tests.proof.faults.people import AUTHORS
from tests.proof.faults.workers import LEASE_SECONDS
from tests.support.outbox.receiver import Answer, Posted
from tests.support.postmaster import postmaster_of
from tests.support.processes import has_ended, wait_until_ended

PAST_THE_LEASE = LEASE_SECONDS + 0.8
SPRUNG_SECONDS = 10.0
NOTICED_SECONDS = 1.5  # by then a stalled worker has tried to write, or has renewed
LISTENER = "duly listener"
LISTENING_SECONDS = 5.0
CONNECTED = """
select pid, application_name
from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid()
order by pid
"""
HANG_SECONDS = 2.5  # a sender waits for one
WIRES = ("workers", "clients")


@dataclass(frozen=True)
class Fault:
    """What is done, and what it draws before."""

    do: Callable[..., object]
    draw: Callable[[random.Random], Mapping[str, Any]] = lambda _: {}

    @property
    def about(self) -> str:
        """In words."""
        return self.do.__doc__ or ""


FAKETIME = ("faketime/libfaketimeMT.so.1", "libfaketimeMT.so.1")


# Workers --------------------------------------------------------------------------------------------------------------


def kill_workers(harness: Harness, several: int = 5) -> None:
    """kill -9 of workers, whichever and whenever; others come in their place."""
    for _ in range(several):
        harness.kill(*harness.any_running())
        harness.start_worker()
        harness.pause(harness.chance.uniform(0.0, 0.1))


def die_at_crash_points(harness: Harness, sites: Mapping[CrashSite, int]) -> set[CrashSite]:
    """Workers of one work type each, alone, die at the n-th pass of a crash point of this type."""
    harness.stop_workers()
    met = die_at(harness, sites, SPRUNG_SECONDS)
    harness.counts["crash points armed"] += len(sites)
    harness.counts["crash points met"] += len(met)
    for site in sites:
        harness.counts[f"armed: {site.point} of {site.work}"] += 1
        harness.counts[f"met: {site.point} of {site.work}"] += site in met
    return met


def draw_sites(chance: random.Random) -> Mapping[str, Any]:
    """Some places, and the pass at which each is deadly; some are passed once only."""
    sites = chance.sample(next(rounds(chance)), 4)
    return {"sites": {site: 1 if site.operation in ONCE else chance.randint(1, 2) for site in sites}}


def stop_past_the_lease(harness: Harness, several: int = 3) -> None:
    """SIGSTOP until others have taken over, then SIGCONT: the stalled workers write, and are refused."""
    chosen = harness.chance.sample(running := harness.running(), min(several, len(running)))
    for _, pid in chosen:
        os.kill(pid, signal.SIGSTOP)
    for _ in chosen:
        harness.start_worker()
    harness.pause(PAST_THE_LEASE)
    stalled = {pid for _, pid in chosen}
    before = len(lost := [loss for loss in harness.losses() if loss.pid in stalled])
    for pid in stalled:
        os.kill(pid, signal.SIGCONT)
    deadline = time.monotonic() + NOTICED_SECONDS
    while time.monotonic() < deadline and {loss.pid for loss in lost[before:]} != stalled:
        harness.pause(0.05)
        lost = [loss for loss in harness.losses() if loss.pid in stalled]
    for pool, pid in chosen:
        pool.kill(pid)
    harness.counts["workers stopped past their lease"] += len(chosen)
    harness.counts["refused writes of stalled workers"] += sum(loss.is_refusal for loss in lost[before:])
    harness.counts["losses that stalled workers noticed"] += sum(not loss.is_refusal for loss in lost[before:])


def terminate_workers(harness: Harness) -> None:
    """SIGTERM to every worker, at once again to some, and SIGKILL to those that stay."""
    terminated = harness.running()
    for _, pid in terminated:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    harness.fill_up_beside(terminated)
    for _, pid in terminated:
        if harness.chance.random() < 0.4:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline and not all(has_ended(pid) for _, pid in terminated):
        harness.pause(0.05)
    for pool, pid in terminated:
        pool.kill(pid)
    harness.counts["workers asked to stop"] += len(terminated)


# The server -----------------------------------------------------------------------------------------------------------


def kill_postmaster(harness: Harness) -> None:
    """kill -9 of the server's first process; its supervisor starts it again."""
    pid = postmaster_of(harness.server.plan.home)
    os.kill(pid, signal.SIGKILL)
    wait_until_ended(pid)
    harness.server.ensure()
    harness.counts["postmaster kills"] += 1


def stop_server_at_once(harness: Harness) -> None:
    """What `pg_ctl stop -m immediate` does: no checkpoint, no goodbye."""
    pid = postmaster_of(harness.server.plan.home)
    os.kill(pid, signal.SIGQUIT)
    wait_until_ended(pid)
    harness.server.ensure()
    harness.counts["immediate stops"] += 1


def end_backends(harness: Harness) -> None:
    """pg_terminate_backend of some connections, the listener's among them."""
    deadline = time.monotonic() + (0.0 if harness.shape.through_pooler else LISTENING_SECONDS)
    connected = dict(harness.query(CONNECTED))
    while LISTENER not in connected.values() and time.monotonic() < deadline:  # its worker was born a moment ago
        harness.pause(0.05)
        connected = dict(harness.query(CONNECTED))
    chosen = [pid for pid, name in connected.items() if name == LISTENER or harness.chance.random() < 0.3]
    ended = harness.query("select pid from unnest(%s::integer[]) as pid where pg_terminate_backend(pid)", chosen)
    harness.counts["backends ended"] += len(ended)
    harness.counts["listeners ended"] += sum(connected[pid] == LISTENER for pid in ended)


def hold_a_snapshot(harness: Harness) -> Callable[[], int | None]:
    """A transaction that sees the world of before, for as long as this world lives; what asks how old its sight is."""
    connection = psycopg.connect(harness.dsn)
    connection.execute("set transaction isolation level repeatable read")
    connection.execute("select count(*) from ledger.job")
    harness.hold_connection(connection)
    pid = connection.info.backend_pid
    return lambda: next(
        iter(harness.query("select backend_xmin::text::bigint from pg_stat_activity where pid = %s", pid)), None
    )


def let_the_clock_jump(harness: Harness) -> None:
    """Move the clock by six hours: every lease expires while it is held, and every post is due."""
    harness.pass_time(SIX_HOURS + 60)
    harness.counts["clock jumps"] += 1


# The wires ------------------------------------------------------------------------------------------------------------


def cut_commits(harness: Harness, several: int = 10) -> None:
    """The answer to a commit of something written is lost with its connection: mostly a client's, or a worker's."""
    wires = [harness.wire if nth % 10 in (2, 5, 8) else harness.client_wire for nth in range(several)]
    for wire in wires:
        wire.cut_after_write()
        deadline = time.monotonic() + SPRUNG_SECONDS
        while wire.trap is not None and time.monotonic() < deadline:
            harness.pause(0.01)
        of = "clients" if wire is harness.client_wire else "workers"
        harness.counts[f"commits of {of} whose answer was lost"] += wire.trap is None
        wire.trap = None


def cut_wires(harness: Harness) -> None:
    """Every connection ends in whatever state it is."""
    harness.wire.cut()
    harness.client_wire.cut()
    harness.counts["wires cut"] += 1


def go_half_open(harness: Harness, wire_name: str = "workers") -> None:
    """Nothing arrives and no connection closes for longer than a lease: for workers, or for clients."""
    wire = harness.wire if wire_name == "workers" else harness.client_wire
    wire.freeze()
    harness.pause(PAST_THE_LEASE)
    wire.resume()
    harness.counts[f"half-open connections of {wire_name}"] += 1


def lose_answers(harness: Harness) -> None:
    """Requests arrive and answers do not, for a while."""
    harness.wire.drop_answers()
    harness.pause(1.0)
    harness.wire.resume()
    harness.counts["answers lost for a while"] += 1


# The receiver ---------------------------------------------------------------------------------------------------------


def fail_at_the_receiver(harness: Harness) -> None:
    """It answers 500 and 429, hangs, or hangs up after it took the message."""
    chance = random_for(harness.chance.random())  # its own: the number of draws cannot be foreseen
    drawn: list[str] = []

    def answer(_: Posted) -> Answer | None:
        how = chance.choices(["500", "429", "cut", "hang", "well"], weights=[25, 20, 15, 10, 30])[0]
        drawn.append(how)
        match how:
            case "500":
                return Answer(500)
            case "429":
                return Answer(429, headers=(("retry-after", "1"),))
            case "cut":
                return None
            case "hang":
                threading.Event().wait(HANG_SECONDS)
            case _:
                pass
        return Answer()

    harness.receiver.answer = answer
    harness.pause(3.0)
    harness.receiver.answer = lambda _: Answer()
    harness.counts["receiver troubles"] += 1
    harness.counts.update(f"receiver: {how}" for how in drawn)


# Clients --------------------------------------------------------------------------------------------------------------


def kill_a_client(harness: Harness, nth: int = 0) -> None:
    """kill -9 of a client."""
    harness.kill_client(nth)
    harness.start_clients()


def storm_of_answers(harness: Harness, runs: int = 6, taps: int = 8) -> None:
    """Many fingers of several processes on the same runs at once."""
    harness.counts["taps in storms"] += tap_concurrently(harness, runs, taps)
    harness.counts["storms of answers"] += 1


def tap_concurrently(harness: Harness, runs: int = 6, taps: int = 8) -> int:
    """The same, be it a fault or not; how often they did."""
    harness.pass_time(SIX_HOURS)  # there is something to answer
    return sum(harness.storm("answers", runs, taps))


def storm_of_intents(harness: Harness, first: int = 0, authors: int = 4, requests: int = 8) -> None:
    """Many requests of several processes for the same posts at once."""
    harness.counts["requests in storms"] += sum(harness.storm("intents", first, authors, requests))
    harness.counts["storms of intents"] += 1


# The schema -----------------------------------------------------------------------------------------------------------


def apply_functions_again(harness: Harness) -> None:
    """Every function, guard, policy and grant is applied again while workers work, as by an upgrade."""
    harness.query("delete from duly.schema_object")
    migrate(harness.dsn, Names(), report=lambda _: None)
    harness.counts["migrations under load"] += 1


def find_faketime() -> Path | None:
    """The library that gives a process another clock, where a distribution puts it."""
    for directory in Path("/usr/lib").glob("*-linux-gnu"):
        for name in FAKETIME:
            if (directory / name).exists():
                return directory / name
    found = ctypes.util.find_library("faketimeMT")
    return Path(found) if found else None


FAULTS: Mapping[str, Fault] = {
    "kill workers": Fault(kill_workers, lambda chance: {"several": chance.randint(4, 7)}),
    "die at crash points": Fault(die_at_crash_points, draw_sites),
    "stop past the lease": Fault(stop_past_the_lease, lambda chance: {"several": chance.randint(2, 4)}),
    "tell workers to go": Fault(terminate_workers),
    "kill the postmaster": Fault(kill_postmaster),
    "stop the server at once": Fault(stop_server_at_once),
    "end backends": Fault(end_backends),
    "let the clock jump": Fault(let_the_clock_jump),
    "lose answers to commits": Fault(cut_commits, lambda chance: {"several": chance.randint(8, 12)}),
    "cut every wire": Fault(cut_wires),
    "go half-open": Fault(go_half_open, lambda chance: {"wire_name": chance.choice(WIRES)}),
    "lose answers for a while": Fault(lose_answers),
    "trouble at the receiver": Fault(fail_at_the_receiver),
    "kill a client": Fault(kill_a_client, lambda chance: {"nth": chance.randrange(8)}),
    "storm of answers": Fault(
        storm_of_answers, lambda chance: {"runs": chance.randint(3, 8), "taps": chance.randint(4, 10)}
    ),
    "storm of intents": Fault(
        storm_of_intents,
        lambda chance: {
            "first": chance.randrange(len(AUTHORS)),
            "authors": chance.randint(2, 5),
            "requests": chance.randint(4, 10),
        },
    ),
    "apply functions again": Fault(apply_functions_again),
}
