"""`duly worker --only ingest` as a process: what it logs, when it claims, renews and releases."""

import json
import re
import signal
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from duly.apps.ingest.reading import Input
from duly.apps.ingest.work import CaptureWork
from duly.assembly import build_works
from duly.launcher import ROOT
from duly.settings import load_settings
from tests.support.ingest.actions import ANNA, SCHEMA, TOO_MANY_STARTS, Admin, CaptureActions
from tests.support.ingest.strategies import payload
from tests.support.processes import PYTHON, Program, plain_environment

WORKER = (*PYTHON, "-m", "duly", "worker", "--only", "ingest")
QUICK = {"WORKER_POLL_SECONDS": "0.05", "DULY_SWEEP_SECONDS": "0.1"}
SAYS = {"DULY_LOG_FORMAT": "json", "DULY_LOG_LEVEL": "debug", "WORKER_IDLE_LOG_EVERY": "10000"}
LISTENS = "0A"  # in /proc/net/tcp
SOCKET = re.compile(r"socket:\[(\d+)\]")
Line = Mapping[str, Any]
ENTRY = {"start": "10:00", "end": "14:00", "title": "Cleaning", "location": "Billdal"}


class CaptureWorker(Program):
    """An endless worker of sessions, and its log lines."""

    def __init__(self, admin: Admin, **environment: str) -> None:
        given = {"DATABASE_URL": admin.info.dsn, "WORKER_INPUT_MODE": "fixture", **QUICK, **SAYS, **environment}
        super().__init__(WORKER, environment=plain_environment(**given), directory=ROOT)

    def wait_for_event(self, event: str, **values: object) -> Line:
        """Return the next line of this event with these values."""
        return self.wait_for_line(lambda line: line["event"] == event and values.items() <= line.items())

    def wait_for_line(self, is_it: Callable[[Line], bool]) -> Line:
        """Return the next line that matches."""
        while True:
            line = json.loads(self.line())
            if is_it(line):
                return line

    def started(self) -> Line:
        """Wait until it is up."""
        return self.wait_for_event("worker.started")


async def close(captures: CaptureActions, key: UUID) -> None:
    """Close a session."""
    await captures.api.execute(
        "update schedule_ingest.capture_session set closed_at = duly.clock() where id = %s", [key]
    )


def state(captures: CaptureActions, key: UUID) -> tuple[str, int]:
    """Return the state of a session, and how often it was started."""
    query = "select state::text, starts from schedule_ingest.capture_session where id = %s"
    ((found, starts),) = captures.rows(query, key)
    return found, starts


def add_image(captures: CaptureActions, key: UUID) -> None:
    """Add a photograph."""
    captures.admin.execute(
        "insert into schedule_ingest.capture_image (session_id, sequence, r2_key)"
        " select %(key)s, count(*) + 1, 'a/' || gen_random_uuid() from schedule_ingest.capture_image"
        " where session_id = %(key)s",
        {"key": key},
    )


# Logs -----------------------------------------------------------------------------------------------------------------


async def test_the_capture_worker_logs_iterations_and_their_outcomes(captures: CaptureActions) -> None:
    with CaptureWorker(captures.admin, WORKER_IDLE_LOG_EVERY="3") as worker:
        iterations = [worker.wait_for_line(lambda line: line["event"].startswith("worker.iteration")) for _ in range(4)]
        assert [(line["event"], line["iteration"], line["sessions"]) for line in iterations] == [
            ("worker.iteration.start", 1, 0),
            ("worker.iteration.end", 1, 0),
            ("worker.iteration.start", 4, 0),
            ("worker.iteration.end", 4, 0),
        ]
        key = await captures.open()
        await close(captures, key)
        begun = worker.wait_for_event("worker.iteration.start", sessions=1)
        done = worker.wait_for_event("session.processed")
        assert (done["session_id"], done["correlation_id"], done["user_id"]) == (str(key), str(key), ANNA)
        assert (done["outcome"], done["version"], done["events"], done["notifications"]) == ("changed", 1, 1, 1)
        worker.wait_for_event("worker.iteration.end", sessions=1, iteration=begun["iteration"], changed=1)
        idle = worker.wait_for_event("worker.iteration.start", sessions=0)  # the first of the next idle ones
        assert idle["iteration"] > begun["iteration"]
        assert worker.finish(signal.SIGTERM) == 0
        assert worker.stderr_text() == ""
    captures.verify()


