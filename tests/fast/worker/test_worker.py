"""The worker: whatever handlers do, leases are renewed, losses are noticed, and nothing is written twice."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql

from duly.db.pool import connect
from duly.lease.operations import claim_rows
from duly.settings import Settings
from duly.worker import control, outage, runner
from duly.worker.runner import Worker
from tests.support import actions
from tests.support.conformance.tables import PARCEL, VISIT, Shape
from tests.support.conformance.work import TUNING, ConformanceWork
from tests.support.forking import ForkedProgram
from tests.support.locks import wait_until_blocked
from tests.support.outbox.log_capture import capture_log_lines
from tests.support.processes import Program, wait_until_ended

Admin = psycopg.Connection[Any]
SECONDS = 40.0


@pytest.fixture(params=[PARCEL, VISIT], ids=str)
def shape(request: pytest.FixtureRequest) -> Shape:
    """Return a table whose expired rows are returned, and one whose are reclaimed."""
    return request.param


def add_rows(admin: Admin, shape: Shape, *notes: str) -> list[Any]:
    """Insert rows with these notes, which their handlers follow; returns their keys."""
    statement = sql.SQL("insert into {} (note) values (%s) returning {}").format(
        sql.Identifier(*shape.table.qualified_name), sql.Identifier(shape.table.key)
    )
    return [(admin.execute(statement, [note]).fetchone() or [None])[0] for note in notes]


def rows(admin: Admin, shape: Shape) -> list[tuple[Any, ...]]:
    """Return state, note and starts of every row, in the order of insertion."""
    table = shape.table
    columns = sql.SQL(", ").join(map(sql.Identifier, (shape.state, "note", table.starts)))
    order = sql.Identifier(shape.due)
    return admin.execute(
        sql.SQL("select {} from {} order by {}").format(columns, sql.Identifier(*table.qualified_name), order)
    ).fetchall()


def notes(admin: Admin, shape: Shape) -> list[str]:
    """Return the notes of every row, in the order of insertion."""
    return [note for _, note, _ in rows(admin, shape)]


def wait_until(admin: Admin, condition: Callable[[], bool], what: str = "it") -> None:
    """Wait for a condition of the database."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{what} never happened"
        admin.execute("select pg_sleep(0.02)")


def all_ended(admin: Admin, shape: Shape) -> bool:
    return all(state == shape.end for state, _, _ in rows(admin, shape))


@contextmanager
def worker_process(dsn: str, shape: Shape, *tuning: str, **environment: str) -> Generator[Program, None, None]:
    """Run a worker in a process of its own."""
    arguments = (dsn, f"shape={shape}", *tuning)
    with ForkedProgram("tests.support.conformance.worker", *arguments, **environment) as program:
        assert program.line() == "ready"
        yield program


def child_of(worker: Program) -> int:
    """Return the id of the child process in which a handler of this worker runs; it prints to standard error."""
    return int(worker.wait_for_error(r"^child (\d+)")[1])


@asynccontextmanager
async def working(
    dsn: str, shape: Shape, *, work: ConformanceWork | None = None, **tuning: Any
) -> AsyncGenerator[Worker, None]:
    """Run a worker in this process, and drain it at the end."""
    async with actions.working(dsn, work or ConformanceWork(shape, **tuning), DULY_WORKER_CHILDREN=2) as worker:
        yield worker


async def until(admin: Admin, condition: Callable[[], bool], what: str = "it") -> None:
    """Wait for a condition of the database while the worker in this process runs."""
    await asyncio.to_thread(wait_until, admin, condition, what)


async def test_two_workers_with_one_name_run_every_row_once(shape: Shape, workers: str, admin: Admin) -> None:
    add_rows(admin, shape, *(f"say {nth}" for nth in range(300)))
    async with working(workers, shape, slots=7), working(workers, shape, slots=7):
        await until(admin, lambda: all_ended(admin, shape))
    assert {starts for _, _, starts in rows(admin, shape)} == {1}
    ends = "select count(*), count(distinct key) from duly.transition where next_status = %s"
    assert admin.execute(ends, [shape.end]).fetchone() == (300, 300)


