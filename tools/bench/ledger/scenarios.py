"""What is measured: a scenario prepares, lets one side do one thing, and returns figures; it knows of no rounds."""

import asyncio
import random
import statistics
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import uvloop

from tools.bench.ledger.ground import Ground, asking_what_is_left
from tools.bench.ledger.processes import WorkerProcess, start_workers
from tools.bench.ledger.side import BATCH, NAMES, OURS, UNCOUNTED, Client, Side
from tools.bench.processes import wait_until
from tools.bench.report import Figures

WARM_WAVE = 20  # jobs
MOST_WAVES = 50
REST_SECONDS = 0.3  # after warming up: what was buffered is flushed, what was awake rests
MICRO = 1e6
MEGABYTE = 1e6
SEED = 20_000


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    jobs: int = 20_000  # drained, or enqueued in batches
    few_jobs: int = 2_000  # instead, where a side is slow: a rate is a rate
    singles: int = 2_000  # enqueued one by one, by each number of clients; four times as many by sixteen
    pickups: int = 2_000  # enqueued one by one for an idle worker
    least_gap_ms: float = 5.0  # between two of these
    max_gap_ms: float = 25.0
    rows: int = 1_000_000  # that stand in the table and are none of the worker's business
    snapshot_jobs: int = 300_000  # drained while a snapshot is held
    warm_waves: int = 30  # a few jobs each, before anything is measured: statements are prepared after a dozen

    def jobs_for(self, side: Side) -> int:
        """How many jobs this side is given to drain or to enqueue."""
        return min(self.jobs, self.few_jobs) if side.name == "procrastinate" else self.jobs


@dataclass(frozen=True)
class Scenario:
    """One thing to measure, and what its main figure is called."""

    name: str
    what: str
    measure: Callable[[Ground, Side, Sizes], Figures]
    sides: Sequence[str] = NAMES
    figure: str = "per_second"


# Draining -------------------------------------------------------------------------------------------------------------


def drain(ground: Ground, side: Side, sizes: Sizes, *, processes: int) -> Figures:
    """Jobs that do nothing, from an otherwise empty table."""
    with ground.fresh_database(side) as dsn:
        return drain_on(ground, dsn, side, sizes, sizes.jobs_for(side), processes)


def drain_beside(ground: Ground, side: Side, sizes: Sizes, *, content: str) -> Figures:
    """The same, from a table that is full of other rows."""
    dsn = ground.standing_database(content, sizes.rows)
    return drain_on(ground, dsn, side, sizes, sizes.jobs_for(side), 1)


def drain_under_snapshot(ground: Ground, side: Side, sizes: Sizes) -> Figures:
    """The same, while nothing that dies can be cleared away."""
    with ground.fresh_database(side) as dsn, ground.old_snapshot(dsn):
        return drain_on(ground, dsn, side, sizes, sizes.snapshot_jobs, 1)


def drain_on(ground: Ground, dsn: str, side: Side, sizes: Sizes, jobs: int, processes: int) -> Figures:
    """Workers are warm and idle; the clock runs from the commit that shows them the jobs until all are settled."""
    with start_workers(side.name, dsn, processes, 0) as workers, asking_what_is_left(dsn, side) as is_something_left:
        with_client(side, dsn, partial(warm_up, workers, sizes.warm_waves))
        wait_until(lambda: not is_something_left(), workers, "warming up")
        time.sleep(REST_SECONDS)
        ground.checkpoint()
        begun = begun_by(workers)
        worker_cpu = sum(worker.cpu_seconds() for worker in workers)
        with_client(side, dsn, lambda client: client.all_at_once(jobs))
        began_at, server_cpu = time.monotonic(), ground.cpu_seconds()
        wait_until(lambda: begun_by(workers) - begun >= jobs, workers, "the last job")
        handled_at = time.monotonic()
        wait_until(lambda: not is_something_left(), workers, "the last settle")
        seconds = time.monotonic() - began_at
        return {
            "per_second": jobs / seconds,
            "handled_per_second": jobs / (handled_at - began_at),
            "worker_us": (sum(worker.cpu_seconds() for worker in workers) - worker_cpu) / jobs * MICRO,
            "server_us": (ground.cpu_seconds() - server_cpu) / jobs * MICRO,
            "peak_mb": max(worker.peak_bytes() for worker in workers) / MEGABYTE,
        }


async def warm_up(workers: Sequence[WorkerProcess], waves: int, client: Client) -> None:
    """Small waves until statements are prepared, then, where there are several workers, large ones until all are up."""
    for _ in range(waves):
        await wave(workers, client, WARM_WAVE)
    for _ in range(MOST_WAVES):
        if all(worker.board.begun for worker in workers):
            return
        await wave(workers, client, 4 * BATCH)
    raise TimeoutError("a worker has not begun anything while the others did it all")


async def wave(workers: Sequence[WorkerProcess], client: Client, jobs: int) -> None:
    """Some jobs, until all have begun."""
    begun = begun_by(workers)
    await client.all_at_once(jobs)
    await asyncio.to_thread(wait_until, lambda: begun_by(workers) - begun >= jobs, workers, "warming up")


