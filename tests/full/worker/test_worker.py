"""The worker: whatever handlers do, leases are renewed, losses are noticed, and nothing is written twice."""

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from psycopg import sql

from duly.db.migrations import Names
from duly.lease.work import LeaseOutcome
from duly.worker.control import Control
from duly.worker.handlers import Handlers
from tests.fast.worker.test_worker import (
    SECONDS,
    Admin,
    add_rows,
    all_ended,
    allow,
    child_of,
    expire_leases,
    notes,
    refuse,
    rows,
    shape,
    until,
    wait_until,
    worker_process,
    working,
)
from tests.support.conformance.tables import PARCEL, Shape
from tests.support.conformance.work import AT_THE_GATE, GATE, TUNING, ConformanceWork
from tests.support.locks import wait_until_blocked
from tests.support.processes import wait_until_ended
from tests.support.proxy import Proxy

__all__ = ["shape"]
SHORT_SECONDS = 2.0
SHORT_LEASE = f"lease_seconds={SHORT_SECONDS}"
BUSY_MACHINE_SECONDS = 3.0


def settled_by(admin: Admin, shape: Shape) -> list[str]:
    statement = sql.SQL("select distinct {} from {}").format(
        sql.Identifier("settled_by"), sql.Identifier(*shape.table.qualified_name)
    )
    return [owner for (owner,) in admin.execute(statement)]


# Working --------------------------------------------------------------------------------------------------------------


async def test_due_rows_are_performed_and_settled(shape: Shape, workers: str, admin: Admin) -> None:
    add_rows(admin, shape, "say hello", "threaded there", "in_child child", *(f"say {nth}" for nth in range(200)))
    async with working(workers, shape):
        await until(admin, lambda: all_ended(admin, shape))
    assert notes(admin, shape) == ["hello", "there", "child True", *map(str, range(200))]
    assert {starts for _, _, starts in rows(admin, shape)} == {1}


async def test_a_handler_past_its_time_limit_is_stopped_or_abandoned(shape: Shape, workers: str, admin: Admin) -> None:
    add_rows(admin, shape, "wait@0.3", "stubborn@0.3 4", "die_in_child@2 loop", "say neighbour")
    async with working(workers, shape):
        await until(admin, lambda: all_ended(admin, shape))
    assert notes(admin, shape) == [
        "TIMEOUT took longer than 0.3 s",
        "TIMEOUT took longer than 0.3 s",
        "TIMEOUT took longer than 2 s",
        "neighbour",
    ]


async def test_every_way_a_child_process_dies_is_recorded_as_an_outcome(
    shape: Shape, workers: str, admin: Admin
) -> None:
    endings = ("exit", "abort", "segfault", "eat", "unpicklable", "nothing")
    add_rows(admin, shape, *(f"die_in_child {ending}" for ending in endings), "in_child well", "say neighbour")
    async with working(workers, shape):
        await until(admin, lambda: all_ended(admin, shape))
    written_notes = notes(admin, shape)
    assert written_notes[:4] == [
        "CRASHED the child process exited with status 0 before it answered",
        "CRASHED the child process was killed by signal SIGABRT",
        "CRASHED the child process was killed by signal SIGSEGV",
        "CRASHED out of memory: the handler exceeded its memory limit",
    ]
    assert written_notes[4].startswith("BAD_RESULT the result cannot be pickled")
    assert written_notes[5:] == ["VALUE_ERROR ValueError: nothing", "well True", "neighbour"]


async def test_an_outcome_that_cannot_be_written_fails_its_row_and_no_other(
    shape: Shape, workers: str, admin: Admin
) -> None:
    add_rows(admin, shape, *(f"say {nth}" for nth in range(20)), "say poison", *(f"say {nth}" for nth in range(20)))
    async with working(workers, shape):
        await until(admin, lambda: all_ended(admin, shape))
    (bad,) = [note for note in notes(admin, shape) if not note.isdigit()]
    assert bad.startswith("CHECK_VIOLATION CheckViolation")


