"""`DULY_POOL_SIZE` limits the connections of a worker, whatever its handlers do."""

import signal
import socket
import threading

import pytest

import duly
from duly.db import pool
from duly.errors import Misconfigured
from duly.jobs.work import JobWork
from duly.lease.work import Tuning
from duly.settings import Settings
from duly.worker.connections import share_connections
from duly.worker.runner import Worker
from tests.full.jobs.test_worker import WORKER, environment
from tests.support.actions import working
from tests.support.jobs.actions import JobActions
from tests.support.processes import Program

TUNING = Tuning(lease_seconds=30, heartbeat_seconds=0.1, poll_seconds=0.05, sweep_seconds=0.1)
OPEN = "select count(*) from pg_stat_activity where datname = current_database() and usename = 'duly_worker'"
JOBS = 80
POOL_SIZE = 5

app = duly.App()
gate = threading.Event()


@app.job("hold")
def hold(ctx: duly.Context) -> None:
    """A sync handler with a transaction."""
    with ctx.transaction() as tx:
        ctx.complete(tx)


@app.job("hold_async")
async def hold_async(ctx: duly.Context) -> None:
    """The same on the event loop."""
    async with ctx.transaction() as tx:
        await ctx.complete(tx)


@app.job("wait", max_attempts=1)
def wait(ctx: duly.Context) -> None:
    """Keep its connection until the test ends."""
    with ctx.transaction():
        gate.wait(30)


async def test_a_worker_with_eighty_jobs_opens_at_most_pool_size_connections(jobs: JobActions, dsn: str) -> None:
    before = jobs.one(OPEN)  # those of the test itself
    jobs.enqueue("hold", rows=JOBS // 2)
    jobs.enqueue("hold_async", rows=JOBS // 2)
    seen: list[int] = []
    async with working(dsn, JobWork(app.handlers(), TUNING), DULY_POOL_SIZE=POOL_SIZE):

        def all_done() -> bool:
            seen.append(jobs.one(OPEN) - before)
            return jobs.one("select count(*) from ledger.job where status = 'succeeded'") == JOBS

        await jobs.until(all_done)
    assert 2 < max(seen) <= POOL_SIZE
    assert {starts for (starts,) in jobs.rows("select starts from ledger.job")} == {1}
    jobs.verify()


def test_a_worker_for_all_work_types_opens_at_most_pool_size_connections(jobs: JobActions) -> None:
    jobs.admin.execute("create schema shop")
    jobs.admin.execute("create table shop.book (job uuid, who text, org text)")
    jobs.admin.execute("grant usage on schema shop to duly_api")
    jobs.admin.execute("grant insert on shop.book to duly_api")
    jobs.enqueue("bill_plainly", rows=JOBS)
    worker_environment = environment(jobs.admin.info.dsn, DULY_POOL_SIZE=str(POOL_SIZE))
    by_worker = (
        "select count(*) from pg_stat_activity where datname = current_database() and application_name = any (%s)"
    )
    names = ["duly worker", "duly handlers", "duly heartbeat", "duly listener"]
    seen: list[int] = []

    def all_done() -> bool:
        seen.append(jobs.one(by_worker, names))
        return jobs.one("select count(*) from ledger.job where status = 'succeeded'") == JOBS

    with Program(WORKER, environment=worker_environment) as worker:
        jobs.wait_until(all_done)
        assert worker.finish(signal.SIGTERM) == 0
        (name,) = jobs.values("select worker_id from duly.workers")
    assert 2 < max(seen) <= POOL_SIZE
    assert name == f"{socket.gethostname()}-{worker.pid}"
    jobs.verify()


async def test_a_handler_that_times_out_waiting_for_a_connection_fails_naming_the_setting(
    jobs: JobActions, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "SYNC_WAIT_SECONDS", 0.2)
    gate.clear()
    jobs.enqueue("wait", rows=2, max_attempts=1)
    failed = "select last_error_code, last_error_message from ledger.job where last_error_code is not null"
    async with working(dsn, JobWork(app.handlers(), TUNING), DULY_POOL_SIZE=POOL_SIZE):
        await jobs.until(lambda: bool(jobs.rows(failed)))
        gate.set()
        await jobs.until(lambda: all(jobs.columns("finished_at")))
    ((code, message),) = jobs.rows(failed)
    assert code == "UNAVAILABLE"
    assert "all 1 that DULY_POOL_SIZE=5 leaves to sync handlers are in use" in message


@pytest.mark.parametrize("pool_size", [5, 6, 7, 10, 20, 200])
def test_the_connection_shares_of_a_worker_add_up_to_the_pool_size(pool_size: int) -> None:
    shares = share_connections(pool_size, [JobWork(app.handlers(), TUNING)])
    assert shares.total == pool_size
    assert min(shares.control, shares.loop, shares.threads) >= 1
    alone = share_connections(pool_size, [JobWork([hold_async.handler], TUNING)])
    assert (alone.total, alone.threads) == (pool_size, 0)


async def test_a_pool_size_too_small_for_the_worker_is_refused(dsn: str) -> None:
    with pytest.raises(Misconfigured, match="DULY_POOL_SIZE=4 is too small for this worker, which needs 5"):
        await Worker([JobWork(app.handlers(), TUNING)], Settings(DULY_POOL_SIZE=4), dsn=dsn).run(once=True)  # type: ignore[call-arg]
