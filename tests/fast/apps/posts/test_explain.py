"""Each reason why a post is not released, in a situation where it applies."""

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
    """A pool of connections as the API role."""
    async with open_pool(make_conninfo(posts.admin.info.dsn, user=Names().api), size=1) as pool:
        yield pool


async def register_worker(posts: PostActions, slots: int = 2, name: str = "night") -> WorkerIdentity:
    """Register a live worker."""
    identity = WorkerIdentity(name, ["posts"], {"posts": slots})
    await register(posts.worker, identity)
    return identity


async def explain_post(pool: Pool, key: UUID) -> Explanation[PostReason]:
    """Return the reason, after checking its sentence."""
    return await explain(pool, ADMIN_VIEWER, key)


async def test_a_pending_post_is_explained_to_its_author_only(posts: PostActions, pool: Pool) -> None:
    (key,) = posts.create()
    found = await explain(pool, "anna", key)
    assert found.reason is PostReason.WAITS
    waits = r"It is to be released at \S+ \S+ UTC, in (6 h|5 h 59 min)"
    assert re.fullmatch(rf"{waits}; so far no worker is alive that releases posts; start one: .*", found.sentence)
    await register_worker(posts)
    assert re.fullmatch(rf"{waits}\.", (await explain_post(pool, key)).sentence)
    for viewer in ("bo", None):
        with pytest.raises(NotFound):
            await explain(pool, viewer, key)
    with pytest.raises(NotFound):
        await explain(pool, ADMIN_VIEWER, uuid4())


async def test_post_without_a_worker_is_explained(posts: PostActions, pool: Pool) -> None:
    (key,) = posts.create_due()
    found = await explain_post(pool, key)
    assert found.reason is PostReason.NO_WORKER
    assert found.sentence.endswith("no worker is alive that releases posts; start one: duly worker --only posts.")
    assert len(await posts.claim()) == 1  # and a worker would have taken it


async def test_post_is_explained_as_waiting_for_a_slot(posts: PostActions, pool: Pool) -> None:
    *_, key = posts.create_due("anna", "bo", "cy")
    await register_worker(posts)
    await posts.claim(limit=2, owner="night")
    found = await explain_post(pool, key)
    assert (found.reason, "the 2 slots of 1 live worker are taken: 2 posts are" in found.sentence) == (
        PostReason.SLOTS_TAKEN,
        True,
    )


async def test_post_behind_other_due_posts_is_explained(posts: PostActions, pool: Pool) -> None:
    first, _, third = posts.create_due("anna", "bo", "cy")
    await register_worker(posts)
    found = await explain_post(pool, third)
    assert (found.reason, found.sentence.endswith(", and 2 due posts go first.")) == (PostReason.BEHIND_OTHERS, True)
    assert (await explain_post(pool, first)).reason is PostReason.DUE


async def test_post_held_by_a_worker_is_explained(posts: PostActions, pool: Pool) -> None:
    (key,) = posts.create_due()
    await posts.claim()
    found = await explain_post(pool, key)
    assert (found.reason, found.sentence.startswith("worker-1 is reading it since ")) == (PostReason.BEING_READ, True)


async def test_post_with_an_expired_lease_is_explained(posts: PostActions, pool: Pool) -> None:
    (key,) = posts.create_due()
    await posts.claim()
    posts.advance_clock(LEASE + 1)
    found = await explain_post(pool, key)
    assert (found.reason, found.sentence.endswith("or: duly posts repair.")) == (PostReason.EXPIRED_NO_WORKER, True)
    await register_worker(posts)
    assert (await explain_post(pool, key)).reason is PostReason.EXPIRED
    await posts.sweep()
    found = await explain_post(pool, key)
    assert (found.reason, "was started 1 time of 5" in found.sentence) == (PostReason.DUE, True)


