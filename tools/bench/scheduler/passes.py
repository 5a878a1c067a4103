"""One pass of the scheduler: plan and remind of what is due, beside schedules that only wait."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import psycopg
from psycopg import AsyncConnection

from duly.apps.scheduler.work import ScheduleWork, remind
from duly.db.pool import connect
from duly.lease.work import LeaseOutcome, StopSignal, Tuning
from tools.bench.report import Figures
from tools.bench.scheduler import store
from tools.bench.scheduler.server import SchedulerServer, worker_dsn

AT_ONCE = 200
TIMES = 500
MANY_RUNS = 200_000  # with fewer the server may rather read a month as it is


def measure_pass(server: SchedulerServer, schedules: int, due: int) -> Figures:
    """Measure how many due schedules a second are planned and reminded of, by the number of schedules."""
    with server.database(schedules) as dsn, psycopg.connect(dsn, autocommit=True) as admin:
        filled_databases = store.make_due(admin, due)
        store.vacuum(admin)
        server.checkpoint()
        seconds = asyncio.run(timed(worker_dsn(dsn), plan_all))
        reminded = store.make_remindable(admin)
        store.vacuum(admin)
        server.checkpoint()
        seconds += asyncio.run(timed(worker_dsn(dsn), remind_all))
    assert reminded == filled_databases, f"{reminded} runs of {filled_databases} schedules"
    return {"per_second": filled_databases / seconds, "p50_ms": seconds * 1000}


async def timed(dsn: str, act: Callable[[AsyncConnection[object]], Awaitable[None]]) -> float:
    """Measure how long something takes on a warm connection."""
    async with await connect(dsn) as connection:
        await connection.execute("select 1")
        began = time.monotonic()
        await act(connection)
        return time.monotonic() - began


async def plan_all(connection: AsyncConnection[object]) -> None:
    """Plan until nothing is due."""
    work = ScheduleWork(Tuning())
    while True:
        async with connection.transaction():
            leases = await work.claim(connection, "bench", AT_ONCE)
        if not leases:
            return
        finished = [
            LeaseOutcome(lease, await work.compute_runs(work.build_call(lease, StopSignal()).arguments[0]))
            for lease in leases
        ]
        async with connection.transaction():
            await work.settle(connection, finished)


async def remind_all(connection: AsyncConnection[object]) -> None:
    """Write reminders until nothing is due."""
    while True:
        async with connection.transaction():
            if not await remind(connection, AT_ONCE):
                return


def nodes_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """List every node of a plan."""
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes_of(part)


def reads_whole(node: dict[str, Any]) -> bool:
    """Check whether a node scans a table that is not empty."""
    return node["Node Type"] == "Seq Scan" and node["Actual Rows"] + node.get("Rows Removed by Filter", 0) > 0


def measure_due(server: SchedulerServer, runs: int) -> Figures:
    """Measure how often a second the contract's own query is answered, by the number of past runs."""
    with server.database(100, runs) as dsn, psycopg.connect(worker_dsn(dsn), autocommit=True) as worker:
        read = [node["Relation Name"] for node in nodes_of(store.explain_due(worker)["Plan"]) if reads_whole(node)]
        assert runs < MANY_RUNS or not read, f"these are read whole: {read}"
        for _ in range(TIMES):
            store.find_due(worker)
        began = time.monotonic()
        for _ in range(TIMES):
            store.find_due(worker)
        seconds = time.monotonic() - began
    return {"per_second": TIMES / seconds, "p50_ms": seconds / TIMES * 1000}
