"""On PostgreSQL as distributions ship it, JIT on, a worker is as quick as without JIT, and an idle one costs nothing.

    ./duly test tests/proof/servers -n0 -s     prints the figures of docs/figures/jit.md

CPU time of the server is compared, not wall time: compiling is CPU time, and other programs' load is not.
"""

import asyncio
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import duly
from duly.db.admin import create_database
from duly.db.embedded import EmbeddedServer
from duly.db.migrations import Names
from duly.jobs.work import JobWork
from duly.lease.work import Tuning
from tests.conftest import build_template
from tests.support.actions import working
from tests.support.cpu import descendants, seconds_of
from tests.support.jobs.actions import ORG
from tests.support.processes import PYTHON, Program, plain_environment
from tests.support.servers import find_builds

JOBS = 2_000
ROUNDS = 9
MAX_RATIO = 1.2
WARM_SECONDS = 60  # each connection of the pool plans each statement some times before plans are kept
IDLE_SECONDS = 60
MAX_IDLE_SHARE = 0.01
UNFINISHED = "select count(*) from ledger.job where status in ('queued', 'running')"
BACKENDS = "select pid from pg_stat_activity where application_name like 'duly%' and pid <> pg_backend_pid()"

pytestmark = pytest.mark.timeout(600)
app = duly.App()


@app.job("nothing")
async def nothing(ctx: duly.Context) -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Stock:
    """A server as initdb leaves it, with our tables in a database of it."""

    admin: psycopg.Connection[Any]
    postmaster: int

    @property
    def worker(self) -> str:
        """The address for a worker."""
        return make_conninfo(self.admin.info.dsn, user=Names().worker, options="")

    @property
    def version(self) -> str:
        """The server's version, as its build names it."""
        return str(self.value("select current_setting('server_version')"))

    def cpu_seconds(self) -> float:
        """The CPU seconds of all processes of the server, those that ended included."""
        return sum(map(seconds_of, {self.postmaster, *descendants(self.postmaster)}))

    def value(self, statement: str) -> Any:
        """The first column of the only row."""
        (row,) = self.admin.execute(statement.encode()).fetchall()
        return row[0]


@pytest.fixture(params=[15, 16, 17, 18], ids="pg{}".format)
def stock(request: pytest.FixtureRequest, home: Path) -> Generator[Stock, None, None]:
    """A server of each major that is there, of all builds one that can compile."""
    builds = find_builds(request.param)
    if not builds:
        pytest.skip(f"this machine has no PostgreSQL {request.param}")
    for nth, build in enumerate(builds):
        directory = home / f"build{nth}"
        with EmbeddedServer.start(directory, pgbin=build.directory, settings={}) as server:
            with psycopg.connect(server.dsn(), autocommit=True) as admin:
                (can_compile,) = admin.execute("select pg_jit_available()").fetchone() or (False,)
            if not can_compile:
                continue
            dsn = create_database(server.dsn(), "duly_test")
            build_template(dsn)
            postmaster = int((server.plan.data / "postmaster.pid").read_text().splitlines()[0])
            with psycopg.connect(dsn, autocommit=True, options="-c jit=off") as admin:
                yield Stock(admin, postmaster)
            return
    pytest.skip(f"no build of PostgreSQL {request.param} on this machine has JIT")


async def drain(stock: Stock, jit: str) -> tuple[float, float]:
    """Have a worker do all the jobs; the CPU seconds of the server and the seconds on the clock."""
    stock.value(
        f"select count(*) from ledger.enqueue_many('{ORG}', 'nothing', array_fill('{{}}'::jsonb, array[{JOBS}]))"
    )
    address = make_conninfo(stock.worker, options=f"-c jit={jit}")
    cpu, clock = stock.cpu_seconds(), time.monotonic()
    async with working(address, JobWork(app.handlers(), Tuning(poll_seconds=0.2, slots=100, batch=100))):
        while stock.value(UNFINISHED):
            await asyncio.to_thread(stock.value, "select pg_sleep(0.05)")
    return stock.cpu_seconds() - cpu, time.monotonic() - clock


async def test_draining_jobs_takes_no_longer_with_jit_on_than_off(stock: Stock) -> None:
    figures: dict[str, list[tuple[float, float]]] = {"on": [], "off": []}
    for nth in range(ROUNDS):
        for jit in ("on", "off") if nth % 2 else ("off", "on"):
            figures[jit].append(await drain(stock, jit))
    cpu = {jit: median(cpu for cpu, _ in each) for jit, each in figures.items()}
    wall = {jit: median(wall for _, wall in each) for jit, each in figures.items()}
    print(f"\nPostgreSQL {stock.version}, {JOBS} jobs, medians of {ROUNDS} rounds, jit on against off:")
    print(f"server CPU {cpu['on']:.2f} s, {cpu['off']:.2f} s, ratio {cpu['on'] / cpu['off']:.2f}")
    print(f"clock {wall['on']:.2f} s, {wall['off']:.2f} s, ratio {wall['on'] / wall['off']:.2f}")
    assert cpu["on"] <= MAX_RATIO * cpu["off"], figures


def test_an_idle_worker_uses_less_than_one_percent_of_a_database_cpu(stock: Stock) -> None:
    stock.value(f"select count(*) from ledger.enqueue_many('{ORG}', 'other', array_fill('{{}}'::jsonb, array[{JOBS}]))")
    stock.admin.execute("analyze")
    environment = plain_environment(DATABASE_URL=stock.worker, DULY_LOG_FORMAT="json")
    command = (*PYTHON, "-m", "duly", "worker", "--app", "tests.support.shop:app")
    with Program(command, environment=environment) as worker:
        assert "worker.started" in worker.line()
        stock.value(f"select pg_sleep({WARM_SECONDS})")
        before, began = cpu_by_backend(stock), time.monotonic()
        stock.value(f"select pg_sleep({IDLE_SECONDS})")
        after, seconds = cpu_by_backend(stock), time.monotonic() - began
        worker.finish(15)
    assert after, "the worker is connected"
    share = sum(cpu - before.get(pid, 0.0) for pid, cpu in after.items()) / seconds
    print(f"\nPostgreSQL {stock.version}: idle worker, database CPU {share:.2%}")
    assert share <= MAX_IDLE_SHARE


def cpu_by_backend(stock: Stock) -> dict[int, float]:
    """The CPU seconds of every server process that serves the worker."""
    return {pid: seconds_of(pid) for (pid,) in stock.admin.execute(BACKENDS)}
