"""Sessions with photographs fail for what they show, never for the house: no turn, no database, no key, no engine."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from uuid import UUID, uuid4

import httpx2
import pytest
from moto.server import ThreadedMotoServer

from duly.apps.ingest import patience, repository
from duly.apps.ingest.ocr.engine import Equipment
from duly.apps.ingest.ocr.layout import Card
from duly.apps.ingest.ocr.page import Page as Seen
from duly.apps.ingest.photographs import Eyes, PhotographReader
from duly.apps.ingest.work import CaptureWork, Rules
from duly.backoff import Backoff
from duly.executors.call import Call
from duly.executors.process_pool import Children
from duly.lease.work import Tuning
from duly.outcomes import Failed
from duly.settings import Settings
from duly.storage import Objects, open_objects
from duly.wiring import works_of
from duly.worker.runner import Worker
from tests.full.apps.ingest.test_worker import close, state
from tests.support.actions import working
from tests.support.ingest.actions import SCHEMA, CaptureActions
from tests.support.ingest.strategies import payload
from tests.support.proxy import Proxy
from tests.support.storage.shelf import BUCKET, Shelf

TUNING = Tuning(lease_seconds=30, heartbeat_seconds=0.2, poll_seconds=0.1, sweep_seconds=0.2, slots=20)
DAY = "2026-02-10"
LIST_IMAGES = b"order by sequence"
ENDED = """
select key::uuid from duly.transition where machine = 'capture' and next_status in ('done', 'failed') order by ts
"""


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for something to be mended looks often."""
    monkeypatch.setattr(patience, "RETRY", Backoff(base_seconds=0.01, cap_seconds=0.05))


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    """A store that serves."""
    return open_objects(Settings(DULY_HOME=tmp_path))  # type: ignore[call-arg]


def glimpse(data: bytes) -> tuple[Seen, ...]:
    """In a child: look for as long as the photograph says, then see a day."""
    threading.Event().wait(float(data))
    card = Card("07:00", "09:00", "Städning", "Anna", "Askim", "", 0.99)
    return (Seen(DAY, (card,), (), begins=True, ends=True),)