async def test_an_idle_child_process_that_died_fails_no_row(workers: str, admin: Admin) -> None:
    add_rows(admin, PARCEL, "in_child one")
    async with working(workers, PARCEL) as worker:
        await until(admin, lambda: all_ended(admin, PARCEL))
        (child,) = worker.handlers.processes.idle
        os.kill(child.process.pid, signal.SIGKILL)
        await child.process.wait()
        add_rows(admin, PARCEL, "in_child two")
        await until(admin, lambda: all_ended(admin, PARCEL))
    assert notes(admin, PARCEL) == ["one True", "two True"]


async def test_a_suspended_child_process_is_killed_at_its_time_limit(workers: str, admin: Admin) -> None:
    add_rows(admin, PARCEL, "in_child warm")
    async with working(workers, PARCEL) as worker:
        await until(admin, lambda: all_ended(admin, PARCEL))
        (child,) = worker.handlers.processes.idle
        os.kill(child.process.pid, signal.SIGSTOP)
        add_rows(admin, PARCEL, f"in_child@0.5 {'x' * 1_000_000}")
        await until(admin, lambda: all_ended(admin, PARCEL))
    assert notes(admin, PARCEL)[1] == "TIMEOUT took longer than 0.5 s"


async def test_an_expired_row_that_cannot_be_swept_delays_no_other(workers: str, admin: Admin) -> None:
    (bad, *_) = add_rows(admin, PARCEL, *["wait"] * 5)
    with worker_process(workers, PARCEL, SHORT_LEASE) as victim:
        for _ in range(5):
            victim.line()
        victim.kill()
    refuse(admin, PARCEL, f"new.id = '{bad}' and new.status = 'WAITING'", "23514")
    admin.execute("update conformance.parcel set note = 'say back'")
    async with working(workers, PARCEL):
        await until(admin, lambda: sum(row[0] == PARCEL.end for row in rows(admin, PARCEL)) == 4)


async def test_an_unlocked_row_is_claimed_while_another_row_cannot_be_claimed(
    shape: Shape, workers: str, admin: Admin
) -> None:
    is_claimed = f"new.{shape.state}::text = '{shape.held}'"
    refuse(admin, shape, f"new.note = 'say never' and {is_claimed}", "23514")
    add_rows(admin, shape, "say never", "say one")
    async with working(workers, shape):
        await until(admin, lambda: rows(admin, shape)[1][0] == shape.end)
        allow(admin, shape)
        refuse(admin, shape, f"new.note = 'say locked' and {is_claimed}", "55P03")
        add_rows(admin, shape, "say locked", "say two")
        await until(admin, lambda: rows(admin, shape)[3][0] == shape.end)
        allow(admin, shape)
        await until(admin, lambda: rows(admin, shape)[2][0] == shape.end, "claiming it")
    assert rows(admin, shape)[2][1:] == ("locked", 1)
    assert rows(admin, shape)[0][0] == shape.ready  # and who refused is still left alone


async def test_rows_are_settled_once_although_worker_connections_are_terminated(
    shape: Shape, workers: str, admin: Admin
) -> None:
    add_rows(admin, shape, *(f"say {nth}" for nth in range(400)))
    cut = (
        "select count(pg_terminate_backend(pid)) from pg_stat_activity"
        " where usename = 'duly_worker' and datname = current_database()"
    )
    async with working(workers, shape, slots=5, batch=5):
        await until(admin, lambda: any(state == shape.end for state, _, _ in rows(admin, shape)))
        for _ in range(10):
            await asyncio.to_thread(admin.execute, cut)
            await asyncio.to_thread(admin.execute, "select pg_sleep(0.05)")
        await until(admin, lambda: all_ended(admin, shape))
    assert sorted(map(int, notes(admin, shape))) == sorted(range(400))


# Leases ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["burn", "block"])
async def test_a_handler_that_runs_for_twice_its_lease_keeps_the_lease(
    shape: Shape, workers: str, admin: Admin, verb: str
) -> None:
    with worker_process(workers, shape, SHORT_LEASE) as one, worker_process(workers, shape, SHORT_LEASE) as other:
        wait_until(admin, lambda: admin.execute("select count(*) from duly.workers").fetchone() == (2,))
        add_rows(admin, shape, f"{verb} 4")
        wait_until(admin, lambda: all_ended(admin, shape))
        assert one.finish(signal.SIGTERM) == other.finish(signal.SIGTERM) == 0
    assert [starts for _, _, starts in rows(admin, shape)] == [1]


