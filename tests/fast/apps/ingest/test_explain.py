"""Each reason why nothing happens to a session, by a situation in which it is the true one."""

import re
from collections.abc import AsyncGenerator
from uuid import UUID, uuid4

import pytest
from psycopg.conninfo import make_conninfo

from duly.apps.ingest import repository
from duly.apps.ingest.explain import CAUSES, House, Reason, explain, result_in_words
from duly.apps.ingest.states import States
from duly.canonical_json import Json
from duly.db.migrations import Names
from duly.db.pool import Pool, open_pool
from duly.errors import NotFound
from duly.explain import Explanation
from duly.worker.registry import Identity, note_stopped, note_stopping, register
from tests.support.ingest.actions import ANNA, LEASE, SCHEMA, CaptureActions

DAY: dict[str, Json] = {
    "schedule_date": "2026-02-10",
    "entries": [{"start": "10:00", "end": "14:00", "title": "Cleaning"}],
}
WHEN = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"


@pytest.fixture
async def pool(captures: CaptureActions) -> AsyncGenerator[Pool, None]:
    """Connections as whoever asks has them."""
    async with open_pool(make_conninfo(captures.admin.info.dsn, user=Names().api), size=1) as pool:
        yield pool


async def hire(captures: CaptureActions, slots: int = 2) -> Identity:
    """A worker that says it is there."""
    identity = Identity("night", ["ingest"], {"ingest": slots})
    await register(captures.worker, identity)
    return identity


async def photograph(captures: CaptureActions, key: UUID) -> None:
    """Add an image to a session."""
    async with captures.api.transaction():
        assert await repository.lock_open_session(captures.api, SCHEMA, ANNA, key)
        assert await repository.add_image(captures.api, SCHEMA, key, f"k/{uuid4()}")


async def told(pool: Pool, key: UUID) -> Explanation[Reason]:
    """The reason, which the sentence fits."""
    return await explain(pool, None, key)


async def test_it_waits_for_images_and_nobody_else_hears_of_it(captures: CaptureActions, pool: Pool) -> None:
    key = await captures.open()
    found = await explain(pool, ANNA, key)
    assert found.reason is Reason.NO_IMAGES
    assert found.sentence.startswith("It has no image yet and was not closed")
    with pytest.raises(NotFound):
        await explain(pool, ANNA + 1, key)
    with pytest.raises(NotFound):
        await explain(pool, None, uuid4())


async def test_it_could_get_more_images_until_it_is_idle(captures: CaptureActions, pool: Pool) -> None:
    key = await captures.open()
    await photograph(captures, key)
    await photograph(captures, key)
    found = await told(pool, key)
    assert found.reason is Reason.OPEN
    assert re.match(rf"It has 2 images, the last of {WHEN}, .* until {WHEN}, when a worker", found.sentence)
    captures.advance_clock(24)
    assert (await told(pool, key)).reason is Reason.OPEN
    assert not await captures.claim(captures.work(due="closed_at"))
    captures.advance_clock(2)
    found = await told(pool, key)
    assert found.reason is Reason.IDLE
    assert re.match(rf"It has 2 images and is idle since {WHEN}: no worker is alive to close it", found.sentence)
    await hire(captures)
    assert (await told(pool, key)).sentence.endswith("a worker closes it at its next look.")
    assert (await explain(pool, None, key, House(idle_seconds=100))).reason is Reason.OPEN
    claimed = await captures.claim(captures.work(due="closed_at"))
    assert len(claimed) == 1  # a worker that reads has closed it, and takes it


async def test_photographs_wait_for_a_worker_as_data_does(captures: CaptureActions, pool: Pool) -> None:
    key = await captures.open()
    await photograph(captures, key)
    assert await repository.close_session(captures.api, SCHEMA, ANNA, key)
    assert (await told(pool, key)).reason is Reason.NO_WORKER
    await hire(captures)
    found = await told(pool, key)
    assert found.reason is Reason.DUE
    assert re.match(rf"It is complete since {WHEN} ", found.sentence)
    (later,) = await captures.create(DAY)
    assert (await told(pool, later)).reason is Reason.BEHIND_OTHERS