async def test_every_way_a_handler_can_fail_becomes_an_outcome(shape: Shape, workers: str, admin: Admin) -> None:
    add_rows(
        admin, shape, "fall ValueError", "fall exit", "fall interrupt", "fall cancel", "fall mute", "give_up", "no_verb"
    )
    async with working(workers, shape):
        await until(admin, lambda: all_ended(admin, shape))
    assert notes(admin, shape) == [
        "VALUE_ERROR ValueError: ValueError",
        "SYSTEM_EXIT SystemExit: FATAL",
        "KEYBOARD_INTERRUPT KeyboardInterrupt",
        "CANCELLED_ERROR CancelledError",
        "UNPRINTABLE_ERROR UnprintableError: (its message cannot be formatted)",
        "REFUSED never",
        "KEY_ERROR KeyError: 'no_verb'",
    ]


REFUSAL = """
create or replace function conformance.refuse() returns trigger language plpgsql as $$
begin
    raise exception 'not this row' using errcode = '{state}';
end
$$;
create trigger refuse before update on {table} for each row when ({when}) execute function conformance.refuse();
"""


def refuse(admin: Admin, shape: Shape, when: str, state: str) -> None:
    """Make updates that meet a condition fail with this SQLSTATE."""
    admin.execute(REFUSAL.format(state=state, when=when, table=shape.table).encode())


def allow(admin: Admin, shape: Shape) -> None:
    """Drop the trigger of `refuse`."""
    admin.execute(f"drop trigger refuse on {shape.table}".encode())


async def test_row_that_exceeds_a_server_limit_fails_alone(shape: Shape, workers: str, admin: Admin) -> None:
    refuse(admin, shape, "new.note = 'large'", "54000")
    add_rows(admin, shape, "say large", *(f"say {nth}" for nth in range(20)))
    async with working(workers, shape):
        await until(admin, lambda: all_ended(admin, shape))
    assert notes(admin, shape)[0].startswith("PROGRAM_LIMIT_EXCEEDED ProgramLimitExceeded")


@pytest.mark.parametrize("state", ["55P03", "57014", "40P01"])
async def test_a_row_locked_by_another_transaction_is_settled_later_and_delays_no_other(
    shape: Shape, workers: str, admin: Admin, state: str
) -> None:
    refuse(admin, shape, "new.note = 'locked'", state)
    add_rows(admin, shape, "say locked", *(f"say {nth}" for nth in range(20)))
    async with working(workers, shape):
        await until(admin, lambda: sum(row[0] == shape.end for row in rows(admin, shape)) == 20)
        allow(admin, shape)
        await until(admin, lambda: all_ended(admin, shape))
    assert rows(admin, shape)[0][1:] == ("locked", 1)


async def test_no_outcome_is_lost_while_the_database_refuses_writes(shape: Shape, workers: str, admin: Admin) -> None:
    add_rows(admin, shape, *(f"say {nth}" for nth in range(20)))
    refuse(admin, shape, f"new.{shape.state} = '{shape.end}'", "25006")
    async with working(workers, shape) as worker:
        await until(admin, lambda: {row[2] for row in rows(admin, shape)} == {1})
        await until(admin, lambda: b'duly_database_errors_total{work_type="' in worker.metrics.render())
        allow(admin, shape)
        await until(admin, lambda: all_ended(admin, shape))
    assert {row[2] for row in rows(admin, shape)} == {1}


async def test_row_whose_handler_call_cannot_be_built_fails_alone(shape: Shape, workers: str, admin: Admin) -> None:
    add_rows(admin, shape, "say one", "nothing", "say two", "nowhere", "say three")
    async with working(workers, shape) as worker:
        await until(admin, lambda: all_ended(admin, shape))
        await until(admin, lambda: not worker.control.work_loops[0].held.rows)
    row_notes = notes(admin, shape)
    assert [row_notes[0], row_notes[2], row_notes[4]] == ["one", "two", "three"]
    assert row_notes[1].startswith("ATTRIBUTE_ERROR AttributeError")
    assert row_notes[3].startswith("TYPE_ERROR TypeError: unknown executor")


async def test_result_of_a_child_process_is_read_as_data_and_runs_no_code(workers: str, admin: Admin) -> None:
    add_rows(admin, PARCEL, "die_in_child trap")
    async with working(workers, PARCEL):
        await until(admin, lambda: all_ended(admin, PARCEL))
    assert "a result must not contain a" in notes(admin, PARCEL)[0]