async def test_the_capture_worker_logs_errors_and_continues(captures: CaptureActions, tmp_path: Path) -> None:
    fixture = tmp_path / "day.json"
    fixture.write_text("{")
    with CaptureWorker(captures.admin, FIXTURE_PAYLOAD_PATH=str(fixture)) as worker:
        bad = await captures.open()
        await close(captures, bad)
        failed = worker.wait_for_event("session.failed")
        assert (failed["session_id"], failed["level"]) == (str(bad), "warning")
        assert "is not JSON" in failed["reason"]
        worker.wait_for_event("worker.iteration.end", sessions=1, failed=1)
        captures.admin.execute("revoke update on schedule_ingest.capture_session from duly_worker")
        refusal = worker.wait_for_event("database.refused", source="ingest")
        assert "permission denied" in refusal["error"]["message"]
        captures.admin.execute("grant update on schedule_ingest.capture_session to duly_worker")
        (key,) = await captures.create(payload())
        worker.wait_for_event("session.processed", session_id=str(key))
        assert worker.finish(signal.SIGTERM) == 0
    assert (state(captures, bad), state(captures, key)) == (("failed", 1), ("done", 1))


async def test_the_capture_worker_reads_the_fixture_only_when_configured(captures: CaptureActions) -> None:
    with CaptureWorker(captures.admin, WORKER_INPUT_MODE="", SESSION_IDLE_TIMEOUT_SECONDS="0") as worker:
        key = await captures.open()
        add_image(captures, key)  # which is not in the object store
        failed = worker.wait_for_line(lambda line: line["event"].startswith("session."))
        assert (failed["event"], failed["session_id"]) == ("session.failed", str(key))
        assert failed["reason"].startswith("photograph 1 of 1: ")
        assert worker.finish(signal.SIGTERM) == 0
    assert captures.counts() == dict.fromkeys(captures.counts(), 0)


