"""Infrastructure errors never fail a session: no database, no object store, rejected credentials, no OCR engine."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from uuid import UUID, uuid4

import httpx2
import pytest
from moto.server import ThreadedMotoServer

from duly.apps.ingest import infrastructure_errors
from duly.apps.ingest.ocr.block_fields import RecognisedShift
from duly.apps.ingest.ocr.engine import EngineConfig
from duly.apps.ingest.ocr.reader import RecognisedDay
from duly.apps.ingest.photographs import OcrRunner, PhotographReader
from duly.apps.ingest.repository import SessionTables
from duly.apps.ingest.work import CaptureOptions, CaptureWork
from duly.assembly import build_works
from duly.backoff import Backoff
from duly.executors.call import Call
from duly.executors.process_pool import ProcessPool
from duly.lease.work import Tuning
from duly.outcomes import Failed
from duly.settings import Settings
from duly.storage import ObjectStore, open_object_store
from duly.worker.runner import Worker
from tests.full.apps.ingest.test_worker import close, state
from tests.support.actions import working
from tests.support.ingest.actions import CaptureActions
from tests.support.ingest.strategies import payload
from tests.support.proxy import Proxy
from tests.support.storage.s3_server import BUCKET, S3Server

TUNING = Tuning(lease_seconds=30, heartbeat_seconds=0.2, poll_seconds=0.1, sweep_seconds=0.2, slots=20)
DAY = "2026-02-10"
LIST_IMAGES = b"order by sequence"
ENDED = """
select key::uuid from duly.transition where machine = 'capture' and next_status in ('done', 'failed') order by ts
"""


@pytest.fixture(autouse=True)
def short_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the delay between retries."""
    monkeypatch.setattr(infrastructure_errors, "RETRY", Backoff(base_seconds=0.01, cap_seconds=0.05))


@pytest.fixture
def objects(tmp_path: Path) -> ObjectStore:
    """An object store that works."""
    return open_object_store(Settings(DULY_HOME=tmp_path))  # type: ignore[call-arg]


def recognise_slowly(data: bytes) -> tuple[RecognisedDay, ...]:
    """Return a day after as many seconds as the photograph says; runs in a child process."""
    threading.Event().wait(float(data))
    card = RecognisedShift("07:00", "09:00", "Städning", "Anna", "Askim", "", 0.99)
    return (RecognisedDay(DAY, (card,), (), shows_day_start=True, shows_day_end=True),)