async def test_posts_of_a_dead_worker_occupy_no_slot_of_a_live_one(posts: PostActions, pool: Pool) -> None:
    *_, key = posts.create_due("anna", "bo", "cy")
    await posts.claim(limit=2)
    await register_worker(posts)
    assert (await explain_post(pool, key)).reason is PostReason.DUE  # what another holds is no slot of this one
    posts.advance_clock(LEASE + 1)
    await register_worker(posts)
    assert (await explain_post(pool, key)).reason is PostReason.DUE
    assert [lease.key for lease in await posts.claim(owner="night")] == [key]


@pytest.mark.parametrize("lock", ["for share", "for no key update"])
async def test_a_locked_post_is_explained_as_locked(lock: str, posts: PostActions, pool: Pool) -> None:
    (key,) = posts.create_due()
    await register_worker(posts)
    with posts.admin.transaction():
        posts.admin.execute(f"select from posts.posts {lock}".encode())
        found = await explain_post(pool, key)
        assert (found.reason, "another transaction has its row locked" in found.sentence) == (PostReason.LOCKED, True)
        assert await posts.claim() == []
    assert (await explain_post(pool, key)).reason is PostReason.DUE


async def test_locked_expired_post_is_explained_and_not_swept(posts: PostActions, pool: Pool) -> None:
    (key,) = posts.create_due()
    await posts.claim()
    posts.advance_clock(LEASE + 1)
    await register_worker(posts)
    with posts.admin.transaction():
        posts.admin.execute("select from posts.posts for share")
        found = await explain_post(pool, key)
        assert (found.reason, "has its row locked" in found.sentence) == (PostReason.EXPIRED, True)
        assert await posts.sweep() == 0


async def test_locked_posts_are_not_counted_ahead(posts: PostActions, pool: Pool) -> None:
    first, key = posts.create_due("anna", "bo")
    await register_worker(posts)
    with posts.admin.transaction():
        posts.admin.execute("select from posts.posts where id = %s for update", [first])
        assert (await explain_post(pool, key)).reason is PostReason.DUE
        assert [lease.key for lease in await posts.claim()] == [key]


async def test_stopping_worker_is_not_counted_as_available(posts: PostActions, pool: Pool) -> None:
    (key,) = posts.create_due()
    await note_stopping(posts.worker, await register_worker(posts))
    found = await explain_post(pool, key)
    assert (found.reason, "(night is stopping and claims nothing new)" in found.sentence) == (
        PostReason.NO_WORKER,
        True,
    )


async def test_post_of_a_stopped_worker_is_not_explained_as_being_read(posts: PostActions, pool: Pool) -> None:
    identity = await register_worker(posts)
    (key,) = posts.create_due()
    await posts.claim(owner="night", lease_seconds=600)
    await note_stopped(posts.worker, identity)
    found = await explain_post(pool, key)
    assert (found.reason, "night holds the lease until" in found.sentence) == (PostReason.HOLDER_GONE, True)
    assert found.sentence.endswith("no worker is alive that releases posts; start one: duly worker --only posts.")
    await register_worker(posts, name="day")
    assert (await explain_post(pool, key)).sentence.endswith(
        "When the lease expires, the next sweep makes it PENDING again."
    )


@pytest.mark.breaks_invariants
async def test_released_post_is_explained(posts: PostActions, pool: Pool) -> None:
    (key,) = posts.create_due()
    posts.advance_clock(1 * HOURS)
    await posts.release(*await posts.claim())
    found = await explain(pool, None, key)
    assert found.reason is PostReason.RELEASED
    assert re.search(r", 1 h \d+ s after its time, read by the fallback because of AI_FAILED\.$", found.sentence)


async def test_imported_post_is_explained(posts: PostActions, pool: Pool) -> None:
    posts.add_user("anna")
    posts.admin.execute("insert into posts.posts (author_id, status, legacy) values ('anna', 'RELEASED', '{}')")
    assert (await explain_post(pool, posts.columns("id")[0])).reason is PostReason.IMPORTED


def test_every_reason_has_a_cause() -> None:
    assert [cause.reason for cause in CAUSES] == list(PostReason)
