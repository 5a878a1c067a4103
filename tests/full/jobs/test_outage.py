"""A worker whose database becomes unavailable: one log line, not ready meanwhile, and a line when it is back."""

import asyncio
import io
import json
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from duly.jobs.work import JobWork
from duly.lease.work import Tuning
from duly.worker.control import TICK_SECONDS
from duly.worker.health import serve_health
from duly.worker.outage import LOST_SECONDS
from duly.worker.runner import Worker, quiet_pools
from tests.fast.worker.test_health import HOST, get
from tests.support.actions import working
from tests.support.command_line import CommandLine
from tests.support.failing_handlers import MAY_RETURN, STARTED, app
from tests.support.jobs.actions import JobActions
from tests.support.outbox.log_capture import capture_log_lines
from tests.support.proxy import Proxy

TUNING = Tuning(lease_seconds=60, heartbeat_seconds=0.5, poll_seconds=0.5, sweep_seconds=0.5)
READY_SECONDS = 5.0
ALLOW = "alter database {} allow_connections {}"
CLAIM_WAITS = "select from pg_locks where relation = 'ledger.job_limit'::regclass and not granted"
END_ALL = "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'duly_worker' and datname = %s"


@contextmanager
def without_database(jobs: JobActions) -> Generator[None, None, None]:
    """Close all connections of workers and refuse new ones."""
    name = jobs.admin.info.dbname
    with psycopg.connect(jobs.admin.info.dsn, dbname="postgres", autocommit=True) as outside:

        def allow(value: str) -> None:
            outside.execute(sql.SQL(ALLOW).format(sql.Identifier(name), sql.SQL(value)))  # type: ignore[arg-type]

        allow("false")
        outside.execute(END_ALL, [name])
        try:
            yield
        finally:
            allow("true")


@contextmanager
def without_answers(proxy: Proxy) -> Generator[None, None, None]:
    """Stop forwarding in both directions."""
    proxy.freeze()
    try:
        yield
    finally:
        proxy.cut()
        proxy.resume()


def get_ready(worker: Worker) -> tuple[int, dict[str, Any]]:
    """Return the response of /readyz."""
    with serve_health(HOST, 0, worker.control, worker.metrics) as address:
        status, _, body = get(address, "/readyz")
    return status, json.loads(body)


def outage_lines(lines: io.StringIO) -> list[dict[str, Any]]:
    """Return the log lines from level info on."""
    logged = [json.loads(line) for line in lines.getvalue().splitlines()]
    return [
        line
        for line in logged
        if line["event"] not in ("worker.started", "worker.stopped") and line["logger"] != "duly.tests"
    ]


@pytest.mark.parametrize("outage_kind", ["refused", "silent"])
async def test_a_worker_without_its_database_is_not_ready_and_logs_it_once(
    jobs: JobActions, dsn: str, outage_kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.worker.listener.QUIET_SECONDS", READY_SECONDS)  # the outage is longer than that
    with quiet_pools(), Proxy(dsn) as proxy, capture_log_lines("info") as lines:
        async with working(proxy.address, JobWork(app.handlers(), TUNING)) as worker:
            await jobs.until(worker.control.is_ready)
            assert get_ready(worker)[0] == 200
            before = len(outage_lines(lines))
            with without_database(jobs) if outage_kind == "refused" else without_answers(proxy):
                began = time.monotonic()
                await jobs.until(lambda: not worker.control.is_ready())
                assert time.monotonic() - began < READY_SECONDS
                status, body = get_ready(worker)
                assert status == 503
                assert "the database has not answered for" in body["reason"]
                assert body["work_types"]["ledger"]["running"] == 0
                await jobs.until(lambda: time.monotonic() - began > 2 * READY_SECONDS)
                assert not worker.control.is_ready()
                if outage_kind == "refused":
                    assert "not currently accepting connections" in get_ready(worker)[1]["reason"]
            await jobs.until(worker.control.is_ready)
            assert worker.control.describe()["work_types"] == {"ledger": {"running": 0, "slots": TUNING.slots}}
        lost, back, *rest = outage_lines(lines)[before:]
    assert (lost["event"], lost["level"]) == ("database.unavailable", "warning")
    assert (back["event"], back["level"]) == ("database.available", "info")
    assert back["outage_seconds"] > READY_SECONDS
    assert [(line["event"], line["rows"]) for line in rest] == [("worker.stopping", 0)]
    assert "psycopg.AsyncConnection" not in lines.getvalue()


def test_a_worker_process_logs_a_database_outage_once_and_its_pools_log_nothing(
    jobs: JobActions, dsn: str, tmp_path: Path
) -> None:
    with CommandLine(dsn, tmp_path).start("worker", "--only", "ledger", "--json") as worker:
        worker.wait_for_error("worker.started")
        with without_database(jobs):
            worker.wait_for_error("database.unavailable")
        worker.wait_for_error("database.available")
        assert worker.finish(signal.SIGTERM) == 0
        assert worker.stderr_text().count("database.unavailable") == 1
        assert "psycopg" not in worker.stderr_text()


async def test_an_idle_worker_probes_the_database_and_stays_ready(jobs: JobActions, dsn: str) -> None:
    rare = Tuning(lease_seconds=600, heartbeat_seconds=None, poll_seconds=600, sweep_seconds=600)
    with capture_log_lines("info") as lines:
        async with working(dsn, JobWork(app.handlers(), rare)) as worker:
            await jobs.until(worker.control.is_ready)
            began = time.monotonic()
            await jobs.until(lambda: time.monotonic() - began > 1.5 * LOST_SECONDS or not worker.control.is_ready())
            assert worker.control.not_ready_reason() is None
    assert [line["event"] for line in outage_lines(lines)] == ["worker.stopping"]


async def test_busy_counts_running_jobs_and_not_a_claim_in_progress(jobs: JobActions, dsn: str) -> None:
    STARTED.clear()
    MAY_RETURN.set()
    jobs.enqueue("reindex")
    async with working(dsn, JobWork(app.handlers(), TUNING), stop_seconds=0) as worker:
        assert await asyncio.to_thread(STARTED.wait, 30)
        with psycopg.connect(jobs.admin.info.dsn) as gate:
            gate.execute("lock table ledger.job_limit in access exclusive mode")
            (cycle,) = worker.control.work_loops
            await jobs.until(lambda: bool(gate.execute(CLAIM_WAITS).fetchall()))
            assert cycle.held.slots.used > 1
            assert worker.control.describe()["work_types"] == {"ledger": {"running": 1, "slots": TUNING.slots}}
            last_tick_at = worker.control.ticked_at
            await jobs.until(lambda: worker.control.ticked_at > last_tick_at + 2 * TICK_SECONDS)
            assert b'duly_running{work_type="ledger"} 1.0' in worker.metrics.render()
