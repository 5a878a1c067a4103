"""A worker with WORKER_INPUT_MODE=ocr: photographs become versions and events, and hostile ones a sentence."""

import os
import signal
from pathlib import Path
from uuid import UUID, uuid4, uuid5

import pytest

from duly.apps.ingest.repository import SessionTables
from duly.settings import Settings
from duly.storage import open_object_store
from tests.full.apps.ingest.ocr.test_child import REFUSED
from tests.full.apps.ingest.test_worker import CaptureWorker, close, wait_for
from tests.support.ingest.actions import ANNA, CaptureActions
from tests.support.ocr.days import DAY, DAYS, picture

PATIENT = {"OCR_IMAGE_SECONDS": "500"}  # on a machine that has much else to do
pytestmark = pytest.mark.timeout(600)
VERSIONS = "select schedule_date::text, version, session_id from schedule_ingest.schedule_version order by 1"
EVENTS = "select event_type from schedule_ingest.schedule_event where source_session_id = %s order by seq"


def work(captures: CaptureActions, home: Path, **settings: str) -> CaptureWorker:
    """A worker that reads photographs."""
    return CaptureWorker(captures.admin, **{"WORKER_INPUT_MODE": "ocr", "DULY_HOME": str(home), **PATIENT, **settings})


async def send(captures: CaptureActions, home: Path, *images: bytes) -> UUID:
    """A session with these photographs, complete."""
    objects, key = open_object_store(Settings(DULY_HOME=home)), await captures.open()  # type: ignore[call-arg]
    for image in images:
        name = f"screenshots/{ANNA}/{key}/{uuid4()}.jpg"
        await objects.put(name, image)
        async with captures.api.transaction():
            assert await SessionTables().lock_open_session(captures.api, ANNA, key)
            assert await SessionTables().add_image(captures.api, key, name)
    await close(captures, key)
    return key


def find_children(pid: int) -> list[int]:
    """The processes that a worker has started, whichever of its threads did."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


async def test_photographs_become_versions_and_events_although_the_ocr_child_is_killed(
    captures: CaptureActions, tmp_path: Path
) -> None:
    with work(captures, tmp_path) as worker:
        first = await send(captures, tmp_path, picture("before"))
        done = worker.wait_for_event("session.processed")
        assert (done["session_id"], done["schedule_date"], done["input"]) == (str(first), DAY, "ocr")
        assert (done["version"], done["events"], done["images"], done["uncovered"]) == (1, 3, 1, 0)
        (child,) = find_children(worker.pid)
        killed = await send(captures, tmp_path, picture("after"))
        worker.wait_for_event("worker.iteration.start", sessions=1)
        os.kill(child, signal.SIGKILL)
        failed = worker.wait_for_line(lambda line: line["event"].startswith("session."))
        if failed["event"] == "session.failed":  # unless it was read before the signal came
            assert "SIGKILL" in failed["reason"]
            assert "photograph 1 of 1: reading it failed" in failed["reason"]
            wait_for(captures, killed, "failed")
            second = await send(captures, tmp_path, picture("after"))
            worker.wait_for_event("session.processed", session_id=str(second))
        else:
            second = killed
        wait_for(captures, second, "done")
        assert captures.values(EVENTS, second) == ["shift_time_changed", "shift_added"]
        assert worker.finish(signal.SIGTERM) == 0
    with work(captures, tmp_path) as worker:  # another one, and the same day in two columns
        third = await send(captures, tmp_path, picture("grid"))
        again = worker.wait_for_event("session.processed", session_id=str(third))
        assert (again["outcome"], again["version"], again["input"]) == ("unchanged", 2, "ocr")
        wait_for(captures, third, "done")
        assert worker.finish(signal.SIGTERM) == 0
    rebuilt, known = captures.rebuilt()
    assert rebuilt == known
    assert (known[0].start, known[0].customer_name, known[0].city) == ("07:30", "Åke Öberg", "Åby")
    captures.verify()


async def test_a_photograph_that_shows_two_days_creates_a_version_of_each(
    captures: CaptureActions, tmp_path: Path
) -> None:
    monday, tuesday = DAYS
    with work(captures, tmp_path) as worker:
        key = await send(captures, tmp_path, picture("days"))
        first = worker.wait_for_event("session.processed", session_id=str(key))
        other = uuid5(key, tuesday)
        assert (first["schedule_date"], first["input"], first["events"]) == (monday, "ocr", len(DAYS[monday]))
        assert first["further_days"] == [{"schedule_date": tuesday, "session_id": str(other)}]
        second = worker.wait_for_event("session.processed", session_id=str(other))
        assert (second["schedule_date"], second["input"], second["events"]) == (tuesday, "given", len(DAYS[tuesday]))
        wait_for(captures, other, "done")
        assert worker.finish(signal.SIGTERM) == 0
    assert captures.rows(VERSIONS) == [(monday, 1, key), (tuesday, 1, other)]
    captures.verify()


async def test_hostile_photographs_fail_their_sessions_and_the_worker_survives(
    captures: CaptureActions, tmp_path: Path
) -> None:
    with work(captures, tmp_path) as worker:
        for data, message in REFUSED.values():
            key = await send(captures, tmp_path, data)
            failed = worker.wait_for_event("session.failed", session_id=str(key))
            assert failed["reason"].startswith("photograph 1 of 1: ")
            assert message.split(" that ")[0] in failed["reason"] or "bytes, more than" in failed["reason"]
            wait_for(captures, key, "failed")
        assert worker.finish(signal.SIGTERM) == 0
    assert set(captures.counts().values()) == {0}
    captures.verify()


async def test_a_photograph_over_the_time_limit_fails_its_session_and_not_the_worker(
    captures: CaptureActions, tmp_path: Path
) -> None:
    with work(captures, tmp_path, OCR_IMAGE_SECONDS="0.05") as worker:
        key = await send(captures, tmp_path, picture("before"))
        assert "took longer than 0.05 s" in worker.wait_for_event("session.failed", session_id=str(key))["reason"]
        (given,) = await captures.create({"schedule_date": DAY, "entries": []})
        assert worker.wait_for_event("session.processed", session_id=str(given))["input"] == "given"
        assert worker.finish(signal.SIGTERM) == 0
