"""What the life of a job costs the server in WAL, buffers and statements, and what a finished job leaves on disk.

These figures depend on the tree and not on the machine: they compare two versions of the schema. One backend does one
step after the other, by the code that clients and workers use; a first pass warms plans and pages.
"""

import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from duly.jobs import repository
from duly.jobs.model import TypeInQueue
from duly.lease.operations import Lease
from tools.bench.ledger.server import LedgerServer, read_counters, read_sizes
from tools.bench.ledger.sizes import MICRO, Sizes
from tools.bench.ledger.system import BATCH, UNTIMED, System
from tools.bench.ledger.system_duly import WORKER
from tools.bench.report import Figures

SINGLES = 100  # jobs enqueued one by one
LEASE_SECONDS = 60.0
NOOP = TypeInQueue(queue="default", type="noop")
STEPS = ("enqueue", "bulk", "claim", "done")
Step = Callable[[], Coroutine[Any, Any, None]]


async def measure_steps(server: LedgerServer, system: System, sizes: Sizes, dsn: str) -> dict[str, Figures]:
    """Measure every step in turn, twice: the first pass warms up."""
    worker_dsn = make_conninfo(dsn, user=WORKER)
    async with (
        system.client(dsn) as client,
        await AsyncConnection[Any].connect(worker_dsn, autocommit=True, row_factory=dict_row) as worker,
    ):
        leases: list[Lease] = []

        async def enqueue() -> None:
            for _ in range(SINGLES):
                await client.enqueue_one(UNTIMED)

        async def bulk() -> None:
            await client.enqueue_many([UNTIMED] * BATCH)

        async def claim() -> None:
            for _ in range(2):
                found = await repository.claim_jobs(worker, "bench", [NOOP], lease_seconds=LEASE_SECONDS, limit=BATCH)
                leases.extend(found)
            assert len(leases) == SINGLES + BATCH

        async def done() -> None:
            for begin in range(0, len(leases), BATCH):
                batch = leases[begin : begin + BATCH]
                assert len(await repository.settle_done(worker, batch, [None] * len(batch))) == len(batch)
            leases.clear()

        steps: Sequence[tuple[str, Step, int]] = (
            ("enqueue", enqueue, SINGLES), ("bulk", bulk, BATCH), ("claim", claim, SINGLES + BATCH),
            ("done", done, SINGLES + BATCH),
        )  # fmt: skip
        figures: dict[str, Figures] = {}
        with psycopg.connect(dsn, autocommit=True) as reader:
            for _ in range(max(2, sizes.footprint_passes)):
                for name, step, jobs in steps:
                    figures[name] = await measure_step(server, reader, step, jobs)
        return figures


async def measure_step(server: LedgerServer, reader: psycopg.Connection[Any], step: Step, jobs: int) -> Figures:
    """Measure one step of these jobs; figures are per job."""
    read_counters(reader)
    cpu, began_at = server.read_cpu(), time.monotonic()
    await step()
    seconds, server_seconds = time.monotonic() - began_at, server.cpu_seconds_since(cpu)
    counted = read_counters(reader)
    return {
        "per_second": jobs / seconds,
        "server_us": server_seconds / jobs * MICRO,
        **{name: counted[name] / jobs for name in ("wal_bytes", "wal_records", "buffers", "statements")},
    }


def measure_bytes(dsn: str, jobs: int) -> Figures:
    """Measure the bytes that each of these finished jobs takes, after a vacuum."""
    with psycopg.connect(dsn, autocommit=True) as reader:
        sizes = read_sizes(reader)
    return {name: value / jobs for name, value in sizes.items()}