async def test_one_sweep_returns_many_expired_rows_even_if_one_cannot_be_updated(workers: str, admin: Admin) -> None:
    (bad, *_) = sorted(add_rows(admin, PARCEL, *["say back"] * 300))
    async with await connect(workers) as connection:
        assert len(await claim_rows(connection, PARCEL.table, "gone", lease_seconds=30, limit=300)) == 300
    expire_leases(admin, PARCEL)
    refuse(admin, PARCEL, f"new.id = '{bad}' and new.status = 'WAITING'", "23514")
    async with working(workers, PARCEL, sweep_seconds=3600.0):
        await until(admin, lambda: sum(row[0] == PARCEL.end for row in rows(admin, PARCEL)) == 299)


async def test_a_row_that_cannot_be_claimed_delays_no_other(shape: Shape, workers: str, admin: Admin) -> None:
    (bad, *_) = add_rows(admin, shape, *["say done"] * 5)
    is_bad = f"new.{shape.table.key}::text = '{bad}' and new.{shape.state}::text = '{shape.held}'"
    refuse(admin, shape, is_bad, "23514")
    async with working(workers, shape):
        await until(admin, lambda: sum(row[0] == shape.end for row in rows(admin, shape)) == 4)
        add_rows(admin, shape, "say later")
        await until(admin, lambda: sum(row[0] == shape.end for row in rows(admin, shape)) == 5)
    assert [row[0] for row in rows(admin, shape)].count(shape.ready) == 1


async def test_a_row_that_cannot_be_read_delays_no_other(shape: Shape, workers: str, admin: Admin) -> None:
    add_rows(admin, shape, *["say done"] * 5)
    long_ago = sql.SQL("update {} set {} = '-infinity' where {key} = (select min({key}::text)::{} from {})").format(
        sql.Identifier(*shape.table.qualified_name),
        sql.Identifier(shape.due),
        sql.SQL(shape.key_type),  # type: ignore[arg-type]
        sql.Identifier(*shape.table.qualified_name),
        key=sql.Identifier(shape.table.key),
    )
    admin.execute(long_ago)
    async with working(workers, shape):
        await until(admin, lambda: sum(row[0] == shape.end for row in rows(admin, shape)) == 4)


async def test_a_notification_wakes_a_worker_long_before_the_next_poll(
    shape: Shape, conformance_dsn: str, admin: Admin
) -> None:
    dsn = conformance_dsn  # a pooler would not pass notifications on
    async with working(dsn, shape, poll_seconds=3600.0):
        add_rows(admin, shape, "say early")
        admin.execute("select pg_notify(%s, '')", [f"duly_conformance_{shape}"])
        await until(admin, lambda: all_ended(admin, shape))


async def test_run_once_runs_due_rows_and_ends(shape: Shape, workers: str, admin: Admin) -> None:
    add_rows(admin, shape, "say one", "say two")
    worker = Worker([ConformanceWork(shape)], Settings(), dsn=workers)
    assert await worker.run(once=True) == 2
    assert notes(admin, shape) == ["one", "two"]
    assert await Worker([ConformanceWork(shape)], Settings(), dsn=workers).run(once=True) == 0


