"""How fast and how late posts are released that become due while the worker is idle."""

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import psycopg
from psycopg import Connection

from tools.bench.posts import store
from tools.bench.posts.server import PostsServer
from tools.bench.processes import Process, running, wait_until
from tools.bench.report import Figures

WARM_WAVE = 20  # posts
MAX_TRIES = 4
LEAD_SECONDS = 1.5  # to make posts before the first is due,
LEAD_TIMES = 15  # and so many times what it took to make their authors,
LEAD_SECONDS_EACH, LEAD_SECONDS_STORED = 100e-6, 10e-6  # and for each, and for each that is there
LEAST_REST_SECONDS = 0.3  # after that, until it is
POLL_SECONDS = 0.25  # how often we ask whether all is done: when it was, the database tells
MICRO = 1e6
MEGABYTE = 1e6
TRANSITIONS = 3  # made, taken, released: what the log tells of each post


@dataclass(frozen=True)
class Due:
    """Posts that become due within some seconds, beside stored ones."""

    posts: int
    seconds: float = 0.0
    stored: int = 0

    @property
    def lead_seconds(self) -> float:
        """Return how long it takes to build them on an idle machine."""
        return LEAD_SECONDS + LEAD_SECONDS_EACH * self.posts + LEAD_SECONDS_STORED * self.stored


def measure_release(server: PostsServer, program: str, due: Due, warm_waves: int) -> Figures:
    """Measure one worker process; when posts were due before all was ready, begin again with more time."""
    for patience in (2**nth for nth in range(MAX_TRIES)):
        if figures := try_to_measure(server, program, due, warm_waves, patience):
            return figures
        print(f"{due.posts} posts were due before all was ready; again, with more time", file=sys.stderr, flush=True)
    raise TimeoutError(f"{due.posts} posts could not be made before they were due")


def try_to_measure(server: PostsServer, program: str, due: Due, warm_waves: int, patience: int) -> Figures | None:
    """Warm the worker up, build posts, wait; None when they were due too soon."""
    with (
        server.database(due.stored) as dsn,
        psycopg.connect(dsn, autocommit=True) as connection,
        running(program, dsn) as worker,
    ):
        for number in range(warm_waves):
            warm_up(connection, worker, f"warm-{number}-")
        first = make_wait(server, connection, due, patience)
        if first is None:
            return None
        worker_cpu, server_cpu = worker.cpu_seconds(), server.read_cpu()
        wait_for(connection, worker, first, "the last release", POLL_SECONDS)
        used = {
            "worker_us": (worker.cpu_seconds() - worker_cpu) / due.posts * MICRO,
            "server_us": server.cpu_seconds_since(server_cpu) / due.posts * MICRO,
            "peak_mb": worker.peak_bytes() / MEGABYTE,
        }
        text = store.get_release(connection, first)
    check(text, due.posts)
    lags = {name: text[name] for name in ("lag_p50_s", "lag_p95_s", "lag_max_s")}
    rate = {} if due.seconds else {"per_second": due.posts / text["seconds"]}  # where time sets the pace there is none
    return {**rate, **lags, **used}


def warm_up(connection: Connection[Any], worker: Process, prefix: str) -> None:
    """Run a few posts that are due at once."""
    store.add_people(connection, prefix, WARM_WAVE)
    first = store.read_clock(connection)
    store.add_waiting(connection, prefix, WARM_WAVE, first, 0.0)
    wait_for(connection, worker, first, "warming up", 0.005)


def make_wait(server: PostsServer, connection: Connection[Any], due: Due, patience: int) -> datetime | None:
    """Build posts that are due soon; return the first due time just before it, or None when it has passed.

    They are in place as after six hours: written to disk, and counted by the planner.
    """
    began_at = time.monotonic()
    store.add_people(connection, "due-", due.posts)
    store.vacuum(connection)  # or foreign keys are still checked as they were when there were a few people
    lead_seconds = due.lead_seconds + LEAD_TIMES * (time.monotonic() - began_at)
    first = store.read_clock(connection) + timedelta(seconds=patience * lead_seconds)
    store.add_waiting(connection, "due-", due.posts, first, due.seconds)
    store.vacuum(connection)
    server.checkpoint()
    rest_seconds = (first - store.read_clock(connection)).total_seconds()
    if rest_seconds < LEAST_REST_SECONDS:
        return None
    time.sleep(rest_seconds - LEAST_REST_SECONDS / 2)
    return first


def wait_for(connection: Connection[Any], worker: Process, first: datetime, what: str, pause_seconds: float) -> None:
    """Wait until everything due from a time on is released."""
    wait_until(lambda: not store.has_unfinished(connection, first), [worker], what, pause_seconds)


def check(text: Mapping[str, Any], posts: int) -> None:
    """Check that every post was released, analysed, announced and logged once."""
    counted = {name: text[name] for name in ("posts", "readings", "notices", "transitions")}
    if counted != {"posts": posts, "readings": posts, "notices": posts, "transitions": TRANSITIONS * posts}:
        raise RuntimeError(f"of {posts} posts not every one was released, read, notified and logged once: {counted}")
