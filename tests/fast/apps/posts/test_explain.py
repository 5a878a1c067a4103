"""Each reason why a post has not appeared, by a situation in which it is the true one."""

import re
from collections.abc import AsyncGenerator
from uuid import UUID, uuid4

import pytest
from psycopg.conninfo import make_conninfo

from duly.apps.posts.explain import CAUSES, PostReason, explain
from duly.apps.posts.repository import ADMIN_VIEWER
from duly.db.migrations import Names
from duly.db.pool import Pool, open_pool
from duly.errors import NotFound
from duly.explain import Explanation
from duly.worker.registry import WorkerIdentity, note_stopped, note_stopping, register
from tests.support.posts.actions import HOURS, LEASE, PostActions


@pytest.fixture
async def pool(posts: PostActions) -> AsyncGenerator[Pool, None]:
    """Connections as whoever asks has them."""
    async with open_pool(make_conninfo(posts.admin.info.dsn, user=Names().api), size=1) as pool:
        yield pool


async def hire(posts: PostActions, slots: int = 2, name: str = "night") -> WorkerIdentity:
    """A worker that says it is there."""
    identity = WorkerIdentity(name, ["posts"], {"posts": slots})
    await register(posts.worker, identity)
    return identity


async def told(pool: Pool, key: UUID) -> Explanation[PostReason]:
    """The reason, which the sentence fits."""
    return await explain(pool, ADMIN_VIEWER, key)


async def test_a_pending_post_is_explained_to_its_author_only(posts: PostActions, pool: Pool) -> None:
    (key,) = posts.create()
    found = await explain(pool, "anna", key)
    assert found.reason is PostReason.WAITS
    waits = r"It is to be released at \S+ \S+ UTC, in (6 h|5 h 59 min)"
    assert re.fullmatch(rf"{waits}; so far no worker is alive that releases posts; start one: .*", found.sentence)
    await hire(posts)
    assert re.fullmatch(rf"{waits}\.", (await told(pool, key)).sentence)
    for viewer in ("bo", None):
        with pytest.raises(NotFound):
            await explain(pool, viewer, key)
    with pytest.raises(NotFound):
        await explain(pool, ADMIN_VIEWER, uuid4())


async def test_nobody_works(posts: PostActions, pool: Pool) -> None:
    (key,) = posts.create_due()
    found = await told(pool, key)
    assert found.reason is PostReason.NO_WORKER
    assert found.sentence.endswith("no worker is alive that releases posts; start one: duly worker --only posts.")
    assert len(await posts.claim()) == 1  # and a worker would have taken it


async def test_all_hands_are_full(posts: PostActions, pool: Pool) -> None:
    *_, key = posts.create_due("anna", "bo", "cy")
    await hire(posts)
    await posts.claim(limit=2, owner="night")
    found = await told(pool, key)
    assert (found.reason, "the 2 slots of 1 live worker are taken: 2 posts are" in found.sentence) == (
        PostReason.SLOTS_TAKEN,
        True,
    )


async def test_others_go_first(posts: PostActions, pool: Pool) -> None:
    first, _, third = posts.create_due("anna", "bo", "cy")
    await hire(posts)
    found = await told(pool, third)
    assert (found.reason, found.sentence.endswith(", and 2 due posts go first.")) == (PostReason.BEHIND_OTHERS, True)
    assert (await told(pool, first)).reason is PostReason.DUE


async def test_somebody_reads_it(posts: PostActions, pool: Pool) -> None:
    (key,) = posts.create_due()
    await posts.claim()
    found = await told(pool, key)
    assert (found.reason, found.sentence.startswith("worker-1 is reading it since ")) == (PostReason.BEING_READ, True)


async def test_its_holder_is_gone(posts: PostActions, pool: Pool) -> None:
    (key,) = posts.create_due()
    await posts.claim()
    posts.advance_clock(LEASE + 1)
    found = await told(pool, key)
    assert (found.reason, found.sentence.endswith("or: duly posts repair.")) == (PostReason.EXPIRED_NO_WORKER, True)
    await hire(posts)
    assert (await told(pool, key)).reason is PostReason.EXPIRED
    await posts.sweep()
    found = await told(pool, key)
    assert (found.reason, "was started 1 time of 5" in found.sentence) == (PostReason.DUE, True)