@pytest.mark.parametrize(
    ("input_mode", "once", "expected_input"),
    [
        ("", False, Input.PHOTOGRAPHS),
        ("", True, Input.FIXTURE),  # as the contract says
        ("fixture", False, Input.FIXTURE),
        ("ocr", True, Input.PHOTOGRAPHS),
    ],
)
def test_by_default_one_cycle_reads_the_fixture_and_the_polling_worker_photographs(
    input_mode: str, once: bool, expected_input: Input, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKER_INPUT_MODE", input_mode)
    (work,) = build_works(load_settings(), ["ingest"], once=once)
    assert isinstance(work, CaptureWork)
    assert work.reader.input is expected_input


async def test_the_capture_worker_opens_no_port(captures: CaptureActions) -> None:
    with CaptureWorker(captures.admin) as worker:
        worker.started()
        (key,) = await captures.create(payload())
        worker.wait_for_event("session.processed", session_id=str(key))
        assert find_sockets(worker.pid)  # it has some: to the database
        assert find_sockets(worker.pid) & listening() == set()
        assert worker.finish(signal.SIGTERM) == 0


def find_sockets(pid: int) -> set[str]:
    """The sockets of a process, by their numbers."""
    links = [str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()]
    return {found[1] for link in links if (found := SOCKET.match(link))}


def listening() -> set[str]:
    """Every socket of this machine that waits for connections from outside."""
    tables = [Path("/proc/net/tcp"), Path("/proc/net/tcp6")]
    rows = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    return {fields[9] for fields in rows if fields[3] == LISTENS}


# When sessions are due ------------------------------------------------------------------------------------------------


async def test_a_session_is_complete_when_its_last_image_is_idle_by_the_database_clock(
    captures: CaptureActions,
) -> None:
    empty, first, second = [await captures.open() for _ in range(3)]
    with CaptureWorker(captures.admin, SESSION_IDLE_TIMEOUT_SECONDS="3600", WORKER_IDLE_LOG_EVERY="1") as worker:
        add_image(captures, first)
        add_image(captures, second)
        captures.advance_clock(1800)
        add_image(captures, second)
        for _ in range(30):  # polls: more than a second
            worker.wait_for_event("worker.iteration.end", sessions=0)
        assert {state(captures, key) for key in (empty, first, second)} == {("pending", 0)}
        captures.advance_clock(1801)
        worker.wait_for_event("session.processed", session_id=str(first))
        assert state(captures, second) == ("pending", 0)
        captures.advance_clock(1800)
        worker.wait_for_event("session.processed", session_id=str(second))
        assert worker.finish(signal.SIGTERM) == 0
    assert state(captures, empty) == ("pending", 0)  # without an image it is never complete by itself
    assert captures.path(first) == ["pending", "pending", "processing", "done"]


async def test_an_idle_session_becomes_complete_while_another_cannot_be_claimed(
    captures: CaptureActions,
) -> None:
    (bad,) = await captures.create(payload(ENTRY), user=13)
    idle = await captures.open()
    add_image(captures, idle)
    captures.admin.execute(f"alter table {SCHEMA}.capture_session add check (user_id <> 13 or starts = 0)".encode())
    with CaptureWorker(captures.admin, SESSION_IDLE_TIMEOUT_SECONDS="3600") as worker:
        worker.wait_for_event("claim.refused", row_id=str(bad))
        assert state(captures, idle) == ("pending", 0)
        captures.advance_clock(3601)
        worker.wait_for_event("session.processed", session_id=str(idle))
        assert worker.finish(signal.SIGTERM) == 0
    assert (state(captures, bad), state(captures, idle)) == (("pending", 0), ("done", 1))


# Leases ---------------------------------------------------------------------------------------------------------------


async def test_heartbeats_keep_a_session_for_longer_than_one_lease(captures: CaptureActions) -> None:
    """Although another worker claims expired sessions all the time."""
    slow = {"LEASE_TIMEOUT_SECONDS": "60", "LEASE_HEARTBEAT_SECONDS": "0.1", "SIMULATED_WORK_SECONDS": "10"}
    with CaptureWorker(captures.admin, **slow) as holder:
        holder.started()
        key = await captures.open()
        await close(captures, key)
        wait_for(captures, key, "processing")
        with CaptureWorker(captures.admin) as other:
            other.started()
            for _ in range(3):
                captures.advance_clock(50)
                wait_for_renewal(captures, key)
            ended = [worker.finish(signal.SIGTERM) for worker in (holder, other)]
    assert ended == [0, 0]
    assert state(captures, key) == ("done", 1)
    assert captures.path(key) == ["pending", "pending", "processing", "done"]


def wait_for(captures: CaptureActions, key: UUID, wanted_state: str) -> None:
    """Wait until a session has this state."""
    while state(captures, key)[0] != wanted_state:
        captures.admin.execute("select pg_sleep(0.01)")


def wait_for_renewal(captures: CaptureActions, key: UUID) -> None:
    """Wait until the lease was renewed after the clock was moved."""
    query = "select locked_at > duly.clock() - interval '40 s' from schedule_ingest.capture_session where id = %s"
    while not captures.one(query, key):
        assert state(captures, key) == ("processing", 1)
        captures.admin.execute("select pg_sleep(0.01)")


async def test_without_heartbeats_a_worker_stops_before_its_lease_expires(
    captures: CaptureActions,
) -> None:
    (key,) = await captures.create(payload())
    lease = 6.0
    slow = {
        "ENABLE_LEASE_HEARTBEAT": "false",
        "LEASE_TIMEOUT_SECONDS": str(lease),
        "SIMULATED_WORK_SECONDS": "600",
        "DULY_SWEEP_SECONDS": "60",
    }
    with CaptureWorker(captures.admin, **slow) as holder:
        lost = holder.wait_for_event("lease.lost", row_id=str(key))
        assert "ran longer than its lease of 6 s, which is not renewed" in lost["why"]
        ((began,),) = captures.rows("select locked_at from schedule_ingest.capture_session")
        assert at(lost) < began + timedelta(seconds=lease)
        with CaptureWorker(captures.admin) as other:
            other.wait_for_event("session.processed", session_id=str(key))
            assert other.finish(signal.SIGTERM) == 0
        assert holder.finish(signal.SIGTERM) == 0
    assert state(captures, key) == ("done", 2)  # the first start counts
    captures.verify()


def at(line: Line) -> datetime:
    """When a line was written."""
    return datetime.fromisoformat(line["ts"]).astimezone(UTC)


async def test_a_session_that_takes_longer_than_its_unrenewed_lease_fails_in_the_end(captures: CaptureActions) -> None:
    (key,) = await captures.create(payload())
    slow = {"ENABLE_LEASE_HEARTBEAT": "false", "LEASE_TIMEOUT_SECONDS": "0.5", "SIMULATED_WORK_SECONDS": "600"}
    with CaptureWorker(captures.admin, **slow) as worker:
        wait_for(captures, key, "failed")
        assert worker.finish(signal.SIGTERM) == 0
    assert state(captures, key) == ("failed", 5)
    assert captures.one("select error from schedule_ingest.capture_session") == TOO_MANY_STARTS
    captures.verify()


# Releasing and failing ------------------------------------------------------------------------------------------------


async def test_a_stopping_worker_releases_its_sessions_and_another_finishes_them_at_once(
    captures: CaptureActions,
) -> None:
    keys = await captures.create(*(payload(date=f"2026-02-{day}") for day in (10, 11, 12)))
    with CaptureWorker(captures.admin, SIMULATED_WORK_SECONDS="600", DULY_STOP_SECONDS="0.5") as worker:
        worker.wait_for_event("worker.iteration.start", sessions=3)
        assert worker.finish(signal.SIGTERM) == 0
    assert {state(captures, key) for key in keys} == {("processing", 0)}  # the start was not counted
    with CaptureWorker(captures.admin) as other:
        for _ in keys:
            other.wait_for_event("session.processed")
        assert other.finish(signal.SIGTERM) == 0
    assert {state(captures, key) for key in keys} == {("done", 1)}
    captures.verify()


@pytest.mark.parametrize("name", ["schedule_version", "schedule_event", "schedule_notification"])
async def test_a_session_whose_result_cannot_be_written_fails_without_partial_rows(
    captures: CaptureActions, name: str
) -> None:
    """Whichever of a session's rows the database refuses, none of the others is written."""
    (bad,) = await captures.create(payload(ENTRY), user=13)
    (good,) = await captures.create(payload(ENTRY))
    captures.admin.execute(f"alter table {SCHEMA}.{name} add check (user_id <> 13)".encode())
    with CaptureWorker(captures.admin) as worker:
        failed = worker.wait_for_event("session.failed", session_id=str(bad))
        wait_for(captures, good, "done")
        assert worker.finish(signal.SIGTERM) == 0
    assert failed["reason"].startswith("It could not be processed, and that is not your fault")
    assert captures.one("select error from schedule_ingest.capture_session where id = %s", bad) == failed["reason"]
    assert captures.counts() == dict.fromkeys(captures.counts(), 1)
    assert captures.values("select user_id from schedule_ingest.day_snapshot") == [ANNA]
