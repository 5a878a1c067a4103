"""The scenarios: each prepares a database, lets one system do one thing, and returns figures; it knows of no rounds."""

import asyncio
import random
import statistics
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from tools.bench.ledger import footprint
from tools.bench.ledger.drain import REST_SECONDS, WARM_WAVE, enqueue_noops, measure_drain, run, warm_up, with_client
from tools.bench.ledger.paths import cancel_running, cancel_waiting, drain_type
from tools.bench.ledger.processes import start_workers
from tools.bench.ledger.server import LedgerServer
from tools.bench.ledger.sizes import MICRO, Sizes
from tools.bench.ledger.system import DULY, NAMES, UNTIMED, Client, System
from tools.bench.processes import wait_until
from tools.bench.report import Figures

SEED = 20_000


@dataclass(frozen=True)
class Scenario:
    """One thing to measure, and the systems that can do it."""

    name: str
    title: str
    measure: Callable[[LedgerServer, System, Sizes], Figures]
    systems: Sequence[str] = NAMES


# Draining -------------------------------------------------------------------------------------------------------------


def drain(server: LedgerServer, system: System, sizes: Sizes, *, processes: int) -> Figures:
    """Drain jobs that do nothing from an otherwise empty table."""
    with server.empty_database(system) as dsn:
        figures = measure_drain(server, dsn, system, sizes, sizes.jobs_for(system), processes=processes)
        if system.name == DULY:
            finished = sizes.jobs + sizes.warm_waves * WARM_WAVE  # the figure of large runs: warm-up jobs are few
            figures |= footprint.measure_bytes(dsn, finished) if processes == 1 else {}
        return figures


def drain_beside(server: LedgerServer, system: System, sizes: Sizes, *, content: str, rows: str) -> Figures:
    """Drain from a table that is full of other jobs."""
    dsn = server.large_database(content, getattr(sizes, rows))
    return measure_drain(server, dsn, system, sizes, sizes.jobs_for(system))


def drain_under_snapshot(server: LedgerServer, system: System, sizes: Sizes) -> Figures:
    """Drain while nothing that dies can be vacuumed."""
    with server.empty_database(system) as dsn, server.old_snapshot(dsn):
        return measure_drain(server, dsn, system, sizes, sizes.snapshot_jobs)


# Enqueueing -----------------------------------------------------------------------------------------------------------


def enqueue_in_bulk(server: LedgerServer, system: System, sizes: Sizes) -> Figures:
    """Enqueue batches of a thousand, each a commit, from one client; no worker runs."""
    jobs = sizes.jobs_for(system)

    async def enqueue(client: Client) -> Figures:
        for _ in range(sizes.warm_waves):
            await client.enqueue_many([UNTIMED] * WARM_WAVE)
        return await measure_clients(server, jobs, [client], [client.enqueue_in_batches(jobs)])

    with server.empty_database(system) as dsn:
        return with_client(system, dsn, enqueue)


