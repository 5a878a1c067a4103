"""A worker that fails, starts slowly or cannot end: what it reports, what it stops, and what it leaves behind."""

import asyncio
import threading
from typing import Any

import pytest

import duly
from duly.executors.call import Call, Executor
from duly.jobs.work import JobWork
from duly.lease.operations import Lease
from duly.lease.work import StopSignal
from duly.settings import Settings
from duly.worker import control, handlers, runner
from duly.worker.control import Control
from duly.worker.runner import Worker, run_worker
from tests.fast.worker.test_worker import (
    SECONDS,
    Admin,
    add_rows,
    allow,
    expire_leases,
    notes,
    refuse,
    rows,
    shape,
    until,
    working,
)
from tests.support.conformance.tables import PARCEL, Shape
from tests.support.conformance.work import ConformanceWork
from tests.support.outbox.log_capture import capture_log_lines

__all__ = ["shape"]
FAULTY_CLAIM = """
    create function conformance.fail_claim() returns trigger language plpgsql as $$
    begin
        if new.note = 'say refused' then
            perform nextval('conformance.refusals');
            raise exception 'refused' using errcode = '23514';
        elsif new.note = 'say ended' and (select is_called from conformance.refusals) then
            raise exception 'ended' using errcode = '57P01';
        end if;
        return new;
    end $$;
    create trigger fail_claim before update on {table} for each row when (new.{state}::text = '{held}')
        execute function conformance.fail_claim();
"""


class Endless(ConformanceWork):
    """Work whose handlers block a thread until the test ends, whatever they are asked."""

    def __init__(self) -> None:
        super().__init__(PARCEL)
        self.has_begun = threading.Event()
        self.may_end = threading.Event()

    def build_call(self, lease: Lease, stop_signal: StopSignal) -> Call:  # noqa: ARG002
        """Block a thread."""
        return Call(self.block, (), Executor.THREAD)

    def block(self) -> None:
        """Wait for the test."""
        self.has_begun.set()
        self.may_end.wait(SECONDS)


