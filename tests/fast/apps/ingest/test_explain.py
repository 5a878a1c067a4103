"""Each reason that explains a session, in a situation where it applies."""

import re
from collections.abc import AsyncGenerator
from uuid import UUID, uuid4

import pytest
from psycopg.conninfo import make_conninfo

from duly.apps.ingest.explain import CAUSES, SessionReason, SessionSettings, explain, format_result
from duly.apps.ingest.repository import SessionTables
from duly.apps.ingest.states import States
from duly.canonical_json import Json
from duly.db.migrations import Names
from duly.db.pool import Pool, open_pool
from duly.errors import NotFound
from duly.explain import Explanation
from duly.worker.registry import WorkerIdentity, note_stopped, note_stopping, register
from tests.support.ingest.actions import ANNA, LEASE, CaptureActions

DAY: dict[str, Json] = {
    "schedule_date": "2026-02-10",
    "entries": [{"start": "10:00", "end": "14:00", "title": "Cleaning"}],
}
WHEN = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"


@pytest.fixture
async def pool(captures: CaptureActions) -> AsyncGenerator[Pool, None]:
    """Connections with the rights of the API."""
    async with open_pool(make_conninfo(captures.admin.info.dsn, user=Names().api), size=1) as pool:
        yield pool


async def register_worker(captures: CaptureActions, slots: int = 2) -> WorkerIdentity:
    """Register a live worker."""
    identity = WorkerIdentity("night", ["ingest"], {"ingest": slots})
    await register(captures.worker, identity)
    return identity


async def photograph(captures: CaptureActions, key: UUID) -> None:
    """Add an image to a session."""
    async with captures.api.transaction():
        assert await SessionTables().lock_open_session(captures.api, ANNA, key)
        assert await SessionTables().add_image(captures.api, key, f"k/{uuid4()}")


async def explain_session(pool: Pool, key: UUID) -> Explanation[SessionReason]:
    """Explain a session of any person."""
    return await explain(pool, None, key)


async def test_session_without_images_is_explained_to_its_user_only(captures: CaptureActions, pool: Pool) -> None:
    key = await captures.open()
    found = await explain(pool, ANNA, key)
    assert found.reason is SessionReason.NO_IMAGES
    assert found.sentence.startswith("It has no image yet and was not closed")
    with pytest.raises(NotFound):
        await explain(pool, ANNA + 1, key)
    with pytest.raises(NotFound):
        await explain(pool, None, uuid4())


async def test_open_session_is_explained_until_it_is_idle(captures: CaptureActions, pool: Pool) -> None:
    key = await captures.open()
    await photograph(captures, key)
    await photograph(captures, key)
    found = await explain_session(pool, key)
    assert found.reason is SessionReason.OPEN
    assert re.match(rf"It has 2 images, the last of {WHEN}, .* until {WHEN}, when a worker", found.sentence)
    captures.advance_clock(24)
    assert (await explain_session(pool, key)).reason is SessionReason.OPEN
    assert not await captures.claim(captures.work(due="closed_at"))
    captures.advance_clock(2)
    found = await explain_session(pool, key)
    assert found.reason is SessionReason.IDLE
    assert re.match(rf"It has 2 images and is idle since {WHEN}: no worker is alive to close it", found.sentence)
    await register_worker(captures)
    assert (await explain_session(pool, key)).sentence.endswith("a worker closes it at its next poll.")
    assert (await explain(pool, None, key, SessionSettings(idle_seconds=100))).reason is SessionReason.OPEN
    claimed = await captures.claim(captures.work(due="closed_at"))
    assert len(claimed) == 1  # the worker has closed it, and claims it


async def test_session_with_photographs_is_explained_as_waiting_for_a_worker(
    captures: CaptureActions, pool: Pool
) -> None:
    key = await captures.open()
    await photograph(captures, key)
    assert await SessionTables().close_session(captures.api, ANNA, key)
    assert (await explain_session(pool, key)).reason is SessionReason.NO_WORKER
    await register_worker(captures)
    found = await explain_session(pool, key)
    assert found.reason is SessionReason.DUE
    assert re.match(rf"It is complete since {WHEN} ", found.sentence)
    (later,) = await captures.create(DAY)
    assert (await explain_session(pool, later)).reason is SessionReason.BEHIND_OTHERS