def enqueue_singly(server: LedgerServer, system: System, sizes: Sizes, *, clients: int) -> Figures:
    """Enqueue one job per commit, from several clients at once; no worker runs."""
    each = sizes.singles if clients == 1 else max(1, 4 * sizes.singles // clients)

    async def enqueue(dsn: str) -> Figures:
        async with AsyncExitStack() as stack:
            several = [await stack.enter_async_context(system.client(dsn)) for _ in range(clients)]
            await asyncio.gather(*(client.enqueue_singly(sizes.warm_waves) for client in several))
            calls = [client.enqueue_singly(each) for client in several]
            return await measure_clients(server, clients * each, several, calls)

    with server.empty_database(system) as dsn:
        return run(enqueue(dsn))


async def measure_clients(
    server: LedgerServer, jobs: int, clients: Sequence[Client], calls: Sequence[Coroutine[Any, Any, None]]
) -> Figures:
    """Let clients enqueue at the same time; those that share a process share its CPU time."""
    server.checkpoint()
    before = [await client.read_cpu_seconds() for client in clients]
    server_cpu, began_at = server.read_cpu(), time.monotonic()
    await asyncio.gather(*calls)
    seconds, server_seconds = time.monotonic() - began_at, server.cpu_seconds_since(server_cpu)
    used = [await client.read_cpu_seconds() - earlier for client, earlier in zip(clients, before, strict=True)]
    client_seconds = sum(used) if clients[0].has_own_process else max(used)
    client_us, server_us = client_seconds / jobs * MICRO, server_seconds / jobs * MICRO
    return {
        "per_second": jobs / seconds,
        "client_us": client_us,
        "server_us": server_us,
        "total_us": client_us + server_us,
    }


# Picking up -----------------------------------------------------------------------------------------------------------


def pick_up(server: LedgerServer, system: System, sizes: Sizes) -> Figures:
    """Enqueue one job now and then for an idle worker: from the answer to the commit until the handler starts."""
    gaps = random.Random(SEED)  # noqa: S311 (the same gaps for every system)
    enqueued_at: list[float] = []

    async def enqueue(client: Client) -> None:
        for number in range(sizes.pickups):
            await client.enqueue_one(number)
            enqueued_at.append(time.monotonic())
            await asyncio.sleep(gaps.uniform(sizes.least_gap_ms, sizes.max_gap_ms) / 1000)

    with server.empty_database(system) as dsn, start_workers(system, dsn, 1, sizes.pickups) as workers:
        (worker,) = workers
        with_client(system, dsn, partial(warm_up, workers, sizes.warm_waves, enqueue_noops, 1))
        time.sleep(REST_SECONDS)
        server.checkpoint()
        started = worker.start_log.count
        with_client(system, dsn, enqueue)
        wait_until(lambda: worker.start_log.count - started >= sizes.pickups, workers, "the last job")
        waits = [start - sent for start, sent in zip(worker.start_log.times, enqueued_at, strict=True)]
    cuts = statistics.quantiles(waits, n=100, method="inclusive")
    return {name: cuts[percent - 1] * 1000 for name, percent in (("p50_ms", 50), ("p95_ms", 95), ("p99_ms", 99))}


# One step of a job's life ---------------------------------------------------------------------------------------------


def measure_footprint(server: LedgerServer, system: System, sizes: Sizes, *, step: str) -> Figures:
    """Measure WAL, buffers and statements of one step; the first step that is asked for measures all of them."""
    if step not in server.step_figures:
        with server.counted_database(system) as dsn:
            server.step_figures = run(footprint.measure_steps(server, system, sizes, dsn))
    return server.step_figures.pop(step)


OURS = (DULY,)
SCENARIOS = {
    each.name: each
    for each in (
        Scenario("drain", "drain, one worker process", partial(drain, processes=1)),
        Scenario("drain2", "drain, two worker processes", partial(drain, processes=2)),
        Scenario("bulk", "enqueue in batches of 1000", enqueue_in_bulk),
        Scenario("single", "enqueue one by one, 1 client", partial(enqueue_singly, clients=1)),
        Scenario("single16", "enqueue one by one, 16 clients", partial(enqueue_singly, clients=16)),
        Scenario("pickup", "pick-up by an idle worker, p95", pick_up, NAMES[:3]),
        Scenario(
            "waiting",
            "drain beside waiting jobs",
            partial(drain_beside, content="waiting", rows="waiting_rows"),
            OURS,
        ),
        Scenario(
            "finished",
            "drain beside finished jobs",
            partial(drain_beside, content="finished", rows="finished_rows"),
            OURS,
        ),
        Scenario(
            "finished10",
            "drain beside ten times as many finished jobs",
            partial(drain_beside, content="finished", rows="many_finished_rows"),
            OURS,
        ),
        Scenario("snapshot", "drain under an old snapshot", drain_under_snapshot, OURS),
        Scenario("retry", "fail once, retry, succeed", partial(drain_type, job_type="retry"), OURS),
        Scenario("dead", "fail to a dead letter", partial(drain_type, job_type="fail"), OURS),
        Scenario("handback", "go back to the queue once, succeed", partial(drain_type, job_type="later"), OURS),
        Scenario("progress", "record progress once, succeed", partial(drain_type, job_type="progress"), OURS),
        Scenario("cancel", "cancel waiting jobs one by one", cancel_waiting, OURS),
        Scenario("cancel-running", "cancel running jobs one by one", cancel_running, OURS),
        *(
            Scenario(f"step-{step}", title, partial(measure_footprint, step=step), OURS)
            for step, title in zip(
                footprint.STEPS,
                ("one step: enqueue one", "one step: enqueue 1000", "one step: claim 1000", "one step: settle 1000"),
                strict=True,
            )
        ),
    )
}
STEPS = "steps"  # stands for all steps on the command line
PATHS = "paths"  # stands for all paths other than success
GROUPS = {
    STEPS: [name for name in SCENARIOS if name.startswith("step-")],
    PATHS: ["retry", "dead", "handback", "progress", "cancel", "cancel-running"],
}