async def test_run_once_keeps_its_leases_after_slow_earlier_work(
    shape: Shape, workers: str, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_rows(admin, shape, "say late")
    worker = Worker([ConformanceWork(shape)], Settings(), dsn=workers)
    worker.handlers.responded_at -= 60  # as after a minute of another work type's handlers
    monkeypatch.setattr(worker.handlers, "ping", lambda: None)  # a busy machine, where ticks come late
    assert await worker.run(once=True) == 1
    assert notes(admin, shape) == ["late"]


async def test_one_cycle_with_a_slow_handler_does_not_count_as_an_outage(
    workers: str, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "TICK_SECONDS", 0.05)
    monkeypatch.setattr(control, "PROBE_SECONDS", 0.05)
    monkeypatch.setattr(outage, "LOST_SECONDS", 0.4)
    add_rows(admin, PARCEL, "pause 1.2")
    work = ConformanceWork(PARCEL, lease_seconds=60.0, heartbeat_seconds=15.0)
    with capture_log_lines("info") as lines:
        assert await Worker([work], Settings(), dsn=workers).run(once=True) == 1
    assert "database." not in lines.getvalue()


async def test_the_registry_lists_running_and_stopped_workers(shape: Shape, workers: str, admin: Admin) -> None:
    add_rows(admin, shape, "say hello")
    query = "select worker_id, work_types, slots, stopped_at is null from duly.workers"
    async with working(workers, shape) as worker:
        await until(admin, lambda: all_ended(admin, shape))
        here = admin.execute(query).fetchall()
        assert worker.control.is_ready()
    assert here == [(f"worker-{os.getpid()}", [str(shape)], {str(shape): TUNING.slots}, True)]
    assert admin.execute(query).fetchall() == [
        (f"worker-{os.getpid()}", [str(shape)], {str(shape): TUNING.slots}, False)
    ]


async def test_a_worker_that_is_stopping_is_not_ready_while_its_last_row_runs(workers: str, admin: Admin) -> None:
    add_rows(admin, PARCEL, "wait")
    async with working(workers, PARCEL) as worker:
        await until(admin, lambda: rows(admin, PARCEL)[0][2] == 1 and worker.control.is_ready())
        worker.request_stop()
        assert worker.control.not_ready_reason() == "the worker is stopping"
        assert not worker.control.is_ready()
        assert worker.control.not_alive_reason() is None


def expire_leases(admin: Admin, shape: Shape) -> None:
    """Expire the lease of every leased row."""
    statement = sql.SQL("update {} set {clock} = {clock} - interval '1 hour' where {} = {}").format(
        sql.Identifier(*shape.table.qualified_name),
        sql.Identifier(shape.state),
        shape.held,
        clock=sql.Identifier(shape.renewed[0]),
    )
    admin.execute(statement)


async def test_a_claim_in_progress_at_the_stop_is_released(
    shape: Shape, conformance_dsn: str, workers: str, admin: Admin
) -> None:
    with worker_process(workers, shape, "lease_seconds=60") as worker, psycopg.connect(conformance_dsn) as gate:
        worker.wait_for_error("worker.started")
        gate.execute(sql.SQL("lock table {} in exclusive mode").format(sql.Identifier(*shape.table.qualified_name)))
        gate.execute(
            sql.SQL("insert into {} (note) values ('wait')").format(sql.Identifier(*shape.table.qualified_name))
        )
        wait_until_blocked(conformance_dsn)
        worker.process.send_signal(signal.SIGTERM)
        worker.wait_for_error("stopping")
        gate.commit()
        assert worker.finish() == 0
    assert [row[2] for row in rows(admin, shape)] == [0]


async def test_cancel_request_stops_the_handler_and_becomes_the_outcome(workers: str, admin: Admin) -> None:
    add_rows(admin, PARCEL, "wait", "watchful", "die_in_child loop")
    async with working(workers, PARCEL):
        await until(admin, lambda: [starts for _, _, starts in rows(admin, PARCEL)] == [1, 1, 1])
        admin.execute("update conformance.parcel set cancel_requested_at = duly.clock()")
        await until(admin, lambda: all_ended(admin, PARCEL))
    assert notes(admin, PARCEL) == ["cancelled", "saw cancelled", "cancelled"]


async def test_the_child_processes_of_a_killed_worker_die_with_it(workers: str, admin: Admin) -> None:
    add_rows(admin, PARCEL, "die_in_child print")
    with worker_process(workers, PARCEL) as worker:
        child = child_of(worker)
        worker.kill()
        wait_until_ended(child, SECONDS)


async def test_a_worker_that_failed_and_cannot_close_ends_its_process_with_status_1(
    workers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[str] = []
    has_ended = threading.Event()

    def end_process(failure: BaseException | None) -> None:
        failures.append(str(failure))
        has_ended.set()

    class Unclosable(ConformanceWork):
        async def close(self) -> None:
            await asyncio.to_thread(has_ended.wait, SECONDS)

    async def fail() -> None:
        raise RuntimeError("the control loop failed")

    monkeypatch.setattr(runner, "end_process", end_process)
    monkeypatch.setattr(runner, "HARD_EXIT_SECONDS", 0.2)
    worker = runner.Worker([Unclosable(PARCEL)], Settings(), dsn=workers, owns_process=True)
    monkeypatch.setattr(worker.control, "tick", fail)
    with pytest.raises(RuntimeError, match="the control loop failed"):
        await worker.run()
    assert failures == ["the control loop failed"]
