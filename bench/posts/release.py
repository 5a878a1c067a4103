"""How fast posts are released, and how late: they wait, the worker is idle, and time passes."""

import sys
import time
from datetime import datetime, timedelta
from typing import Any

import psycopg
from psycopg import Connection

from bench.posts import store
from bench.posts.ground import Ground
from bench.processes import Process, running, wait_until
from bench.report import Figures

__all__ = ["measure_release"]

WARM_WAVE = 20  # posts
LEAD_SECONDS = 1.5  # to make posts before the first is due,
LEAD_TIMES = 10  # and so many times what it took to make their authors,
LEAD_SECONDS_STORED = 10e-6  # and for each post that is there
LEAST_REST_SECONDS = 0.3  # after that, until it is
LOOK_SECONDS = 0.25  # how often we ask whether all is done: when it was, the database tells
MICRO = 1e6
MEGABYTE = 1e6
MOVES = 3  # made, taken, released: what the log tells of each post


def measure_release(
    ground: Ground, program: str, *, posts: int, seconds: float, warm_waves: int, stored: int = 0
) -> Figures:
    """Let one worker process release posts that become due within so many seconds, beside so many of long ago."""
    with (
        ground.database(stored) as dsn,
        psycopg.connect(dsn, autocommit=True) as connection,
        running(program, dsn) as worker,
    ):
        for number in range(warm_waves):
            warm_up(connection, worker, f"warm-{number}-")
        first = make_wait(ground, connection, worker, posts, seconds, LEAD_SECONDS + LEAD_SECONDS_STORED * stored)
        worker_cpu, server_cpu = worker.cpu_seconds(), ground.cpu_seconds()
        wait_for(connection, worker, first, "the last release", LOOK_SECONDS)
        used = {
            "worker_us": (worker.cpu_seconds() - worker_cpu) / posts * MICRO,
            "server_us": (ground.cpu_seconds() - server_cpu) / posts * MICRO,
            "peak_mb": worker.peak_bytes() / MEGABYTE,
        }
        told = store.get_release(connection, first)
    counted = {name: told[name] for name in ("posts", "readings", "notices", "transitions")}
    if counted != {"posts": posts, "readings": posts, "notices": posts, "transitions": MOVES * posts}:
        raise RuntimeError(f"of {posts} posts not every one was released, read, told of and logged once: {counted}")
    lags = {name: told[name] for name in ("lag_p50_s", "lag_p95_s", "lag_max_s")}
    rate = {} if seconds else {"per_second": posts / told["seconds"]}  # where time sets the pace there is none
    return {**rate, **lags, **used}


def warm_up(connection: Connection[Any], worker: Process, prefix: str) -> None:
    """A few posts that are due at once, until they are released."""
    store.add_people(connection, prefix, WARM_WAVE)
    first = store.read_clock(connection)
    store.add_waiting(connection, prefix, WARM_WAVE, first, 0.0)
    wait_for(connection, worker, first, "warming up", 0.005)


def make_wait(
    ground: Ground, connection: Connection[Any], worker: Process, posts: int, seconds: float, lead: float
) -> datetime:
    """Make posts that are due soon, and return just before the first is: when that will be.

    They are in place as after six hours: written to disk, counted by the planner. If that took too long, it was only
    practice: they are released, and others are made with more time.
    """
    for attempt in range(4):
        prefix, began_at = f"due-{attempt}-", time.monotonic()
        store.add_people(connection, prefix, posts)
        lead += LEAD_TIMES * (time.monotonic() - began_at)
        first = store.read_clock(connection) + timedelta(seconds=lead)
        store.add_waiting(connection, prefix, posts, first, seconds)
        store.vacuum(connection)
        ground.checkpoint()
        rest = (first - store.read_clock(connection)).total_seconds()
        if rest > LEAST_REST_SECONDS:
            time.sleep(rest - LEAST_REST_SECONDS / 2)
            return first
        print(f"{posts} posts were not made within {lead:.0f} s: again, with more time", file=sys.stderr, flush=True)
        wait_for(connection, worker, first, "posts that were due too soon", LOOK_SECONDS)
        lead *= 2
    raise TimeoutError(f"{posts} posts could not be made before they were due")


def wait_for(connection: Connection[Any], worker: Process, first: datetime, what: str, pause_seconds: float) -> None:
    """Wait until everything that was due from a time on is released."""
    wait_until(lambda: not store.is_something_left(connection, first), [worker], what, pause_seconds)
