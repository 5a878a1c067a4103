"""The other paths of our jobs: retries, dead letters, hand-backs, progress and cancels, in µs of worker and server."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, cast
from uuid import UUID

from tools.bench.ledger.drain import REST_SECONDS, measure_drain, run
from tools.bench.ledger.processes import count_started, start_workers
from tools.bench.ledger.server import LedgerServer, open_unfinished_check
from tools.bench.ledger.sizes import MICRO, Sizes
from tools.bench.ledger.system import BATCH, Client, System
from tools.bench.ledger.system_duly import HEARTBEAT, DulyClient
from tools.bench.processes import wait_until
from tools.bench.report import Figures

STARTS = {"retry": 2, "fail": 1, "later": 2, "progress": 1}  # of each job
WARM_CANCELS = 20


async def enqueue_type(job_type: str, client: Client, jobs: int) -> list[UUID]:
    """Enqueue jobs of one of our types."""
    return await cast("DulyClient", client).enqueue_type(job_type, jobs)


def drain_type(server: LedgerServer, system: System, sizes: Sizes, *, job_type: str) -> Figures:
    """Drain jobs of a type whose handler takes another path than success."""
    with server.empty_database(system) as dsn:
        return measure_drain(
            server, dsn, system, sizes, sizes.path_jobs,
            enqueue=partial(enqueue_type, job_type), starts_per_job=STARTS[job_type],
        )  # fmt: skip


def cancel_waiting(server: LedgerServer, system: System, sizes: Sizes) -> Figures:
    """Cancel waiting jobs one by one; no worker runs."""

    async def cancel(dsn: str) -> Figures:
        async with system.client(dsn) as client:
            await cancel_jobs(client, await enqueue_type("wait", client, WARM_CANCELS))
            ids = await enqueue_type("wait", client, sizes.path_jobs)
            return await measure_cancels(server, client, ids)

    with server.empty_database(system) as dsn:
        return run(cancel(dsn))


def cancel_running(server: LedgerServer, system: System, sizes: Sizes) -> Figures:
    """Cancel running jobs one by one: the heartbeat, of 1 s here, tells the worker, which stops and settles them.

    The figures include the renewal of all leases once a second meanwhile.
    """
    jobs = min(sizes.path_jobs, 2 * BATCH)

    async def cancel(dsn: str) -> Figures:
        async with system.client(dsn) as client:
            ids = await enqueue_type("wait", client, jobs)
            wait_until(lambda: count_started(workers) >= jobs, workers, "the last start")
            await asyncio.sleep(REST_SECONDS)
            worker_cpu = workers[0].cpu_seconds()
            cpu, began_at = server.read_cpu(), time.monotonic()
            figures = await measure_cancels(server, client, ids)
            wait_until(lambda: not has_unfinished(), workers, "the last settle", 0.005)
            worker_us = (workers[0].cpu_seconds() - worker_cpu) / jobs * MICRO
            server_us = server.cpu_seconds_since(cpu) / jobs * MICRO
            return {
                "per_second": jobs / (time.monotonic() - began_at),
                "client_us": figures["client_us"],
                "worker_us": worker_us,
                "server_us": server_us,
                "total_us": worker_us + server_us,
            }

    with (
        server.empty_database(system) as dsn,
        start_workers(system, dsn, 1, 0, {HEARTBEAT: "1"}) as workers,
        open_unfinished_check(dsn, system) as has_unfinished,
    ):
        return run(cancel(dsn))


async def measure_cancels(server: LedgerServer, client: Client, ids: Sequence[UUID]) -> Figures:
    """Measure cancel calls."""
    server_cpu, client_cpu, began_at = server.read_cpu(), time.process_time(), time.monotonic()
    await cancel_jobs(client, ids)
    seconds, client_seconds = time.monotonic() - began_at, time.process_time() - client_cpu
    client_us, server_us = client_seconds / len(ids) * MICRO, server.cpu_seconds_since(server_cpu) / len(ids) * MICRO
    return {
        "per_second": len(ids) / seconds,
        "client_us": client_us,
        "server_us": server_us,
        "total_us": client_us + server_us,
    }


async def cancel_jobs(client: Any, ids: Sequence[UUID]) -> None:
    """Cancel jobs one by one."""
    await client.cancel(ids)
