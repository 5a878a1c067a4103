"""Explain in one sentence why a post has not been released.

All possible causes are queried in one statement (`explain.sql`), and the first that applies is reported. Only the row
that the next claim would return, by the query behind `find_next`, is reported as about to be claimed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from uuid import UUID

from duly.apps.posts.model import MAX_ATTEMPTS, PostStatus
from duly.apps.posts.states import POST
from duly.db.pool import Pool
from duly.db.queries import load_queries
from duly.db.rows import Connection, find_row
from duly.errors import NotFound
from duly.explain import (
    ALIVE_SECONDS,
    LOCKED,
    MAX_AHEAD,
    Cause,
    Explanation,
    convert_times,
    describe_missing_holder,
    describe_no_worker,
    find_explanation,
    format_ahead,
    format_live_workers,
)
from duly.formatting import format_duration, format_time, pluralize
from duly.lease.operations import find_next
from duly.lease.owner import worker_from_owner

RELEASES = " that releases posts"
START = "start one: duly worker --only posts"

SQL = load_queries(__file__, "explain.sql")


class PostReason(StrEnum):
    """The cause of a post's status; each has one sentence."""

    IMPORTED = "imported"
    RELEASED = "released"
    EXPIRED_NO_WORKER = "expired_no_worker"
    EXPIRED = "expired"
    HOLDER_GONE = "holder_gone"
    BEING_READ = "being_read"
    WAITS = "waits"
    NO_WORKER = "no_worker"
    SLOTS_TAKEN = "slots_taken"
    LOCKED = "locked"
    BEHIND_OTHERS = "behind_others"
    DUE = "due"


@dataclass(frozen=True, slots=True)
class PostSituation:
    """A post with everything that could delay it."""

    id: UUID
    status: PostStatus
    release_time: datetime | None
    released_at: datetime | None
    process_attempts: int
    lease_owner: str | None
    lease_expires_at: datetime | None
    processing_since: datetime | None
    ai_error: str | None
    is_legacy: bool
    observed_at: datetime
    holder_gone_at: datetime | None  # when the lease owner was last seen, if it is not alive
    workers: int  # alive and releasing posts
    stopping: Sequence[str]  # ids of workers that claim nothing new
    slots: int  # of live workers
    held: int  # posts leased by live workers
    has_free_slot: bool  # in a live worker
    ahead: int  # due posts that are claimed first
    is_locked: bool  # pending or expired, and another transaction has locked the row
    is_next: bool  # would a claim with one free slot return it?

    @property
    def holder(self) -> str:
        """The worker that owns the lease, or owned it until it expired."""
        return worker_from_owner(self.lease_owner or "unknown")

    @property
    def is_expired(self) -> bool:
        """Whether the lease has expired."""
        return self.lease_expires_at is not None and self.lease_expires_at < self.observed_at

    @property
    def due(self) -> datetime:
        """The release time of a post that is not released."""
        assert self.release_time, "a post that is not released has a release time"
        return self.release_time


async def explain(
    pool: Pool, viewer: str | None, post_id: UUID, *, zone: tzinfo | None = UTC
) -> Explanation[PostReason]:
    """Explain the status of a post; raises NotFound when the viewer may not see it."""
    async with pool.transaction() as connection:
        situation = await find_situation(connection, post_id, viewer, zone)
    if situation is None:
        raise NotFound(f"there is no post {post_id}")
    return find_explanation(CAUSES, post_id, situation.status, situation)


async def find_situation(
    connection: Connection, post_id: UUID, viewer: str | None, zone: tzinfo | None
) -> PostSituation | None:
    """Return a post with everything that could delay it, with times in the zone.

    The next row to claim is queried first and stays locked, so that the rest is consistent with it.
    """
    is_next = await find_next(connection, POST) == post_id
    row = await find_row(
        connection,
        SQL.find_situation,
        post_id=post_id,
        viewer=viewer,
        alive_seconds=ALIVE_SECONDS,
        ahead_limit=MAX_AHEAD + 1,
    )
    if row is None:
        return None
    values = convert_times(row, zone)
    return replace(PostSituation(**values, is_next=is_next), status=PostStatus(values["status"]))


# The causes and their sentences ---------------------------------------------------------------------------------------


def describe_released(post: PostSituation) -> str:
    """Describe a released post."""
    assert post.released_at, "a released post has a time"
    late = format_duration((post.released_at - post.due).total_seconds())
    how = f", read by the fallback because of {post.ai_error}" if post.ai_error else ""
    return f"It was released at {format_time(post.released_at)}, {late} after its time{how}."


