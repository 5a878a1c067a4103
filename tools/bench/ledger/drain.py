"""How fast workers drain: they are warm and idle, and then all jobs are there at once."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

import uvloop

from tools.bench.ledger.processes import WorkerProcess, count_started, start_workers
from tools.bench.ledger.server import LedgerServer, open_unfinished_check
from tools.bench.ledger.sizes import MEGABYTE, MICRO, Sizes
from tools.bench.ledger.system import BATCH, Client, System
from tools.bench.processes import ServerCpu, wait_until
from tools.bench.report import Figures

WARM_WAVE = 20  # jobs
MAX_WAVES = 50
REST_SECONDS = 0.3  # after warming up: what was buffered is flushed, what was awake rests
Enqueue = Callable[[Client, int], Coroutine[Any, Any, Any]]  # so many jobs in one commit


def enqueue_noops(client: Client, jobs: int) -> Coroutine[Any, Any, None]:
    """Enqueue jobs that do nothing."""
    return client.enqueue_in_one_commit(jobs)


def measure_drain(
    server: LedgerServer,
    dsn: str,
    system: System,
    sizes: Sizes,
    jobs: int,
    *,
    processes: int = 1,
    enqueue: Enqueue = enqueue_noops,
    starts_per_job: int = 1,
    environment: Mapping[str, str] | None = None,
) -> Figures:
    """Measure from the answer to the commit that shows the jobs until the database says that none is unfinished."""
    with (
        start_workers(system, dsn, processes, 0, environment) as workers,
        open_unfinished_check(dsn, system) as has_unfinished,
    ):
        with_client(system, dsn, partial(warm_up, workers, sizes.warm_waves, enqueue, starts_per_job))
        wait_until(lambda: not has_unfinished(), workers, "warming up", 0.01)
        time.sleep(REST_SECONDS)
        server.checkpoint()
        started, starts = count_started(workers), jobs * starts_per_job
        worker_cpu = sum(worker.cpu_seconds() for worker in workers)

        def wait(began_at: float, server_cpu: ServerCpu) -> Figures:
            wait_until(lambda: count_started(workers) - started >= starts, workers, "the last job")
            started_at = time.monotonic()
            wait_until(lambda: not has_unfinished(), workers, "the last settle", 0.002)
            seconds = time.monotonic() - began_at
            worker_us = (sum(worker.cpu_seconds() for worker in workers) - worker_cpu) / jobs * MICRO
            server_us = server.cpu_seconds_since(server_cpu) / jobs * MICRO
            return {
                "per_second": jobs / seconds,
                "started_per_second": starts / (started_at - began_at),
                "worker_us": worker_us,
                "server_us": server_us,
                "total_us": worker_us + server_us,
                "peak_mb": max(worker.peak_bytes() for worker in workers) / MEGABYTE,
            }

        async def enqueue_and_wait(client: Client) -> Figures:
            await enqueue(client, jobs)
            # Connected until the end: its backend neither ends meanwhile nor delays the clock by disconnecting.
            return await asyncio.to_thread(wait, time.monotonic(), server.read_cpu())

        return with_client(system, dsn, enqueue_and_wait)


async def warm_up(
    workers: Sequence[WorkerProcess], waves: int, enqueue: Enqueue, starts_per_job: int, client: Client
) -> None:
    """Run small waves until statements are prepared, then, with several workers, large ones until all have started."""
    for _ in range(waves):
        await run_wave(workers, client, WARM_WAVE, enqueue, starts_per_job)
    for _ in range(MAX_WAVES):
        if all(worker.start_log.count for worker in workers):
            return
        await run_wave(workers, client, 4 * BATCH, enqueue, starts_per_job)
    raise TimeoutError("a worker has not started any job while the others ran them all")


async def run_wave(
    workers: Sequence[WorkerProcess],
    client: Client,
    jobs: int,
    enqueue: Enqueue = enqueue_noops,
    starts_per_job: int = 1,
) -> None:
    """Enqueue some jobs, and wait until all have started."""
    started, starts = count_started(workers), jobs * starts_per_job
    await enqueue(client, jobs)
    await asyncio.to_thread(wait_until, lambda: count_started(workers) - started >= starts, workers, "warming up")


def with_client(system: System, dsn: str, act: Callable[[Client], Coroutine[Any, Any, Any]]) -> Any:
    """Connect, do something, disconnect."""

    async def connected() -> Any:
        async with system.client(dsn) as client:
            return await act(client)

    return run(connected())


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run on uvloop, as the workers of every system."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(coroutine)