async def test_session_without_a_live_worker_is_explained(captures: CaptureActions, pool: Pool) -> None:
    (key,) = await captures.create(DAY)
    found = await explain_session(pool, key)
    assert found.reason is SessionReason.NO_WORKER
    assert found.sentence.endswith("no worker is alive that claims sessions; start one: duly worker --only ingest.")


async def test_due_session_is_explained(captures: CaptureActions, pool: Pool) -> None:
    (key,) = await captures.create(DAY)
    await register_worker(captures)
    found = await explain_session(pool, key)
    assert (found.reason, found.sentence.endswith("; a worker is about to claim it.")) == (SessionReason.DUE, True)
    captures.advance_clock(40)  # without a heartbeat
    assert (await explain_session(pool, key)).reason is SessionReason.NO_WORKER


async def test_session_behind_others_or_without_a_free_slot_is_explained(captures: CaptureActions, pool: Pool) -> None:
    *_, key = await captures.create(DAY, DAY, DAY)
    await register_worker(captures)
    found = await explain_session(pool, key)
    assert found.reason is SessionReason.BEHIND_OTHERS
    assert found.sentence.endswith("and 2 sessions go first.")
    await captures.claim(limit=2, owner="night")
    found = await explain_session(pool, key)
    assert found.reason is SessionReason.SLOTS_TAKEN
    assert found.sentence.endswith("the 2 slots of 1 live worker are taken: 2 sessions are being read.")


async def test_session_with_a_valid_or_expired_lease_is_explained(captures: CaptureActions, pool: Pool) -> None:
    (key,) = await captures.create(DAY)
    await captures.claim()
    found = await explain_session(pool, key)
    assert found.reason is SessionReason.BEING_READ
    assert re.match(rf"worker-1 has it since {WHEN}, at start 1, and holds it until {WHEN} unless", found.sentence)
    captures.advance_clock(LEASE + 1)
    found = await explain_session(pool, key)
    assert found.reason is SessionReason.EXPIRED_NO_WORKER
    assert found.sentence.endswith("start one: duly worker --only ingest.")
    await register_worker(captures)
    found = await explain_session(pool, key)
    assert found.reason is SessionReason.EXPIRED
    assert found.sentence.endswith(": 1 live worker will claim it again at the next sweep.")


async def test_sessions_of_a_dead_worker_occupy_no_slot_of_a_live_one(captures: CaptureActions, pool: Pool) -> None:
    *_, key = await captures.create(DAY, DAY, DAY)
    await captures.claim(limit=2)
    captures.advance_clock(3600)
    await register_worker(captures)
    assert (await explain_session(pool, key)).reason is SessionReason.DUE
    assert [lease.key for lease in await captures.claim(owner="night")] == [key]


@pytest.mark.parametrize("lock", ["for share", "for no key update"])
async def test_a_locked_session_is_explained_as_locked(lock: str, captures: CaptureActions, pool: Pool) -> None:
    (key,) = await captures.create(DAY)
    await register_worker(captures)
    with captures.admin.transaction():
        captures.admin.execute(f"select from schedule_ingest.capture_session {lock}".encode())
        found = await explain_session(pool, key)
        assert (found.reason, "another transaction has its row locked" in found.sentence) == (
            SessionReason.LOCKED,
            True,
        )
        assert await captures.claim() == []
    assert (await explain_session(pool, key)).reason is SessionReason.DUE


async def test_idle_session_stays_open_without_a_live_worker(captures: CaptureActions, pool: Pool) -> None:
    key = await captures.open()
    await photograph(captures, key)
    found = await explain_session(pool, key)
    assert found.reason is SessionReason.OPEN
    assert found.sentence.endswith(
        "when a worker closes it, but so far no worker is alive; start one: duly worker --only ingest."
    )
    await note_stopping(captures.worker, await register_worker(captures))
    assert "(night is stopping and claims nothing new); start one" in (await explain_session(pool, key)).sentence
    await register_worker(captures)
    assert (await explain_session(pool, key)).sentence.endswith("when a worker closes it.")


