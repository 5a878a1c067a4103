"""The faults: each a function that does one thing to a world, and leaves it alive.

A fault is what may happen any day: something dies, stops, is cut off, answers late or not at all. The order and the
numbers are drawn from the world's seed, so that a run with the same seed does the same again.
"""

import ctypes.util
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import psycopg

from duly.db.migrate import migrate, scripts
from duly.db.migrations import Names
from duly.kernel.crashpoint import CRASHPOINTS
from tests.delivery.receiver import Answer, Posted
from tests.faults.workers import LEASE_SECONDS
from tests.faults.world import SIX_HOURS, World
from tests.support.postmaster import postmaster_of
from tests.support.processes import is_gone, wait_gone

__all__ = ["FAULTS", "Fault", "cut_commits", "find_faketime", "kill_postmaster", "kill_workers", "stop_past_the_lease"]

Fault = Callable[[World], None]
PAST_THE_LEASE = LEASE_SECONDS + 0.8
SPRUNG_SECONDS = 10.0
FAKETIME = ("faketime/libfaketimeMT.so.1", "libfaketimeMT.so.1")


# Workers --------------------------------------------------------------------------------------------------------------


def kill_workers(world: World, several: int = 5) -> None:
    """kill -9 of workers, whichever and whenever; others come in their place."""
    for _ in range(several):
        world.kill(*world.chance.choice(world.alive() or [world.born()]))
        world.bear()
        world.pause(world.chance.uniform(0.0, 0.1))


def die_at_crash_points(world: World) -> None:
    """Workers that die at a named point, at its n-th pass."""
    born = [
        world.bear(f"crash={world.chance.choice(sorted(CRASHPOINTS))}:{world.chance.randint(1, 4)}") for _ in range(3)
    ]
    deadline = time.monotonic() + SPRUNG_SECONDS
    while time.monotonic() < deadline and not all(map(is_gone, born)):
        world.pause(0.05)
    world.counts["crash points met"] += sum(map(is_gone, born))
    for nursery, pid in world.alive():
        if pid in born:
            nursery.end(pid)


def stop_past_the_lease(world: World, several: int = 3) -> None:
    """SIGSTOP until others have taken over, then SIGCONT: the zombies write, and are refused."""
    chosen = world.chance.sample(world.alive(), min(several, len(world.alive())))
    for _, pid in chosen:
        os.kill(pid, signal.SIGSTOP)
    for _ in chosen:
        world.bear()
    world.pause(PAST_THE_LEASE)
    for _, pid in chosen:
        os.kill(pid, signal.SIGCONT)
    world.counts["workers stopped past their lease"] += len(chosen)
    world.pause(0.3)
    for nursery, pid in chosen:
        if not is_gone(pid):
            nursery.end(pid)


def tell_workers_to_go(world: World) -> None:
    """SIGTERM to everybody, again to some who have hardly heard it, and SIGKILL to who stays."""
    gone = world.alive()
    for _, pid in gone:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    world.fill_up_beside(gone)
    for _, pid in gone:
        if world.chance.random() < 0.4:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline and not all(is_gone(pid) for _, pid in gone):
        world.pause(0.05)
    for nursery, pid in gone:
        nursery.end(pid)
    world.counts["workers told to go"] += len(gone)


# The server -----------------------------------------------------------------------------------------------------------


def kill_postmaster(world: World) -> None:
    """kill -9 of the server's first process; its supervisor starts it again."""
    pid = postmaster_of(world.server.plan.home)
    os.kill(pid, signal.SIGKILL)
    wait_gone(pid)
    world.server.ensure()
    world.counts["postmaster kills"] += 1


def stop_server_at_once(world: World) -> None:
    """What `pg_ctl stop -m immediate` does: no checkpoint, no goodbye."""
    pid = postmaster_of(world.server.plan.home)
    os.kill(pid, signal.SIGQUIT)
    wait_gone(pid)
    world.server.ensure()
    world.counts["immediate stops"] += 1


def end_backends(world: World) -> None:
    """pg_terminate_backend of some connections, the listener's among them."""
    ended = world.ask(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()"
        " and pid <> pg_backend_pid() and (application_name = %s or random() < 0.3)",
        "duly listener",
    )
    world.counts["backends ended"] += len(ended)


