"""How fast an idle, warm worker drains sessions that are all there at once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import Connection

from tools.bench.ingest import store
from tools.bench.ingest.content import SHIFTS, Kind, Shown, shown
from tools.bench.ingest.server import IngestServer
from tools.bench.processes import Process, running, wait_until
from tools.bench.report import Figures

WARM_WAVE = 40  # sessions
POLL_SECONDS = 0.25  # how often we ask whether all is done: when it was, the database tells
MICRO = 1e6
MEGABYTE = 1e6
TRANSITIONS = 3  # made, taken, done: what the log tells of each session


@dataclass(frozen=True)
class Waiting:
    """The sessions of a drain, its warm-up, and the stored days beside them."""

    sessions: int
    stored: int
    warm_waves: int

    @property
    def warm_sessions(self) -> int:
        """Return how many sessions warm the worker up."""
        return self.warm_waves * WARM_WAVE

    def some(self, numbers: range) -> list[Shown]:
        """Build the sessions of these numbers."""
        return [shown(number, self.stored) for number in numbers]


def measure_drain(server: IngestServer, program: str, waiting: Waiting) -> Figures:
    """Measure one worker process that drains sessions."""
    everything = waiting.warm_sessions + waiting.sessions
    with (
        server.database(waiting.stored) as dsn,
        psycopg.connect(dsn, autocommit=True) as connection,
        running(program, dsn, str(everything), str(waiting.stored)) as worker,
    ):
        for begin in range(0, waiting.warm_sessions, WARM_WAVE):
            store.add_sessions(connection, waiting.some(range(begin, begin + WARM_WAVE)))
            wait_for(connection, worker, "a warm wave", 0.002)
        sessions = waiting.some(range(waiting.warm_sessions, everything))
        store.vacuum(connection)
        server.checkpoint()
        worker_cpu = worker.cpu_seconds()
        store.add_sessions(connection, sessions)
        server_cpu = server.read_cpu()
        wait_for(connection, worker, "the last session", POLL_SECONDS)
        used = {
            "worker_us": (worker.cpu_seconds() - worker_cpu) / waiting.sessions * MICRO,
            "server_us": server.cpu_seconds_since(server_cpu) / waiting.sessions * MICRO,
            "peak_mb": worker.peak_bytes() / MEGABYTE,
        }
        text = store.get_drain(connection, sessions[0].key)
    check(text, sessions)
    return {"per_second": waiting.sessions / text["seconds"], **used}


def wait_for(connection: Connection[Any], worker: Process, what: str, pause_seconds: float) -> None:
    """Wait until no session is unfinished."""
    wait_until(lambda: not store.has_unfinished(connection), [worker], what, pause_seconds)


def check(text: Mapping[str, Any], sessions: list[Shown]) -> None:
    """Check that every session is done and logged, and that half of them wrote a version, events and a message."""
    new = sum(each.kind is Kind.NEW for each in sessions)
    moved = sum(each.kind is Kind.CHANGED for each in sessions)
    wanted = {
        "sessions": len(sessions),
        "changed": new + moved,
        "versions": new + moved,
        "events": SHIFTS * new + moved,
        "messages": new + moved,
        "transitions": TRANSITIONS * len(sessions),
    }
    counted = {name: text[name] for name in wanted}
    if counted != wanted:
        raise RuntimeError(f"not every session was done, logged and written once: {counted}, and not {wanted}")