async def test_an_idle_session_that_is_locked_is_not_closed(captures: CaptureActions, pool: Pool) -> None:
    key = await captures.open()
    await photograph(captures, key)
    captures.advance_clock(60)
    await register_worker(captures)
    with captures.admin.transaction():
        captures.admin.execute("select from schedule_ingest.capture_session for share")
        found = await explain_session(pool, key)
        assert (found.reason, "has its row locked" in found.sentence) == (SessionReason.IDLE, True)
        assert await captures.claim(captures.work(due="closed_at")) == []


async def test_session_closed_before_the_clock_was_set_back_is_explained(captures: CaptureActions, pool: Pool) -> None:
    (key,) = await captures.create(DAY)
    captures.advance_clock(-3600)
    await register_worker(captures)
    found = await explain_session(pool, key)
    assert (found.reason, "the clock of the database was set back" in found.sentence) == (
        SessionReason.CLOCK_SET_BACK,
        True,
    )
    assert await captures.claim(captures.work(due="closed_at")) == []


async def test_a_lease_owner_that_is_gone_is_not_reported_as_reading(captures: CaptureActions, pool: Pool) -> None:
    (key,) = await captures.create(DAY)
    identity = await register_worker(captures)
    await captures.claim(owner="night")
    await note_stopped(captures.worker, identity)
    found = await explain_session(pool, key)
    assert (found.reason, found.sentence.endswith("no worker is alive; start one: duly worker --only ingest.")) == (
        SessionReason.HOLDER_GONE,
        True,
    )
    await register_worker(captures)
    assert (await explain_session(pool, key)).reason is SessionReason.BEING_READ  # a worker of that name is alive


async def test_a_session_that_was_started_too_often_fails_at_the_next_sweep(
    captures: CaptureActions, pool: Pool
) -> None:
    (key,) = await captures.create(DAY)
    await captures.claim()
    captures.advance_clock(LEASE + 1)
    await register_worker(captures)
    found = await explain(pool, None, key, SessionSettings(max_starts=1))
    assert (found.reason, found.sentence.endswith("the next sweep fails it.")) == (SessionReason.EXPIRED, True)


async def test_done_session_is_explained(captures: CaptureActions, pool: Pool) -> None:
    for outcome_text in (
        "2026-02-10 has version 1, 1 event and 1 message, from",
        "2026-02-10 is unchanged, version 1, according to",
    ):
        (key,) = await captures.create(DAY)
        await captures.finish(await captures.claim())
        found = await explain_session(pool, key)
        assert (found.reason, found.status) == (SessionReason.DONE, "done")
        assert found.sentence == f"It is done: {outcome_text} the data given with it."


async def test_failed_session_is_explained(captures: CaptureActions, pool: Pool) -> None:
    (key,) = await captures.create({"schedule_date": "someday"})
    await captures.finish(await captures.claim())
    found = await explain_session(pool, key)
    assert found.reason is SessionReason.FAILED
    assert found.sentence.startswith("It failed: schedule_date: must be a day such as")


async def test_explanation_uses_the_configured_state_names(captures: CaptureActions, pool: Pool) -> None:
    (key,) = await captures.create(DAY)
    swapped = States("processing", "pending", "done", "failed")
    found = await explain(pool, None, key, SessionSettings(states=swapped))
    assert found.reason is SessionReason.BEING_READ
    assert found.sentence == "It is pending, and the program that set this state recorded neither its name nor a time."


def test_a_result_of_another_program_is_formatted_as_far_as_it_is_known() -> None:
    assert "recorded no result" in format_result(None)
    assert "recorded no result" in format_result({"x": 1})
    assert format_result({"schedule_date": "2026-02-10", "input": "?"}).endswith("according to an unknown source")


def test_uncovered_shifts_are_mentioned() -> None:
    result = {"schedule_date": "2026-02-10", "input": "ocr", "version": 2, "uncovered": 1}
    assert format_result(result).endswith(
        "version 2, according to its photographs; 1 shift that they do not cover left unchanged"
    )
    assert "from its photographs; 2 shifts" in format_result({**result, "outcome": "changed", "uncovered": 2})


def test_every_reason_has_a_cause() -> None:
    assert [cause.reason for cause in CAUSES] == list(SessionReason)
