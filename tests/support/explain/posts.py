"""Random states of posts."""

from random import Random

from duly.apps.posts.explain import PostReason, explain
from duly.apps.posts.repository import ADMIN_VIEWER
from duly.apps.posts.states import POST
from duly.db.pool import Pool
from duly.lease.operations import claim_rows
from tests.support.explain.registered_workers import (
    NAMES,
    delete_all_rows,
    lock_some_rows,
    register_workers,
    workers_with_free_slot,
)
from tests.support.posts.actions import HOURS, LEASE, PostActions

RUNNING = "select lease_owner from posts.posts where status = 'PROCESSING' and lease_expires_at >= duly.clock()"


async def check_posts(seed: int, posts: PostActions, pool: Pool) -> set[PostReason]:
    """Compare the explanation of every post with what a claim returns; return the reasons."""
    random = Random(seed)  # noqa: S311 (no secret)
    delete_all_rows(posts.admin)
    posts.set_clock("2026-11-16T10:00:00+00:00")
    for nth in range(random.randint(2, 4)):
        posts.create(*(f"p{seed}-{nth}-{author}" for author in range(random.randint(1, 3))))
        posts.advance_clock(random.choice([1, 6 * HOURS + 1, 6 * HOURS + 1]))
    for _ in range(random.randint(0, 3)):
        leases = await posts.claim(random.randint(1, 2), random.choice([LEASE, 10_000.0]), random.choice(NAMES))
        if leases and random.random() < 0.2:
            await posts.release(*leases)
        posts.advance_clock(random.choice([0, 0, LEASE + 1]))
        if random.random() < 0.3:
            await posts.sweep()
    registered = register_workers(random, posts.admin, "posts")
    with lock_some_rows(random, posts.admin, "posts.posts") as locked:
        claimed: set[object] = set()
        for each in workers_with_free_slot(registered, posts.values(RUNNING)):
            async with posts.worker.transaction(force_rollback=True):
                leases = await claim_rows(posts.worker, POST, each.name, lease_seconds=LEASE)
            claimed |= {lease.key for lease in leases}
        found = {key: await explain(pool, ADMIN_VIEWER, key) for key in posts.columns("id")}
    for key, each in found.items():
        about = f"seed {seed}: {each.sentence}"
        assert (each.reason is PostReason.DUE) == (key in claimed), about
        assert each.reason is not PostReason.LOCKED or key in locked, about
        assert (each.reason is PostReason.NO_WORKER) <= (not [one for one in registered if one.is_live]), about
    return {each.reason for each in found.values()}
