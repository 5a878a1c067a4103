"""How fast sessions are drained: the worker is up, warm and idle; then all of them are there at once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import Connection

from tools.bench.ingest import store
from tools.bench.ingest.content import SHIFTS, Kind, Shown, shown
from tools.bench.ingest.ground import Ground
from tools.bench.processes import Process, running, wait_until
from tools.bench.report import Figures

WARM_WAVE = 40  # sessions
LOOK_SECONDS = 0.25  # how often we ask whether all is done: when it was, the database tells
MICRO = 1e6
MEGABYTE = 1e6
MOVES = 3  # made, taken, done: what the log tells of each session


@dataclass(frozen=True)
class Waiting:
    """So many sessions, after so many small waves, beside so many days of long ago."""

    sessions: int
    stored: int
    warm_waves: int

    @property
    def warm_sessions(self) -> int:
        """How many come before those that are measured."""
        return self.warm_waves * WARM_WAVE

    def some(self, numbers: range) -> list[Shown]:
        """The sessions of these numbers."""
        return [shown(number, self.stored) for number in numbers]


def measure_drain(ground: Ground, program: str, waiting: Waiting) -> Figures:
    """Let one worker process drain sessions."""
    everything = waiting.warm_sessions + waiting.sessions
    with (
        ground.database(waiting.stored) as dsn,
        psycopg.connect(dsn, autocommit=True) as connection,
        running(program, dsn, str(everything), str(waiting.stored)) as worker,
    ):
        for begin in range(0, waiting.warm_sessions, WARM_WAVE):
            store.add_sessions(connection, waiting.some(range(begin, begin + WARM_WAVE)))
            wait_for(connection, worker, "a warm wave", 0.002)
        sessions = waiting.some(range(waiting.warm_sessions, everything))
        store.vacuum(connection)
        ground.checkpoint()
        worker_cpu = worker.cpu_seconds()
        store.add_sessions(connection, sessions)
        server_cpu = ground.cpu_seconds()
        wait_for(connection, worker, "the last session", LOOK_SECONDS)
        used = {
            "worker_us": (worker.cpu_seconds() - worker_cpu) / waiting.sessions * MICRO,
            "server_us": (ground.cpu_seconds() - server_cpu) / waiting.sessions * MICRO,
            "peak_mb": worker.peak_bytes() / MEGABYTE,
        }
        told = store.get_drain(connection, sessions[0].key)
    check(told, sessions)
    return {"per_second": waiting.sessions / told["seconds"], **used}


def wait_for(connection: Connection[Any], worker: Process, what: str, pause_seconds: float) -> None:
    """Wait until nothing is left."""
    wait_until(lambda: not store.is_something_left(connection), [worker], what, pause_seconds)


def check(told: Mapping[str, Any], sessions: list[Shown]) -> None:
    """Every session is done and logged, and half of them wrote a version, events and a message."""
    new = sum(each.kind is Kind.NEW for each in sessions)
    moved = sum(each.kind is Kind.CHANGED for each in sessions)
    wanted = {
        "sessions": len(sessions),
        "changed": new + moved,
        "versions": new + moved,
        "events": SHIFTS * new + moved,
        "messages": new + moved,
        "transitions": MOVES * len(sessions),
    }
    counted = {name: told[name] for name in wanted}
    if counted != wanted:
        raise RuntimeError(f"not every session was done, logged and written once: {counted}, and not {wanted}")
