"""Jobs in a running worker: whatever handlers do, the ledger says it, and their neighbours do not notice."""

import asyncio
import json
import signal
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from duly.kernel.work import Pace
from duly.ledger.work import JobWork
from duly.settings import Settings
from duly.worker.runtime import Worker
from tests.ledger.hands import ORG, Hands
from tests.support.processes import PYTHON, Program, plain_environment
from tests.support.shop import app

Admin = psycopg.Connection[Any]
PACE = Pace(lease_seconds=30, heartbeat_seconds=0.2, poll_seconds=0.1, sweep_seconds=0.5)
WORKER = (*PYTHON, "-m", "duly", "worker", "--app", "tests.support.shop:app")
SECONDS = 40.0


@pytest.fixture
def worker_dsn(admin: Admin) -> str:
    """Where workers connect, as themselves."""
    return make_conninfo(admin.info.dsn, user="duly_worker")


@asynccontextmanager
async def working(dsn: str, pace: Pace = PACE) -> AsyncGenerator[Worker, None]:
    """A worker in this process, stopped politely at the end."""
    worker = Worker([JobWork(app.handlers(), pace)], Settings(DULY_STOP_SECONDS=5), dsn=dsn)  # type: ignore[call-arg]
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.ask_to_stop()
        await running


async def until(admin: Admin, condition: Callable[[], bool]) -> None:
    """Wait for something in the database while the worker in this process goes on."""

    def wait() -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, admin.execute("select type, status, stage from ledger.job").fetchall()
            admin.execute("select pg_sleep(0.02)")

    await asyncio.to_thread(wait)


def all_finished(hands: Hands) -> bool:
    return all(hands.look("finished_at"))


async def test_children_that_end_badly_are_dead_letters_and_neighbours_do_not_notice(
    hands: Hands, worker_dsn: str
) -> None:
    ways = ["exit", "abort", "memory", "loop"]
    for how in ways:
        hands.put("alone", payload={"how": how}, max_attempts=2, backoff_policy="none")
    hands.put("alone", payload={"how": "well"})
    hands.put("greet", rows=20)
    async with working(worker_dsn):
        await until(hands.admin, lambda: all_finished(hands))
    rows = hands.look("type", "status", "starts", "last_error_code")
    assert rows[:4] == [
        ("alone", "dead_letter", 2, "CRASHED"),
        ("alone", "dead_letter", 2, "CRASHED"),
        ("alone", "dead_letter", 2, rows[2][3]),
        ("alone", "dead_letter", 2, "TIMEOUT"),
    ]
    assert rows[2][3] in ("CRASHED", "UNKNOWN_ERROR")  # killed for its memory, or refused it
    assert rows[4:] == [("alone", "succeeded", 1, None), *[("greet", "succeeded", 1, None)] * 20]
    hands.verify()


async def test_a_job_that_its_handler_ended_itself_is_counted_as_done(hands: Hands, worker_dsn: str) -> None:
    hands.put("order", payload={"name": "Anna"})
    async with working(worker_dsn) as worker:
        await until(hands.admin, lambda: len(hands.look("status")) == 2 and all_finished(hands))
    assert hands.look("type", "status") == [("order", "succeeded"), ("greet", "succeeded")]
    told = worker.metrics.registry.get_sample_value("duly_settled_total", {"kind": "ledger", "outcome": "done"})
    assert told == 2


async def test_a_handler_that_takes_too_long_fails_with_its_own_code(hands: Hands, worker_dsn: str) -> None:
    hands.put("slow", max_attempts=1)
    async with working(worker_dsn):
        await until(hands.admin, lambda: all_finished(hands))
    assert hands.look("status", "last_error_code", "last_error_message") == [
        ("dead_letter", "TIMEOUT", "took longer than 0.2 s")
    ]


async def test_a_running_job_that_is_asked_to_stop_does_and_is_canceled(hands: Hands, worker_dsn: str) -> None:
    (job,) = hands.put("patient")
    async with working(worker_dsn):
        await until(hands.admin, lambda: hands.look("stage") == ["waiting"])
        hands.admin.execute("update ledger.job set cancel_requested_at = duly.clock()")
        await until(hands.admin, lambda: all_finished(hands))
    assert hands.path(job)[-1] == "canceled"
    hands.verify()