async def test_no_row_is_claimed_while_the_event_loop_of_handlers_is_blocked(
    workers: str, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Handlers.is_responsive, "__defaults__", (1.0,))
    monkeypatch.setattr("duly.worker.control.HANDLER_LOOP_DEAD_SECONDS", 2.0)
    GATE.clear()
    AT_THE_GATE.clear()
    add_rows(admin, PARCEL, "gate")
    seen: list[tuple[bool, bool, int]] = []

    def watch(health: Control) -> None:
        assert AT_THE_GATE.wait(SECONDS), "the loop stands still from here on, and not before"
        wait_until(admin, lambda: not health.handlers.is_responsive())
        wait_until(
            admin, lambda: not any(each.held.slots.claims_in_progress for each in health.work_loops)
        )  # begun before it stood still
        add_rows(admin, PARCEL, "say later")
        seen.append((health.is_ready(), health.not_alive_reason() is None, rows(admin, PARCEL)[1][2]))
        wait_until(admin, lambda: health.not_alive_reason() is not None)
        seen.append((health.is_ready(), health.not_alive_reason() is None, rows(admin, PARCEL)[1][2]))
        GATE.set()

    async with working(workers, PARCEL) as worker:
        await asyncio.to_thread(watch, worker.control)
        await until(admin, lambda: all_ended(admin, PARCEL))
        await until(admin, lambda: worker.control.is_ready() and worker.control.not_alive_reason() is None)
    assert seen == [(False, True, 0), (False, False, 0)]


async def test_a_suspended_and_resumed_worker_writes_nothing_after_losing_its_leases(
    shape: Shape, workers: str, admin: Admin
) -> None:
    add_rows(admin, shape, *["pause 1"] * 5)
    with worker_process(workers, shape, SHORT_LEASE, WORKER_ID="worker-1") as stalled:
        for _ in range(5):
            assert stalled.line().startswith("pausing")
        os.kill(stalled.pid, signal.SIGSTOP)
        with worker_process(workers, shape, WORKER_ID="worker-1") as successor:
            wait_until(admin, lambda: all_ended(admin, shape), "taking over")
            before = (rows(admin, shape), sorted(settled_by(admin, shape)))
            os.kill(stalled.pid, signal.SIGCONT)
            stalled.wait_for_error("lease.lost")
            assert stalled.finish(signal.SIGTERM) == 0
            assert successor.finish(signal.SIGTERM) == 0
        refused = stalled.stderr_text().count("lease.lost")
    assert refused == 5
    assert (rows(admin, shape), sorted(settled_by(admin, shape))) == before
    assert {starts for _, _, starts in before[0]} == {2}


OF_WORKERS = f"datname = current_database() and usename = '{Names().worker}'"


async def test_a_settle_in_progress_when_its_worker_was_suspended_is_refused_when_it_resumes(
    shape: Shape, workers: str, conformance_dsn: str, admin: Admin
) -> None:
    add_rows(admin, shape, *["pause 1"] * 5)
    with worker_process(workers, shape, SHORT_LEASE) as stalled:
        with psycopg.connect(conformance_dsn) as blocker:
            for _ in range(5):
                assert stalled.line().startswith("pausing")
            blocker.execute(sql.SQL("select from {} for update").format(sql.Identifier(*shape.table.qualified_name)))
            wait_until_blocked(conformance_dsn)  # by now its handlers have ended, and their outcomes wait for the lock
            os.kill(stalled.pid, signal.SIGSTOP)
            admin.execute(f"select pg_terminate_backend(pid, 5000) from pg_stat_activity where {OF_WORKERS}".encode())
        with worker_process(workers, shape) as successor:
            wait_until(admin, lambda: all_ended(admin, shape), "taking over")
            before = (rows(admin, shape), settled_by(admin, shape))
            os.kill(stalled.pid, signal.SIGCONT)
            stalled.wait_for_error("its settle found another owner")
            assert stalled.finish(signal.SIGTERM) == successor.finish(signal.SIGTERM) == 0
    assert stalled.stderr_text().count("lease.lost") == 5
    assert (rows(admin, shape), settled_by(admin, shape)) == before