def begun_by(workers: Sequence[WorkerProcess]) -> int:
    """How many handlers have begun, in all of them together."""
    return sum(worker.board.begun for worker in workers)


# Enqueueing -----------------------------------------------------------------------------------------------------------


def enqueue_in_bulk(ground: Ground, side: Side, sizes: Sizes) -> Figures:
    """Batches of a thousand, each a commit, from one client; nobody works."""
    jobs = sizes.jobs_for(side)

    async def enqueue(client: Client) -> Figures:
        for _ in range(sizes.warm_waves):
            await client.many([UNCOUNTED] * WARM_WAVE)
        return await measured(ground, jobs, [send(client)])

    async def send(client: Client) -> None:
        for begin in range(0, jobs, BATCH):
            await client.many([UNCOUNTED] * min(BATCH, jobs - begin))

    with ground.fresh_database(side) as dsn:
        return with_client(side, dsn, enqueue)


def enqueue_singly(ground: Ground, side: Side, sizes: Sizes, *, clients: int) -> Figures:
    """One job, one commit, from so many clients at once; nobody works."""
    each = sizes.singles if clients == 1 else max(1, 4 * sizes.singles // clients)

    async def send(client: Client, jobs: int) -> None:
        for _ in range(jobs):
            await client.one(UNCOUNTED)

    async def enqueue(dsn: str) -> Figures:
        async with AsyncExitStack() as stack:
            several = [await stack.enter_async_context(side.client(dsn)) for _ in range(clients)]
            await asyncio.gather(*(send(client, sizes.warm_waves) for client in several))
            return await measured(ground, clients * each, [send(client, each) for client in several])

    with ground.fresh_database(side) as dsn:
        return run(enqueue(dsn))


async def measured(ground: Ground, jobs: int, senders: Sequence[Coroutine[Any, Any, None]]) -> Figures:
    """Let these send, all at once."""
    ground.checkpoint()
    server_cpu, client_cpu, began_at = ground.cpu_seconds(), time.process_time(), time.monotonic()
    await asyncio.gather(*senders)
    seconds = time.monotonic() - began_at
    return {
        "per_second": jobs / seconds,
        "client_us": (time.process_time() - client_cpu) / jobs * MICRO,
        "server_us": (ground.cpu_seconds() - server_cpu) / jobs * MICRO,
    }


# Being picked up ------------------------------------------------------------------------------------------------------


def pick_up(ground: Ground, side: Side, sizes: Sizes) -> Figures:
    """One job now and then for an idle worker: from the answer to the commit until the handler begins."""
    gaps = random.Random(SEED)  # noqa: S311 (the same gaps for every side)
    sent_at: list[float] = []

    async def send(client: Client) -> None:
        for number in range(sizes.pickups):
            await client.one(number)
            sent_at.append(time.monotonic())
            await asyncio.sleep(gaps.uniform(sizes.least_gap_ms, sizes.max_gap_ms) / 1000)

    with (
        ground.fresh_database(side) as dsn,
        start_workers(side.name, dsn, 1, sizes.pickups) as workers,
    ):
        (worker,) = workers
        with_client(side, dsn, partial(warm_up, workers, sizes.warm_waves))
        time.sleep(REST_SECONDS)
        ground.checkpoint()
        begun = worker.board.begun
        with_client(side, dsn, send)
        wait_until(lambda: worker.board.begun - begun >= sizes.pickups, workers, "the last job")
        waits = [begin - sent for begin, sent in zip(worker.board.times, sent_at, strict=True)]
    cuts = statistics.quantiles(waits, n=100, method="inclusive")
    return {name: cuts[percent - 1] * 1000 for name, percent in (("p50_ms", 50), ("p95_ms", 95), ("p99_ms", 99))}


def with_client(side: Side, dsn: str, act: Callable[[Client], Coroutine[Any, Any, Any]]) -> Any:
    """Connect, do something, disconnect."""

    async def connected() -> Any:
        async with side.client(dsn) as client:
            return await act(client)

    return run(connected())


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """On uvloop, as every worker of every side."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(coroutine)


SCENARIOS = {
    each.name: each
    for each in (
        Scenario("drain", "drain, one worker process", partial(drain, processes=1)),
        Scenario("drain2", "drain, two worker processes", partial(drain, processes=2)),
        Scenario("bulk", "enqueue in batches of 1000", enqueue_in_bulk),
        Scenario("single", "enqueue one by one, 1 client", partial(enqueue_singly, clients=1)),
        Scenario("single16", "enqueue one by one, 16 clients", partial(enqueue_singly, clients=16)),
        Scenario("pickup", "pick-up by an idle worker, p95", pick_up, figure="p95_ms"),
        Scenario("backlog", "drain beside a backlog", partial(drain_beside, content="backlog"), (OURS,)),
        Scenario("finished", "drain beside finished jobs", partial(drain_beside, content="finished"), (OURS,)),
        Scenario("snapshot", "drain under an old snapshot", drain_under_snapshot, (OURS,)),
    )
}