async def test_limits_are_those_of_the_declarations(hands: Hands, worker_dsn: str) -> None:
    hands.admin.execute("insert into ledger.job_limit (type, most) values ('slow', 7)")
    async with working(worker_dsn) as worker:
        await until(hands.admin, lambda: worker.control.is_registered)
        limits = hands.admin.execute("select type, most from ledger.job_limit where most is not null").fetchall()
        kinds = hands.admin.execute("select kinds from duly.workers").fetchone()
    assert limits == [("greet", 2)]
    assert kinds
    assert {"ledger", "ledger:default/greet", "ledger:default/alone"} <= set(kinds[0])


async def test_what_has_been_kept_long_enough_is_removed(hands: Hands, worker_dsn: str) -> None:
    hands.put("greet", rows=3, retain_for="1 day")
    async with working(worker_dsn):
        await until(hands.admin, lambda: all_finished(hands))
    hands.pass_time(86_400 + 60)
    hands.put("greet")
    async with working(worker_dsn):
        await until(hands.admin, lambda: hands.look("status") == ["succeeded"])
    assert hands.admin.execute("select count(*) from ledger.job_event").fetchone() == (3,)
    hands.verify()


async def test_types_and_queues_without_a_handler_are_left_alone(hands: Hands, worker_dsn: str) -> None:
    hands.put("unheard_of")
    hands.put("greet", queue="elsewhere")
    hands.put("greet")
    assert await Worker([JobWork(app.handlers(), PACE)], Settings(), dsn=worker_dsn).run(once=True) == 1
    assert hands.look("type", "queue", "status") == [
        ("unheard_of", "default", "queued"),
        ("greet", "elsewhere", "queued"),
        ("greet", "default", "succeeded"),
    ]


async def test_a_burst_behind_a_floor_is_all_done(hands: Hands, worker_dsn: str) -> None:
    payloads = [Jsonb({"name": "a"})] * 500
    hands.admin.execute("select count(*) from ledger.enqueue_many(%s, 'order', %s)", [ORG, payloads])
    pace = Pace(poll_seconds=0.1, slots=20, batch=20)
    asked = "select count(*) from ledger.job where type = 'order' and finished_at is null"
    async with working(worker_dsn, pace):
        await until(hands.admin, lambda: hands.admin.execute(asked).fetchone() == (0,))
    hands.verify()


# Through the door -----------------------------------------------------------------------------------------------------


def environment(database: str, **more: str) -> dict[str, str]:
    return plain_environment(DATABASE_URL=database, DULY_LOG_FORMAT="json", **more)


def test_a_worker_with_an_app_performs_its_jobs(hands: Hands) -> None:
    hands.put("greet", payload={"name": "anna"})
    hands.put("alone", payload={"how": "well"})
    command = (*WORKER, "--once", "--json")
    with Program(command, environment=environment(hands.admin.info.dsn, DULY_LOG_LEVEL="error")) as worker:
        assert json.loads(worker.line()) == {"rows": 2}
        assert worker.finish() == 0
    assert hands.look("result") == ["hello anna", "alone well"]


def test_a_killed_workers_job_comes_back_and_the_log_says_crashed(hands: Hands) -> None:
    (job,) = hands.put("patient", backoff_policy="none")
    with Program(WORKER, environment=environment(hands.admin.info.dsn)) as worker:
        deadline = time.monotonic() + SECONDS
        while hands.look("stage") != ["waiting"]:
            assert time.monotonic() < deadline
            hands.admin.execute("select pg_sleep(0.02)")
        worker.process.send_signal(signal.SIGKILL)
        worker.process.wait(SECONDS)
    hands.pass_time(61)
    command = (*PYTHON, "-m", "duly", "worker", "--once")  # without handlers it sweeps all the same
    with Program(command, environment=environment(hands.admin.info.dsn)) as sweeper:
        assert sweeper.finish() == 0
    assert hands.path(job) == ["queued", "running", "running", "failed", "queued"]
    assert hands.look("last_error_code") == ["CRASHED"]
    hands.verify()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("shop", "module:variable"),
        ("no.such.shop:app", "there is no module 'no'"),
        ("tests.support.shop:shop", "has no 'shop'"),
        ("tests.support.shop:Oops", "not a duly.App"),
    ],
)
def test_an_app_that_cannot_be_had_is_refused_with_the_reason(database: str, name: str, words: str) -> None:
    with Program((*WORKER[:-1], name), environment=environment(database)) as worker:
        assert worker.finish() == 2
        assert words in worker.said()