def hold_a_snapshot(world: World) -> None:
    """A transaction that sees the world of before, for as long as this world lives."""
    connection = psycopg.connect(world.dsn)
    connection.execute("set transaction isolation level repeatable read")
    connection.execute("select count(*) from ledger.job")
    world.keep(connection)
    world.counts["snapshots held"] += 1


def let_the_clock_jump(world: World) -> None:
    """Six hours pass in a moment: every lease lapses in its holder's hands, and every post is due."""
    world.pass_time(SIX_HOURS + 60)


# The wires ------------------------------------------------------------------------------------------------------------


def cut_commits(world: World, several: int = 10) -> None:
    """The answer to a COMMIT is lost with its connection: of a client, or of a worker."""
    for _ in range(several):
        wire = world.chance.choice([world.client_wire, world.client_wire, world.wire])
        wire.cut_after(b"COMMIT")
        deadline = time.monotonic() + SPRUNG_SECONDS
        while wire.trap is not None and time.monotonic() < deadline:
            world.pause(0.01)
        world.counts["commits whose answer was lost"] += wire.trap is None


def cut_wires(world: World) -> None:
    """Every connection ends in whatever state it is."""
    world.wire.cut()
    world.client_wire.cut()
    world.counts["wires cut"] += 1


def go_half_open(world: World) -> None:
    """Nothing arrives and nobody hangs up, for longer than a lease."""
    world.wire.freeze()
    world.pause(PAST_THE_LEASE)
    world.wire.resume()
    world.counts["half-open connections"] += 1


def lose_answers(world: World) -> None:
    """Requests arrive and answers do not, for a while."""
    world.wire.drop_answers()
    world.pause(1.0)
    world.wire.resume()
    world.counts["answers lost for a while"] += 1


# The receiver ---------------------------------------------------------------------------------------------------------


def trouble_at_the_receiver(world: World) -> None:
    """It answers 500 and 429, hangs, or hangs up after it took the message."""
    chance = world.chance

    def answer(_: Posted) -> Answer | None:
        drawn = chance.random()
        if drawn < 0.25:
            return Answer(500)
        if drawn < 0.45:
            return Answer(429, headers=(("retry-after", "1"),))
        if drawn < 0.6:
            return None  # it hangs up, and has the message
        if drawn < 0.7:
            threading.Event().wait(2.5)
        return Answer()

    world.receiver.answer = answer
    world.pause(3.0)
    world.receiver.answer = lambda _: Answer()
    world.counts["receiver troubles"] += 1


# Clients --------------------------------------------------------------------------------------------------------------


def kill_a_client(world: World) -> None:
    """kill -9 of somebody who asks."""
    world.kill_client()
    world.start_clients()


# The schema -----------------------------------------------------------------------------------------------------------


def migrate_down_and_up(world: World) -> None:
    """The newest migration is undone and done again while everybody works."""
    newest, before = [script.revision for script in scripts().walk_revisions()][:2]
    migrate(world.dsn, Names(), to=before, report=lambda _: None)
    world.pause(0.5)
    migrate(world.dsn, Names(), to=newest, report=lambda _: None)
    world.give_webhooks()
    world.forget_logs()
    world.counts["migrations under load"] += 2


def find_faketime() -> Path | None:
    """The library that gives a process another clock, where a distribution puts it."""
    for directory in Path("/usr/lib").glob("*-linux-gnu"):
        for name in FAKETIME:
            if (directory / name).exists():
                return directory / name
    found = ctypes.util.find_library("faketimeMT")
    return Path(found) if found else None


FAULTS: Mapping[str, Fault] = {
    "kill workers": kill_workers,
    "die at crash points": die_at_crash_points,
    "stop past the lease": stop_past_the_lease,
    "tell workers to go": tell_workers_to_go,
    "kill the postmaster": kill_postmaster,
    "stop the server at once": stop_server_at_once,
    "end backends": end_backends,
    "let the clock jump": let_the_clock_jump,
    "lose answers to commits": cut_commits,
    "cut every wire": cut_wires,
    "go half-open": go_half_open,
    "lose answers for a while": lose_answers,
    "trouble at the receiver": trouble_at_the_receiver,
    "kill a client": kill_a_client,
    "hold a snapshot": hold_a_snapshot,
    "migrate down and up": migrate_down_and_up,
}