class EndedProcess:
    """Records when the process would have been ended, and lets what it waits for go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *let_go: threading.Event) -> None:
        self.statuses: list[int] = []
        self.let_go = let_go
        monkeypatch.setattr(runner.os, "_exit", self)

    def __call__(self, status: int) -> None:
        self.statuses.append(status)
        for event in self.let_go:
            event.set()


# Health ---------------------------------------------------------------------------------------------------------------


async def test_a_worker_whose_claims_fail_is_not_ready_although_its_sweeps_succeed(
    workers: str, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "UNREADY_SECONDS", 0.5)
    refuse(admin, PARCEL, "new.status = 'CARRIED'", "42501")
    add_rows(admin, PARCEL, "say done")
    async with working(workers, PARCEL) as worker:
        await until(admin, lambda: "cannot claim rows: " in (worker.control.not_ready_reason() or ""))
        allow(admin, PARCEL)
        await until(admin, worker.control.is_ready)


async def test_a_worker_that_starts_slowly_is_alive(workers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "CONTROL_LOOP_DEAD_SECONDS", 0.3)
    monkeypatch.setattr(control, "TICK_SECONDS", 0.05)
    reasons: list[str | None] = []

    class Slow(ConformanceWork):
        async def prepare(self, connection: Any) -> None:  # noqa: ARG002
            await asyncio.wait([asyncio.create_task(asyncio.Event().wait())], timeout=1.0)  # as for a lock
            reasons.append(worker.control.not_alive_reason())

    worker = Worker([Slow(PARCEL)], Settings(), dsn=workers)
    await worker.run(once=True)
    assert reasons == [None]


async def test_one_cycle_counts_and_logs_the_rows_that_it_sweeps(workers: str, admin: Admin) -> None:
    add_rows(admin, PARCEL, "wait")
    async with asyncio.timeout(SECONDS), working(workers, PARCEL, sweep_seconds=3600.0):
        await until(admin, lambda: rows(admin, PARCEL)[0][2] == 1)
        expire_leases(admin, PARCEL)
    admin.execute("update conformance.parcel set note = 'say done'")
    worker = Worker([ConformanceWork(PARCEL)], Settings(), dsn=workers)
    with capture_log_lines("info") as lines:
        await worker.run(once=True)
    assert '"event":"lease.swept"' in lines.getvalue()
    assert b'duly_swept_total{work_type="parcel"} 1.0' in worker.metrics.render()


# Claims ---------------------------------------------------------------------------------------------------------------


async def test_rows_of_a_piece_that_was_claimed_are_run_although_a_later_piece_fails(
    shape: Shape, workers: str, admin: Admin
) -> None:
    """The first row is refused, so the batch is divided; from then on the last one ends every claim of it."""
    add_rows(admin, shape, "say refused", "say one", "say two", "say ended")
    admin.execute("create sequence conformance.refusals")  # counts what is rolled back
    admin.execute("grant usage on sequence conformance.refusals to public")
    admin.execute(FAULTY_CLAIM.format(table=shape.table, state=shape.state, held=shape.held).encode())
    async with working(workers, shape):
        await until(admin, lambda: "one" in notes(admin, shape))


# The end --------------------------------------------------------------------------------------------------------------


def fail_once_begun(monkeypatch: pytest.MonkeyPatch, has_begun: threading.Event) -> None:
    """Have the control side fail as soon as this has happened."""

    async def probe(_control: Control, _pool: Any) -> None:
        await asyncio.to_thread(has_begun.wait, SECONDS)
        raise RuntimeError("the control side failed")

    monkeypatch.setattr(Control, "probe", probe)


async def test_a_worker_that_fails_stops_its_handlers_before_it_releases_their_rows(
    workers: str, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_rows(admin, PARCEL, "wait", "watchful")
    have_begun = threading.Event()
    fail_once_begun(monkeypatch, have_begun)
    worker = Worker([ConformanceWork(PARCEL, lease_seconds=60.0)], Settings(), dsn=workers)
    running = asyncio.create_task(worker.run())
    await until(admin, lambda: len([row for row in worker.handlers.in_progress if row.began_at]) == 2)
    have_begun.set()
    with pytest.raises(RuntimeError, match="the control side failed"):
        await running
    assert worker.handlers.in_progress == set()
    assert [row[1:] for row in rows(admin, PARCEL)] == [("wait", 0), ("saw shutdown", 1)]


def test_a_failure_is_logged_before_a_handler_that_never_returns_ends_the_process(
    workers: str, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_rows(admin, PARCEL, "endless")
    work = Endless()
    fail_once_begun(monkeypatch, work.has_begun)
    ended = EndedProcess(monkeypatch, work.may_end)
    with capture_log_lines("info") as lines, pytest.raises(RuntimeError, match="the control side failed"):
        run_worker([work], Settings(), dsn=workers)
    assert set(ended.statuses) == {1}
    assert '"event":"worker.failed"' in lines.getvalue()
    assert "the control side failed" in lines.getvalue()


def test_a_failure_hook_that_never_returns_does_not_keep_the_process(
    workers: str, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "HOOK_SECONDS", 0.1)
    app, may_end = duly.App(), threading.Event()

    @app.job("fails")
    async def fails(ctx: duly.Context) -> None:
        raise RuntimeError("failed")

    @app.on_failure
    def hang(_ctx: duly.Context, _error: BaseException) -> None:  # pyright: ignore[reportUnusedFunction]
        may_end.wait(SECONDS)

    admin.execute("select ledger.enqueue(org => gen_random_uuid(), type => 'fails')")
    ended = EndedProcess(monkeypatch, may_end)
    work = JobWork(app.handlers(), ConformanceWork(PARCEL).tuning, on_failure=app.failure_hooks)
    run_worker([work], Settings(), dsn=workers, once=True)
    assert ended.statuses == [0]