class Hesitant(ConformanceWork):
    """Work whose outcomes cannot be settled at first; after the first attempt the lease of its row expires."""

    def __init__(self, shape: Shape, admin: Admin) -> None:
        super().__init__(shape, sweep_seconds=0.05)
        self.admin = admin
        self.attempts: list[str] = []  # the owners of the outcomes, in the order of attempts

    async def settle(self, connection: Any, finished: Sequence[LeaseOutcome]) -> frozenset[Any]:
        """Settle the outcome of the second claim at its third attempt."""
        owners = [lease.owner for lease, _ in finished]
        if not self.attempts:
            expire_leases(self.admin, self.shape)
        self.attempts += owners
        if len(set(self.attempts)) == 2 and self.attempts.count(self.attempts[-1]) >= 3 and owners != self.attempts[:1]:
            return await super().settle(connection, finished)
        raise psycopg.errors.LockNotAvailable("the row is locked")


async def test_a_worker_that_claims_a_row_twice_settles_only_the_later_claim(
    shape: Shape, workers: str, admin: Admin
) -> None:
    add_rows(admin, shape, "say once")
    work = Hesitant(shape, admin)
    async with working(workers, shape, work=work):
        await until(admin, lambda: all_ended(admin, shape))
    first, second = dict.fromkeys(work.attempts)
    assert first not in work.attempts[work.attempts.index(second) :]
    assert settled_by(admin, shape) == [second]


async def test_a_worker_without_database_stops_its_handlers_before_their_leases_expire(
    shape: Shape, conformance_dsn: str, workers: str, admin: Admin
) -> None:
    add_rows(admin, shape, "wait", "watchful", "die_in_child print")
    name = sql.Identifier(admin.info.dbname)
    seconds = 6.0  # a tenth of it is the margin, in which a busy machine must get round to stopping
    with (
        psycopg.connect(conformance_dsn, dbname="postgres", autocommit=True) as outside,
        worker_process(workers, shape, f"lease_seconds={seconds}") as holder,
    ):
        for _ in range(2):
            holder.line()
        child = child_of(holder)
        outside.execute(sql.SQL("alter database {} allow_connections false").format(name))
        began = time.monotonic()
        outside.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [admin.info.dbname]
        )
        lines = sorted(holder.line().split()[0] for _ in range(2))
        assert time.monotonic() - began < seconds
        assert lines == ["saw", "stopped"]
        wait_until_ended(child, SECONDS)
        assert time.monotonic() - began < seconds
        outside.execute(sql.SQL("alter database {} allow_connections true").format(name))


async def test_expired_rows_are_reclaimed_in_time_despite_a_backlog(shape: Shape, workers: str, admin: Admin) -> None:
    held = add_rows(admin, shape, *["wait"] * 3)
    swap = sql.SQL("update {} set note = 'say back' where {} = any (%s)").format(
        sql.Identifier(*shape.table.qualified_name), sql.Identifier(shape.table.key)
    )
    with worker_process(workers, shape, SHORT_LEASE, "slots=3") as victim:  # no slot left for the backlog
        for _ in held:
            victim.line()
        admin.execute(swap, [held])
        add_rows(admin, shape, *["pause 0.05"] * 600)
        with worker_process(workers, shape, SHORT_LEASE, "slots=2") as successor:
            successor.line()  # it is busy with the backlog
            victim.kill()
            died_at = admin.execute("select clock_timestamp()").fetchone()
            wait_until(admin, lambda: sum(note == "back" for note in notes(admin, shape)) == 3, "taking over")
            waiting = sum(note == "pause 0.05" for note in notes(admin, shape))
            successor.kill()
    assert waiting > 0, "there was no backlog left to wait behind"
    came_back = admin.execute(
        "select max(ts) from duly.transition where machine = %s and key = any (%s) and seq = 3",
        [shape.machine.name, list(map(str, held))],
    ).fetchone()
    assert died_at
    assert came_back
    sweeps = len(held) if shape.table.can_claim_expired else 1  # one slot is kept, so one row comes with each sweep
    late = (came_back[0] - died_at[0]).total_seconds()
    assert late < SHORT_SECONDS + sweeps * TUNING.sweep_seconds + BUSY_MACHINE_SECONDS