async def test_nobody_works(captures: CaptureActions, pool: Pool) -> None:
    (key,) = await captures.create(DAY)
    found = await told(pool, key)
    assert found.reason is Reason.NO_WORKER
    assert found.sentence.endswith("no worker is alive that takes sessions; start one: duly worker --only ingest.")


async def test_a_worker_takes_it_any_moment(captures: CaptureActions, pool: Pool) -> None:
    (key,) = await captures.create(DAY)
    await hire(captures)
    found = await told(pool, key)
    assert (found.reason, found.sentence.endswith("; a worker takes it any moment.")) == (Reason.DUE, True)
    captures.advance_clock(40)  # and is not heard of
    assert (await told(pool, key)).reason is Reason.NO_WORKER


async def test_others_go_first_and_all_hands_are_full(captures: CaptureActions, pool: Pool) -> None:
    *_, key = await captures.create(DAY, DAY, DAY)
    await hire(captures)
    found = await told(pool, key)
    assert found.reason is Reason.BEHIND_OTHERS
    assert found.sentence.endswith("and 2 sessions go first.")
    await captures.claim(limit=2, owner="night")
    found = await told(pool, key)
    assert found.reason is Reason.SLOTS_TAKEN
    assert found.sentence.endswith("the 2 slots of 1 live worker are taken: 2 sessions are being read.")


async def test_somebody_has_it_or_had_it(captures: CaptureActions, pool: Pool) -> None:
    (key,) = await captures.create(DAY)
    await captures.claim()
    found = await told(pool, key)
    assert found.reason is Reason.BEING_READ
    assert re.match(rf"worker-1 has it since {WHEN}, at start 1, and holds it until {WHEN} unless", found.sentence)
    captures.advance_clock(LEASE + 1)
    found = await told(pool, key)
    assert found.reason is Reason.EXPIRED_NO_WORKER
    assert found.sentence.endswith("start one: duly worker --only ingest.")
    await hire(captures)
    found = await told(pool, key)
    assert found.reason is Reason.EXPIRED
    assert found.sentence.endswith(": 1 live worker will take it over at the next sweep.")


async def test_sessions_of_a_dead_worker_take_no_slot_of_a_live_one(captures: CaptureActions, pool: Pool) -> None:
    *_, key = await captures.create(DAY, DAY, DAY)
    await captures.claim(limit=2)
    captures.advance_clock(3600)
    await hire(captures)
    assert (await told(pool, key)).reason is Reason.DUE
    assert [lease.key for lease in await captures.claim(owner="night")] == [key]


@pytest.mark.parametrize("lock", ["for share", "for no key update"])
async def test_a_locked_session_is_told_as_locked(lock: str, captures: CaptureActions, pool: Pool) -> None:
    (key,) = await captures.create(DAY)
    await hire(captures)
    with captures.admin.transaction():
        captures.admin.execute(f"select from schedule_ingest.capture_session {lock}".encode())
        found = await told(pool, key)
        assert (found.reason, "another transaction has its row locked" in found.sentence) == (Reason.LOCKED, True)
        assert await captures.claim() == []
    assert (await told(pool, key)).reason is Reason.DUE


async def test_an_open_session_is_closed_by_nobody_where_no_worker_is_alive(
    captures: CaptureActions, pool: Pool
) -> None:
    key = await captures.open()
    await photograph(captures, key)
    found = await told(pool, key)
    assert found.reason is Reason.OPEN
    assert found.sentence.endswith(
        "when a worker closes it, but so far no worker is alive; start one: duly worker --only ingest."
    )
    await note_stopping(captures.worker, await hire(captures))
    assert "(night is stopping, and takes nothing new); start one" in (await told(pool, key)).sentence
    await hire(captures)
    assert (await told(pool, key)).sentence.endswith("when a worker closes it.")