def describe_being_read(post: PostSituation) -> str:
    """Describe a post that a worker is reading."""
    return (
        f"{post.holder} is reading it since {format_time(post.processing_since)}, at start {post.process_attempts}; "
        f"its lease lasts until {format_time(post.lease_expires_at)} unless it is renewed."
    )


def describe_expired(post: PostSituation) -> str:
    """Describe a post whose lease has expired."""
    return (
        f"{post.holder} claimed it, and its lease expired without renewal at {format_time(post.lease_expires_at)}: "
        + (
            LOCKED
            if post.is_locked
            else f"{format_live_workers(post.workers)} will make it PENDING again at the next sweep"
        )
        + "."
    )


def describe_not_repaired(post: PostSituation) -> str:
    """Describe a post whose lease has expired while no worker is alive."""
    return (
        f"{post.holder} claimed it, and its lease expired without renewal at {format_time(post.lease_expires_at)}, and "
        f"{describe_no_worker(post.stopping, ' that would make it PENDING again')}; {START}, or: duly posts repair."
    )


def describe_holder_gone(post: PostSituation) -> str:
    """Describe a post whose lease owner is not alive."""
    then = (
        "the next sweep makes it PENDING again"
        if post.workers
        else f"{describe_no_worker(post.stopping, RELEASES)}; {START}"
    )
    return f"{describe_missing_holder(post.holder, post.lease_expires_at, post.holder_gone_at)} {then}."


def describe_waits(post: PostSituation) -> str:
    """Describe a post before its release time."""
    left = format_duration((post.due - post.observed_at).total_seconds())
    hint = "" if post.workers else f"; so far {describe_no_worker(post.stopping, RELEASES)}; {START}"
    return f"It is to be released at {format_time(post.due)}, in {left}{hint}."


def describe_due(post: PostSituation) -> str:
    """Describe since when a post is due, and how often it was started."""
    starts = f", was started {pluralize(post.process_attempts, 'time', 'times')} of {MAX_ATTEMPTS}" * bool(
        post.process_attempts
    )
    waited = format_duration((post.observed_at - post.due).total_seconds())
    return f"It is due since {format_time(post.due)} ({waited}){starts}"


def describe_no_post_worker(post: PostSituation) -> str:
    """Describe a due post while no worker is alive."""
    return f"{describe_due(post)}, and {describe_no_worker(post.stopping, RELEASES)}; {START}."


def describe_slots_taken(post: PostSituation) -> str:
    """Describe a due post while all slots are in use."""
    return (
        f"{describe_due(post)}, and the {post.slots} slots of {format_live_workers(post.workers)} are "
        f"taken: {pluralize(post.held, 'post is', 'posts are')} being read."
    )


def describe_locked(post: PostSituation) -> str:
    """Describe a due post whose row is locked."""
    return f"{describe_due(post)}, and {LOCKED}."


def describe_behind(post: PostSituation) -> str:
    """Describe a due post behind others."""
    return f"{describe_due(post)}, and {format_ahead(post.ahead, 'due post', 'due posts')}."


CAUSES: Sequence[Cause[PostReason, PostSituation]] = (
    # Released.
    Cause(
        PostReason.IMPORTED,
        lambda post: post.status is PostStatus.RELEASED and (post.released_at is None or post.release_time is None),
        lambda _: "It is a document of the first version, imported as released.",
    ),
    Cause(PostReason.RELEASED, lambda post: post.status is PostStatus.RELEASED, describe_released),
    # In PROCESSING.
    Cause(PostReason.EXPIRED_NO_WORKER, lambda post: post.is_expired and not post.workers, describe_not_repaired),
    Cause(PostReason.EXPIRED, lambda post: post.is_expired, describe_expired),
    Cause(
        PostReason.HOLDER_GONE,
        lambda post: post.status is PostStatus.PROCESSING and post.holder_gone_at is not None,
        describe_holder_gone,
    ),
    Cause(PostReason.BEING_READ, lambda post: post.status is PostStatus.PROCESSING, describe_being_read),
    # PENDING: before its time, or blocked.
    Cause(PostReason.WAITS, lambda post: post.due > post.observed_at, describe_waits),
    Cause(PostReason.NO_WORKER, lambda post: not post.workers, describe_no_post_worker),
    Cause(PostReason.SLOTS_TAKEN, lambda post: not post.has_free_slot, describe_slots_taken),
    Cause(PostReason.LOCKED, lambda post: post.is_locked or (not post.is_next and not post.ahead), describe_locked),
    Cause(PostReason.BEHIND_OTHERS, lambda post: not post.is_next, describe_behind),
    # PENDING, and next to be claimed.
    Cause(PostReason.DUE, lambda _: True, lambda post: f"{describe_due(post)}; a worker is about to claim it."),
)