# Stopping -------------------------------------------------------------------------------------------------------------


async def test_a_stopping_worker_finishes_running_rows_and_releases_waiting_ones(
    shape: Shape, workers: str, admin: Admin
) -> None:
    add_rows(admin, shape, "die_in_child@3 print", "pause 1")  # the only child is taken, so the next two wait for it
    with worker_process(workers, shape, DULY_WORKER_CHILDREN="1") as worker:
        worker.line()
        child_of(worker)
        add_rows(admin, shape, "in_child a", "in_child b")
        wait_until(admin, lambda: [starts for _, _, starts in rows(admin, shape)] == [1, 1, 1, 1])
        assert worker.finish(signal.SIGTERM) == 0
    ended = rows(admin, shape)
    assert [row[1] for row in ended[:2]] == ["TIMEOUT took longer than 3 s", "paused"]
    assert [row[1:] for row in ended[2:]] == [("in_child a", 0), ("in_child b", 0)]
    async with working(workers, shape):
        await until(admin, lambda: all_ended(admin, shape))


@pytest.mark.parametrize("verb", ["wait", "swallow", "stubborn 60", "block 60", "die_in_child print"])
async def test_a_second_signal_stops_at_once_and_releases_everything(
    shape: Shape, workers: str, admin: Admin, verb: str
) -> None:
    add_rows(admin, shape, verb)
    with worker_process(workers, shape, "lease_seconds=60") as worker:
        child_of(worker) if "child" in verb else worker.line()
        worker.process.send_signal(signal.SIGINT)
        worker.wait_for_error("stopping")
        began = time.monotonic()
        assert worker.finish(signal.SIGINT) == 0
        # A signal may reach another thread; Python hears it when the main thread next moves, which a block delays.
        assert time.monotonic() - began < (15 if "block" not in verb else 45)
    assert [starts for _, _, starts in rows(admin, shape)] == [0]
    quick = sql.SQL("update {} set note = 'say done'").format(sql.Identifier(*shape.table.qualified_name))
    admin.execute(quick)
    async with working(workers, shape):
        await until(admin, lambda: all_ended(admin, shape))


async def test_draining_does_not_stop_handlers_that_have_started(shape: Shape, workers: str, admin: Admin) -> None:
    add_rows(admin, shape, "block 1", "pause 0.5")
    with worker_process(workers, shape) as worker:
        worker.line()
        worker.process.send_signal(signal.SIGTERM)
        assert worker.finish() == 0
    ended = rows(admin, shape)
    assert [row[1] for row in ended if row[0] == shape.end] in (["blocked"], ["blocked", "paused"])
    assert [row[2] for row in ended if row[0] != shape.end] in ([], [0])


async def test_a_stopping_worker_past_its_deadline_releases_every_row(shape: Shape, workers: str, admin: Admin) -> None:
    add_rows(admin, shape, "stubborn 60", "wait")
    with worker_process(workers, shape, "lease_seconds=60", DULY_STOP_SECONDS="0.5") as worker:
        worker.line()
        worker.line()
        assert worker.finish(signal.SIGTERM) == 0
    assert [starts for _, _, starts in rows(admin, shape)] == [0, 0]
    stopped = admin.execute("select stopped_at is not null from duly.workers").fetchall()
    assert stopped == [(True,)]


async def test_a_second_signal_stops_a_worker_whose_database_does_not_answer(
    shape: Shape, conformance_dsn: str, admin: Admin
) -> None:
    add_rows(admin, shape, "wait")
    with Proxy(conformance_dsn) as proxy, worker_process(proxy.address, shape, "lease_seconds=60") as worker:
        worker.line()
        proxy.freeze()
        worker.process.send_signal(signal.SIGTERM)
        worker.wait_for_error("stopping")
        began = time.monotonic()
        assert worker.finish(signal.SIGTERM) == 0
        assert time.monotonic() - began < 15