async def test_posts_of_a_dead_worker_take_no_slot_of_a_live_one(posts: PostActions, pool: Pool) -> None:
    *_, key = posts.create_due("anna", "bo", "cy")
    await posts.claim(limit=2)
    await hire(posts)
    assert (await told(pool, key)).reason is PostReason.DUE  # what another holds is no slot of this one
    posts.advance_clock(LEASE + 1)
    await hire(posts)
    assert (await told(pool, key)).reason is PostReason.DUE
    assert [lease.key for lease in await posts.claim(owner="night")] == [key]


@pytest.mark.parametrize("lock", ["for share", "for no key update"])
async def test_a_locked_post_is_explained_as_locked(lock: str, posts: PostActions, pool: Pool) -> None:
    (key,) = posts.create_due()
    await hire(posts)
    with posts.admin.transaction():
        posts.admin.execute(f"select from posts.posts {lock}".encode())
        found = await told(pool, key)
        assert (found.reason, "another transaction has its row locked" in found.sentence) == (PostReason.LOCKED, True)
        assert await posts.claim() == []
    assert (await told(pool, key)).reason is PostReason.DUE


async def test_an_expired_post_that_is_locked_is_not_swept(posts: PostActions, pool: Pool) -> None:
    (key,) = posts.create_due()
    await posts.claim()
    posts.advance_clock(LEASE + 1)
    await hire(posts)
    with posts.admin.transaction():
        posts.admin.execute("select from posts.posts for share")
        found = await told(pool, key)
        assert (found.reason, "has its row locked" in found.sentence) == (PostReason.EXPIRED, True)
        assert await posts.sweep() == 0


async def test_what_is_locked_before_it_does_not_go_first(posts: PostActions, pool: Pool) -> None:
    first, key = posts.create_due("anna", "bo")
    await hire(posts)
    with posts.admin.transaction():
        posts.admin.execute("select from posts.posts where id = %s for update", [first])
        assert (await told(pool, key)).reason is PostReason.DUE
        assert [lease.key for lease in await posts.claim()] == [key]


async def test_a_stopping_worker_releases_nothing(posts: PostActions, pool: Pool) -> None:
    (key,) = posts.create_due()
    await note_stopping(posts.worker, await hire(posts))
    found = await told(pool, key)
    assert (found.reason, "(night is stopping and claims nothing new)" in found.sentence) == (
        PostReason.NO_WORKER,
        True,
    )


async def test_a_holder_that_is_gone_is_not_said_to_read_it(posts: PostActions, pool: Pool) -> None:
    identity = await hire(posts)
    (key,) = posts.create_due()
    await posts.claim(owner="night", lease_seconds=600)
    await note_stopped(posts.worker, identity)
    found = await told(pool, key)
    assert (found.reason, "night holds the lease until" in found.sentence) == (PostReason.HOLDER_GONE, True)
    assert found.sentence.endswith("no worker is alive that releases posts; start one: duly worker --only posts.")
    await hire(posts, name="day")
    assert (await told(pool, key)).sentence.endswith("When the lease expires, the next sweep makes it PENDING again.")


@pytest.mark.lawless
async def test_it_has_appeared(posts: PostActions, pool: Pool) -> None:
    (key,) = posts.create_due()
    posts.advance_clock(1 * HOURS)
    await posts.release(*await posts.claim())
    found = await explain(pool, None, key)
    assert found.reason is PostReason.RELEASED
    assert re.search(r", 1 h \d+ s after its time, read by the fallback because of AI_FAILED\.$", found.sentence)


async def test_it_was_there_before(posts: PostActions, pool: Pool) -> None:
    posts.add_user("anna")
    posts.admin.execute("insert into posts.posts (author_id, status, legacy) values ('anna', 'RELEASED', '{}')")
    assert (await told(pool, posts.columns("id")[0])).reason is PostReason.IMPORTED


def test_every_reason_has_its_cause() -> None:
    assert [cause.reason for cause in CAUSES] == list(PostReason)