class RecordingRunner:
    """Recognises photographs in a child process; the prepared answers come first."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.photographs: list[bytes] = []
        self.children = ProcessPool(1)

    async def __call__(self, call: Call) -> object:
        """Return the next answer."""
        if self.answers:
            return self.answers.pop(0)
        self.photographs.append(call.arguments[0])
        return await self.children.perform(replace(call, function=recognise_slowly, arguments=call.arguments[:1]))


def reading(
    objects: ObjectStore, runner: RecordingRunner, *, image_seconds: float = 30.0, **rules: float
) -> CaptureWork:
    """Return work that reads photographs with one child process."""
    reader = PhotographReader(
        objects, OcrRunner(runner, EngineConfig(), 2026, seconds=image_seconds), runner.children.close
    )
    return CaptureWork(reader, TUNING, CaptureOptions(due="created_at", **rules))  # type: ignore[arg-type]


async def send(captures: CaptureActions, objects: ObjectStore, *images: str, user: int) -> UUID:
    """Create a closed session with photographs that take this long to recognise."""
    key = await captures.open(user)
    for image in images:
        name = f"screenshots/{user}/{key}/{uuid4()}.jpg"
        await objects.put(name, image.encode())
        async with captures.api.transaction():
            assert await SessionTables().lock_open_session(captures.api, user, key)
            assert await SessionTables().add_image(captures.api, key, name)
    await close(captures, key)
    return key


def are_over(captures: CaptureActions, keys: Sequence[UUID]) -> bool:
    """Check whether each of these sessions is done or failed."""
    return all(state(captures, key)[0] in ("done", "failed") for key in keys)


def released_sessions(worker: Worker) -> float:
    """Return how many sessions a worker released."""
    return worker.metrics.registry.get_sample_value("duly_released_total", {"work_type": "ingest"}) or 0.0


def read_logs(capfd: pytest.CaptureFixture[str]) -> str:
    """Return what was logged since the last call."""
    captured = capfd.readouterr()
    return captured.out + captured.err


# Waiting in the queue -------------------------------------------------------------------------------------------------


async def test_a_backlog_is_read_session_by_session_and_waiting_does_not_count_as_reading(
    captures: CaptureActions, dsn: str, objects: ObjectStore
) -> None:
    """Together they take six times as long as the timeout of a reader that does not limit its own time."""
    keys = [await send(captures, objects, *[f"0.20{nth}"] * 2, user=nth) for nth in range(1, 9)]
    (given,) = await captures.create(payload(), user=99)
    runner = RecordingRunner()
    async with working(dsn, reading(objects, runner, read_seconds=0.5)):
        await captures.until(lambda: are_over(captures, [*keys, given]))
    assert {state(captures, key) for key in (*keys, given)} == {("done", 1)}
    assert runner.photographs[::2] == runner.photographs[1::2]  # each session is read to its end before the next
    assert captures.values(ENDED).index(given) < 2  # data has nothing to wait for
    captures.verify()


async def test_a_timeout_counts_one_photograph_and_fails_only_its_session(
    captures: CaptureActions, dsn: str, objects: ObjectStore
) -> None:
    slow, *others = [
        await send(captures, objects, seconds, user=nth) for nth, seconds in enumerate(("60", "0", "0"), 1)
    ]
    async with working(dsn, reading(objects, RecordingRunner(), image_seconds=1.0)):
        await captures.until(lambda: are_over(captures, [slow, *others]))
    assert state(captures, slow) == ("failed", 1)
    assert captures.one("select error from schedule_ingest.capture_session where id = %s", slow) == (
        "photograph 1 of 1: reading it took longer than 1 s; send a smaller or clearer photograph"
    )
    assert {state(captures, key) for key in others} == {("done", 1)}


async def test_a_worker_that_reads_photographs_has_few_slots_by_default(
    tmp_path: Path,
) -> None:
    def slots(**given: str) -> int:
        (work,) = build_works(Settings(DULY_HOME=tmp_path, **given), ["ingest"])  # type: ignore[arg-type]
        return work.tuning.slots

    assert slots(WORKER_INPUT_MODE="fixture") == 50
    assert slots(WORKER_INPUT_MODE="ocr") == 8
    assert slots(WORKER_INPUT_MODE="ocr", DULY_WORKER_SLOTS="3") == 3
    assert (
        slots(WORKER_INPUT_MODE="ocr", ENABLE_LEASE_HEARTBEAT="false") == 1
    )  # leases of waiting sessions would not be renewed


# The database ---------------------------------------------------------------------------------------------------------


async def test_a_connection_lost_right_after_the_claim_fails_no_session(
    captures: CaptureActions, dsn: str, objects: ObjectStore
) -> None:
    key = await send(captures, objects, "0", user=1)
    with Proxy(dsn) as proxy:
        proxy.cut_before(LIST_IMAGES)
        async with working(proxy.address, reading(objects, RecordingRunner())):
            await captures.until(lambda: are_over(captures, [key]))
        assert proxy.connections_cut == 1
    assert state(captures, key) == ("done", 1)


async def test_a_database_error_that_persists_releases_the_session(
    captures: CaptureActions, dsn: str, objects: ObjectStore, capfd: pytest.CaptureFixture[str]
) -> None:
    key = await send(captures, objects, "0", user=1)
    captures.admin.execute("alter table schedule_ingest.capture_image rename column r2_key to elsewhere")
    async with working(dsn, reading(objects, RecordingRunner(), infrastructure_retry_seconds=0.2)) as worker:
        await captures.until(lambda: released_sessions(worker) > TUNING.max_starts)
        assert "does not exist" in read_logs(capfd)
        assert state(captures, key)[0] == "processing"
        captures.admin.execute("alter table schedule_ingest.capture_image rename column elsewhere to r2_key")
        await captures.until(lambda: are_over(captures, [key]))
    assert state(captures, key) == ("done", 1)
    captures.verify()


# The object store and the engine --------------------------------------------------------------------------------------


async def test_rejected_credentials_of_the_object_store_fail_no_session(
    captures: CaptureActions, dsn: str, capfd: pytest.CaptureFixture[str]
) -> None:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        before = require_credentials_after(endpoint, after="inf")
        httpx2.put(f"{endpoint}/{BUCKET}").raise_for_status()
        objects = open_object_store(S3Server(endpoint, "key", "secret").settings())
        keys = [await send(captures, objects, "0", user=nth) for nth in range(1, 4)]
        require_credentials_after(endpoint, after="0")  # from now on our credentials are rejected
        async with working(dsn, reading(objects, RecordingRunner(), infrastructure_retry_seconds=0.5)) as worker:
            await captures.until(lambda: released_sessions(worker) > len(keys))
            logs = read_logs(capfd)
            assert "correct R2_ACCESS_KEY_ID and R2_SECRET_ACCESS_KEY" in logs
            assert "error" in logs
            assert not {state(captures, key)[0] for key in keys} & {"done", "failed"}
            require_credentials_after(endpoint, after="inf")
            await captures.until(lambda: are_over(captures, keys))
        require_credentials_after(endpoint, after=before)
    finally:
        server.stop()
    assert {state(captures, key) for key in keys} == {("done", 1)}
    captures.verify()


def require_credentials_after(endpoint: str, after: str) -> str:
    """Set after how many requests the test servers check credentials; return the previous setting."""
    answer = httpx2.post(f"{endpoint}/moto-api/reset-auth", content=after.encode()).raise_for_status()
    return answer.json()["PREVIOUS_INITIAL_NO_AUTH_ACTION_COUNT"]


async def test_a_missing_ocr_engine_fails_no_session(
    captures: CaptureActions, dsn: str, objects: ObjectStore, capfd: pytest.CaptureFixture[str]
) -> None:
    key = await send(captures, objects, "0", user=1)
    missing = Failed("MISSING_EXTRA", "the extra ocr is not there; install it with: pip install duly[ocr]")
    async with working(dsn, reading(objects, RecordingRunner(missing, missing))):
        await captures.until(lambda: are_over(captures, [key]))
    assert state(captures, key) == ("done", 1)
    assert read_logs(capfd).count("install it with: pip install duly[ocr]") == 2