class Eyelids:
    """Has a child look at every photograph, for as long as it says; first come answers that a test has for it."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.looked_at: list[bytes] = []
        self.children = Children(1)

    async def __call__(self, call: Call) -> object:
        """What came of it."""
        if self.answers:
            return self.answers.pop(0)
        self.looked_at.append(call.arguments[0])
        return await self.children.perform(replace(call, function=glimpse, arguments=call.arguments[:1]))


def reading(objects: Objects, eyelids: Eyelids, *, image_seconds: float = 30.0, **rules: float) -> CaptureWork:
    """Work that reads photographs with one child."""
    reader = PhotographReader(objects, Eyes(eyelids, Equipment(), 2026, seconds=image_seconds), eyelids.children.close)
    return CaptureWork(reader, TUNING, Rules(due="created_at", **rules))  # type: ignore[arg-type]


async def send(captures: CaptureActions, objects: Objects, *images: str, user: int) -> UUID:
    """A complete session with photographs that take a child so long."""
    key = await captures.open(user)
    for image in images:
        name = f"screenshots/{user}/{key}/{uuid4()}.jpg"
        await objects.put(name, image.encode())
        async with captures.api.transaction():
            assert await repository.lock_open_session(captures.api, SCHEMA, user, key)
            assert await repository.add_image(captures.api, SCHEMA, key, name)
    await close(captures, key)
    return key


def are_over(captures: CaptureActions, keys: Sequence[UUID]) -> bool:
    """Has each of these ended?"""
    return all(state(captures, key)[0] in ("done", "failed") for key in keys)


def handed_back(worker: Worker) -> float:
    """How many sessions a worker gave back."""
    return worker.metrics.registry.get_sample_value("duly_handed_back_total", {"kind": "ingest"}) or 0.0


def said(capfd: pytest.CaptureFixture[str]) -> str:
    """What was logged since the last time."""
    told = capfd.readouterr()
    return told.out + told.err


# Waiting for a turn ---------------------------------------------------------------------------------------------------


async def test_a_backlog_is_read_session_by_session_and_nobody_runs_out_of_time_in_the_line(
    captures: CaptureActions, dsn: str, objects: Objects
) -> None:
    """Together they take six times as long as any reader may that does not watch its own time."""
    keys = [await send(captures, objects, *[f"0.20{nth}"] * 2, user=nth) for nth in range(1, 9)]
    (given,) = await captures.create(payload(), user=99)
    eyelids = Eyelids()
    async with working(dsn, reading(objects, eyelids, read_seconds=0.5)):
        await captures.until(lambda: are_over(captures, [*keys, given]))
    assert {state(captures, key) for key in (*keys, given)} == {("done", 1)}
    assert eyelids.looked_at[::2] == eyelids.looked_at[1::2]  # each to its end, and not all at the end
    assert captures.values(ENDED).index(given) < 2  # data has nothing to wait for
    captures.verify()


async def test_only_a_photographs_own_time_is_counted_and_fails_only_its_session(
    captures: CaptureActions, dsn: str, objects: Objects
) -> None:
    slow, *others = [
        await send(captures, objects, seconds, user=nth) for nth, seconds in enumerate(("60", "0", "0"), 1)
    ]
    async with working(dsn, reading(objects, Eyelids(), image_seconds=1.0)):
        await captures.until(lambda: are_over(captures, [slow, *others]))
    assert state(captures, slow) == ("failed", 1)
    assert captures.one("select error from schedule_ingest.capture_session where id = %s", slow) == (
        "photograph 1 of 1: reading it took longer than 1 s; send a smaller or clearer photograph"
    )
    assert {state(captures, key) for key in others} == {("done", 1)}


async def test_a_worker_that_reads_photographs_holds_a_few_sessions_and_leaves_the_rest_to_others(
    tmp_path: Path,
) -> None:
    def slots(**given: str) -> int:
        (work,) = works_of(Settings(DULY_HOME=tmp_path, **given), ["ingest"])  # type: ignore[arg-type]
        return work.tuning.slots

    assert slots(WORKER_INPUT_MODE="fixture") == 50
    assert slots(WORKER_INPUT_MODE="ocr") == 8
    assert slots(WORKER_INPUT_MODE="ocr", DULY_WORKER_SLOTS="3") == 3
    assert slots(WORKER_INPUT_MODE="ocr", ENABLE_LEASE_HEARTBEAT="false") == 1  # nobody would renew those that wait


# The database ---------------------------------------------------------------------------------------------------------


async def test_a_database_that_goes_right_after_the_claim_fails_no_session(
    captures: CaptureActions, dsn: str, objects: Objects
) -> None:
    key = await send(captures, objects, "0", user=1)
    with Proxy(dsn) as proxy:
        proxy.cut_before(LIST_IMAGES)
        async with working(proxy.address, reading(objects, Eyelids())):
            await captures.until(lambda: are_over(captures, [key]))
        assert proxy.connections_cut == 1
    assert state(captures, key) == ("done", 1)


async def test_a_database_that_stays_away_gets_the_session_back_unblamed(
    captures: CaptureActions, dsn: str, objects: Objects, capfd: pytest.CaptureFixture[str]
) -> None:
    key = await send(captures, objects, "0", user=1)
    captures.admin.execute("alter table schedule_ingest.capture_image rename column r2_key to elsewhere")
    async with working(dsn, reading(objects, Eyelids(), patience_seconds=0.2)) as worker:
        await captures.until(lambda: handed_back(worker) > TUNING.max_starts)
        assert "does not exist" in said(capfd)
        assert state(captures, key)[0] == "processing"
        captures.admin.execute("alter table schedule_ingest.capture_image rename column elsewhere to r2_key")
        await captures.until(lambda: are_over(captures, [key]))
    assert state(captures, key) == ("done", 1)
    captures.verify()


# The store and the engine ---------------------------------------------------------------------------------------------


async def test_a_store_that_refuses_us_empties_no_queue_and_serves_once_it_is_right(
    captures: CaptureActions, dsn: str, capfd: pytest.CaptureFixture[str]
) -> None:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        before = ask_for_keys(endpoint, after="inf")
        httpx2.put(f"{endpoint}/{BUCKET}").raise_for_status()
        objects = open_objects(Shelf(endpoint, "key", "secret").settings())
        keys = [await send(captures, objects, "0", user=nth) for nth in range(1, 4)]
        ask_for_keys(endpoint, after="0")  # from now on ours is none
        async with working(dsn, reading(objects, Eyelids(), patience_seconds=0.5)) as worker:
            await captures.until(lambda: handed_back(worker) > len(keys))
            told = said(capfd)
            assert "correct R2_ACCESS_KEY_ID and R2_SECRET_ACCESS_KEY" in told
            assert "error" in told
            assert not {state(captures, key)[0] for key in keys} & {"done", "failed"}
            ask_for_keys(endpoint, after="inf")
            await captures.until(lambda: are_over(captures, keys))
        ask_for_keys(endpoint, after=before)
    finally:
        server.stop()
    assert {state(captures, key) for key in keys} == {("done", 1)}
    captures.verify()


def ask_for_keys(endpoint: str, after: str) -> str:
    """From how many requests on all such stores of this process want keys that they know; what it was before."""
    answer = httpx2.post(f"{endpoint}/moto-api/reset-auth", content=after.encode()).raise_for_status()
    return answer.json()["PREVIOUS_INITIAL_NO_AUTH_ACTION_COUNT"]


async def test_an_engine_that_is_not_there_fails_no_session(
    captures: CaptureActions, dsn: str, objects: Objects, capfd: pytest.CaptureFixture[str]
) -> None:
    key = await send(captures, objects, "0", user=1)
    missing = Failed("MISSING_EXTRA", "the extra ocr is not there; install it with: pip install duly[ocr]")
    async with working(dsn, reading(objects, Eyelids(missing, missing))):
        await captures.until(lambda: are_over(captures, [key]))
    assert state(captures, key) == ("done", 1)
    assert said(capfd).count("install it with: pip install duly[ocr]") == 2
