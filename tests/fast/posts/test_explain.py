"""Each reason why a post has not appeared, by a situation in which it is the true one."""

import re
from collections.abc import AsyncGenerator
from uuid import UUID, uuid4

import pytest
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.db.pool import Pool, open_pool
from duly.errors import NotFound
from duly.kernel.causes import Explanation
from duly.posts.explain import CAUSES, Reason, explain
from duly.posts.store import ANYBODY
from duly.worker.registry import Identity, register
from tests.support.posts.actions import HOURS, LEASE, PostActions


@pytest.fixture
async def pool(posts: PostActions) -> AsyncGenerator[Pool, None]:
    """Connections as whoever asks has them."""
    async with open_pool(make_conninfo(posts.admin.info.dsn, user=Names().api), size=1) as pool:
        yield pool


async def hire(posts: PostActions, slots: int = 2) -> None:
    """A worker that says it is there."""
    await register(posts.worker, Identity("night", ["posts"], {"posts": slots}))


async def told(pool: Pool, key: UUID) -> Explanation[Reason]:
    """The reason, which the sentence fits."""
    return await explain(pool, ANYBODY, key)


async def test_it_waits_for_its_time_and_nobody_else_hears_of_it(posts: PostActions, pool: Pool) -> None:
    (key,) = posts.create()
    found = await explain(pool, "anna", key)
    assert found.reason is Reason.WAITS
    assert re.fullmatch(r"It is to be released at \S+ \S+ UTC, in (6 h|5 h 59 min)\.", found.sentence)
    for viewer in ("bo", None):
        with pytest.raises(NotFound):
            await explain(pool, viewer, key)
    with pytest.raises(NotFound):
        await explain(pool, ANYBODY, uuid4())


async def test_nobody_works(posts: PostActions, pool: Pool) -> None:
    (key,) = posts.create_due()
    found = await told(pool, key)
    assert found.reason is Reason.NO_WORKER
    assert found.sentence.endswith("no worker is alive that releases posts; start one: duly worker --only posts.")
    assert len(await posts.claim()) == 1  # and a worker would have taken it


async def test_all_hands_are_full(posts: PostActions, pool: Pool) -> None:
    *_, key = posts.create_due("anna", "bo", "cy")
    await hire(posts)
    await posts.claim(limit=2)
    found = await told(pool, key)
    assert (found.reason, "the 2 slots of 1 live worker are taken: 2 posts are" in found.sentence) == (
        Reason.SLOTS_TAKEN,
        True,
    )


async def test_others_go_first(posts: PostActions, pool: Pool) -> None:
    first, _, third = posts.create_due("anna", "bo", "cy")
    await hire(posts)
    found = await told(pool, third)
    assert (found.reason, found.sentence.endswith(", and 2 due posts go first.")) == (Reason.BEHIND_OTHERS, True)
    assert (await told(pool, first)).reason is Reason.DUE


async def test_somebody_reads_it(posts: PostActions, pool: Pool) -> None:
    (key,) = posts.create_due()
    await posts.claim()
    found = await told(pool, key)
    assert (found.reason, found.sentence.startswith("worker-1 has it since ")) == (Reason.BEING_READ, True)


async def test_its_holder_is_gone(posts: PostActions, pool: Pool) -> None:
    (key,) = posts.create_due()
    await posts.claim()
    posts.advance_clock(LEASE + 1)
    found = await told(pool, key)
    assert (found.reason, found.sentence.endswith("or: duly posts repair.")) == (Reason.LAPSED_NO_WORKER, True)
    await hire(posts)
    assert (await told(pool, key)).reason is Reason.LAPSED
    await posts.sweep()
    found = await told(pool, key)
    assert (found.reason, "was started 1 time of 5" in found.sentence) == (Reason.DUE, True)


@pytest.mark.lawless
async def test_it_has_appeared(posts: PostActions, pool: Pool) -> None:
    (key,) = posts.create_due()
    posts.advance_clock(1 * HOURS)
    await posts.release(*await posts.claim())
    found = await explain(pool, None, key)
    assert found.reason is Reason.RELEASED
    assert re.search(r", 1 h \d+ s after its time, read by the fallback because of AI_FAILED\.$", found.sentence)


async def test_it_was_there_before(posts: PostActions, pool: Pool) -> None:
    posts.add_user("anna")
    posts.admin.execute("insert into posts.posts (author_id, status, legacy) values ('anna', 'RELEASED', '{}')")
    assert (await told(pool, posts.columns("id")[0])).reason is Reason.IMPORTED


def test_every_reason_has_its_cause() -> None:
    assert [cause.reason for cause in CAUSES] == list(Reason)