async def test_an_idle_session_that_is_locked_is_not_closed(captures: CaptureActions, pool: Pool) -> None:
    key = await captures.open()
    await photograph(captures, key)
    captures.advance_clock(60)
    await hire(captures)
    with captures.admin.transaction():
        captures.admin.execute("select from schedule_ingest.capture_session for share")
        found = await told(pool, key)
        assert (found.reason, "has its row locked" in found.sentence) == (Reason.IDLE, True)
        assert await captures.claim(captures.work(due="closed_at")) == []


async def test_a_session_that_was_closed_before_the_clock_was_set_back(captures: CaptureActions, pool: Pool) -> None:
    (key,) = await captures.create(DAY)
    captures.advance_clock(-3600)
    await hire(captures)
    found = await told(pool, key)
    assert (found.reason, "the clock of the database was set back" in found.sentence) == (Reason.CLOCK_SET_BACK, True)
    assert await captures.claim(captures.work(due="closed_at")) == []


async def test_a_holder_that_is_gone_is_not_said_to_read_it(captures: CaptureActions, pool: Pool) -> None:
    (key,) = await captures.create(DAY)
    identity = await hire(captures)
    await captures.claim(owner="night")
    await note_stopped(captures.worker, identity)
    found = await told(pool, key)
    assert (found.reason, found.sentence.endswith("no worker is alive; start one: duly worker --only ingest.")) == (
        Reason.HOLDER_GONE,
        True,
    )
    await hire(captures)
    assert (await told(pool, key)).reason is Reason.BEING_READ  # one of its name is there


async def test_a_session_that_was_started_too_often_fails_at_the_next_sweep(
    captures: CaptureActions, pool: Pool
) -> None:
    (key,) = await captures.create(DAY)
    await captures.claim()
    captures.advance_clock(LEASE + 1)
    await hire(captures)
    found = await explain(pool, None, key, House(max_starts=1))
    assert (found.reason, found.sentence.endswith("the next sweep lets it fail.")) == (Reason.EXPIRED, True)


async def test_it_has_come_to_its_end(captures: CaptureActions, pool: Pool) -> None:
    for words in ("2026-02-10 has version 1, 1 event and 1 message, from", "2026-02-10 is as it was, version 1, says"):
        (key,) = await captures.create(DAY)
        await captures.finish(await captures.claim())
        found = await told(pool, key)
        assert (found.reason, found.status) == (Reason.DONE, "done")
        assert found.sentence == f"It is done: {words} the data that came with it."


async def test_it_failed(captures: CaptureActions, pool: Pool) -> None:
    (key,) = await captures.create({"schedule_date": "someday"})
    await captures.finish(await captures.claim())
    found = await told(pool, key)
    assert found.reason is Reason.FAILED
    assert found.sentence.startswith("It failed: schedule_date: must be a day such as")


async def test_the_states_have_the_names_that_the_installation_gives_them(captures: CaptureActions, pool: Pool) -> None:
    (key,) = await captures.create(DAY)
    swapped = States("processing", "pending", "done", "failed")
    found = await explain(pool, None, key, House(states=swapped))
    assert found.reason is Reason.BEING_READ
    assert found.sentence == "It is pending, and whoever moved it there wrote down neither a name nor a time."


def test_what_another_program_finished_is_told_as_far_as_it_says() -> None:
    assert "did not write down" in result_in_words(None)
    assert "did not write down" in result_in_words({"x": 1})
    assert result_in_words({"schedule_date": "2026-02-10", "input": "?"}).endswith("says an unknown source")


def test_what_photographs_did_not_show_is_told() -> None:
    result = {"schedule_date": "2026-02-10", "input": "ocr", "version": 2, "unseen": 1}
    assert result_in_words(result).endswith(
        "version 2, says its photographs; 1 shift that they do not cover stayed as known"
    )
    assert "from its photographs; 2 shifts" in result_in_words({**result, "outcome": "changed", "unseen": 2})


def test_every_reason_has_its_cause() -> None:
    assert [cause.reason for cause in CAUSES] == list(Reason)
