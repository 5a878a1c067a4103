"""Why has this post not appeared? One true sentence.

Everything that could be the reason is looked at once, in one statement (`explain.sql`); the first cause that holds is
told. That a worker takes it any moment is said only of the row that a claim would take: `takeable` of `lease.sql`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from uuid import UUID

from duly.apps.posts.model import MAX_ATTEMPTS, Status
from duly.apps.posts.states import POST
from duly.db.pool import Pool
from duly.db.queries import load_queries
from duly.db.rows import Connection, find_row
from duly.errors import NotFound
from duly.explain import (
    ALIVE_SECONDS,
    LOCKED,
    MAX_COUNTED,
    Cause,
    Explanation,
    explained,
    go_first,
    holder_gone,
    in_zone,
    live_workers,
    no_worker,
)
from duly.formatting import counted, span, when
from duly.lease.operations import find_next
from duly.lease.owner import worker_of

__all__ = ["CAUSES", "Reason", "Situation", "explain"]

RELEASES = " that releases posts"
START = "start one: duly worker --only posts"

SQL = load_queries(__file__, "explain.sql")


class Reason(StrEnum):
    """Why a post is where it is; each is one sentence."""

    IMPORTED = "imported"
    RELEASED = "released"
    EXPIRED_NO_WORKER = "lapsed_no_worker"
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
class Situation:
    """A post, and what stands around it."""

    id: UUID
    status: Status
    release_time: datetime | None
    released_at: datetime | None
    process_attempts: int
    lease_owner: str | None
    lease_expires_at: datetime | None
    processing_since: datetime | None
    ai_error: str | None
    is_legacy: bool
    looked_at: datetime
    holder_gone_at: datetime | None  # when its holder was last seen, if that is no worker that is there
    workers: int  # alive, that release posts
    stopping: Sequence[str]  # the names of those who take nothing new
    slots: int  # of the live
    held: int  # posts, by the live
    has_free_slot: bool  # one of the live
    ahead: int  # due posts that go first
    is_locked: bool  # waiting or expired, and somebody has the row locked
    is_next: bool  # would a claim with one free slot take it?

    @property
    def holder(self) -> str:
        """The worker that has it, or had it until its lease ended."""
        return worker_of(self.lease_owner or "nobody")

    @property
    def is_expired(self) -> bool:
        """Is it held by the book only?"""
        return self.lease_expires_at is not None and self.lease_expires_at < self.looked_at

    @property
    def due(self) -> datetime:
        """When it is to appear."""
        assert self.release_time, "what waits has a time"
        return self.release_time


async def explain(pool: Pool, viewer: str | None, key: UUID, *, zone: tzinfo | None = UTC) -> Explanation[Reason]:
    """Why this post has not appeared, or that it has; NotFound when the viewer may not see it."""
    async with pool.transaction() as connection:
        situation = await find_situation(connection, key, viewer, zone)
    if situation is None:
        raise NotFound(f"there is no post {key}")
    return explained(CAUSES, key, situation.status, situation)


async def find_situation(
    connection: Connection, key: UUID, viewer: str | None, zone: tzinfo | None
) -> Situation | None:
    """A post and what stands around it, with times in the zone.

    What would be taken next is asked first: that row stays locked, so that the rest is true of it, too.
    """
    is_next = await find_next(connection, POST) == key
    row = await find_row(
        connection,
        SQL.find_situation,
        key=key,
        viewer=viewer,
        alive_seconds=ALIVE_SECONDS,
        most_counted=MAX_COUNTED + 1,
    )
    if row is None:
        return None
    told = in_zone(row, zone)
    return replace(Situation(**told, is_next=is_next), status=Status(told["status"]))


# The causes, and how each is told -------------------------------------------------------------------------------------


def tell_released(post: Situation) -> str:
    """It has appeared."""
    assert post.released_at, "only what appeared has a time"
    late = span((post.released_at - post.due).total_seconds())
    how = f", read by the fallback because of {post.ai_error}" if post.ai_error else ""
    return f"It was released at {when(post.released_at)}, {late} after its time{how}."


def tell_being_read(post: Situation) -> str:
    """Somebody has it."""
    return (
        f"{post.holder} has it since {when(post.processing_since)}, at start {post.process_attempts}, and holds it "
        f"until {when(post.lease_expires_at)} unless that is renewed."
    )


def tell_expired(post: Situation) -> str:
    """Somebody had it, and others will notice."""
    return (
        f"{post.holder} had it and was not heard of since its lease ended at {when(post.lease_expires_at)}: "
        + (LOCKED if post.is_locked else f"{live_workers(post.workers)} will let it wait again at the next sweep")
        + "."
    )


def tell_not_repaired(post: Situation) -> str:
    """Somebody had it, and nobody is there to notice."""
    return (
        f"{post.holder} had it and was not heard of since its lease ended at {when(post.lease_expires_at)}, and "
        f"{no_worker(post.stopping, ' that would let it wait again')}; {START}, or: duly posts repair."
    )


def tell_holder_gone(post: Situation) -> str:
    """Whoever holds it is not there."""
    then = "the next sweep lets it wait again" if post.workers else f"{no_worker(post.stopping, RELEASES)}; {START}"
    return f"{holder_gone(post.holder, post.lease_expires_at, post.holder_gone_at)} {then}."


def tell_waits(post: Situation) -> str:
    """Its time has not come."""
    left = span((post.due - post.looked_at).total_seconds())
    nobody = "" if post.workers else f"; so far {no_worker(post.stopping, RELEASES)}; {START}"
    return f"It is to be released at {when(post.due)}, in {left}{nobody}."


def is_due(post: Situation) -> str:
    """Since when, how long that is, and how often it was tried."""
    tried = f", was started {counted(post.process_attempts, 'time', 'times')} of {MAX_ATTEMPTS}" * bool(
        post.process_attempts
    )
    return f"It is due since {when(post.due)} ({span((post.looked_at - post.due).total_seconds())}){tried}"


def tell_no_worker(post: Situation) -> str:
    """Nobody works."""
    return f"{is_due(post)}, and {no_worker(post.stopping, RELEASES)}; {START}."


def tell_slots_taken(post: Situation) -> str:
    """All hands are full."""
    return (
        f"{is_due(post)}, and the {post.slots} slots of {live_workers(post.workers)} are "
        f"taken: {counted(post.held, 'post is', 'posts are')} being read."
    )


def tell_locked(post: Situation) -> str:
    """Somebody has their hand on it."""
    return f"{is_due(post)}, and {LOCKED}."


def tell_behind(post: Situation) -> str:
    """Others go first."""
    return f"{is_due(post)}, and {go_first(post.ahead, 'due post', 'due posts')}."


CAUSES: Sequence[Cause[Reason, Situation]] = (
    # It has come to its end.
    Cause(
        Reason.IMPORTED,
        lambda post: post.status is Status.RELEASED and (post.released_at is None or post.release_time is None),
        lambda _: "It is a document of the first version, imported as released.",
    ),
    Cause(Reason.RELEASED, lambda post: post.status is Status.RELEASED, tell_released),
    # Somebody has it.
    Cause(Reason.EXPIRED_NO_WORKER, lambda post: post.is_expired and not post.workers, tell_not_repaired),
    Cause(Reason.EXPIRED, lambda post: post.is_expired, tell_expired),
    Cause(
        Reason.HOLDER_GONE,
        lambda post: post.status is Status.PROCESSING and post.holder_gone_at is not None,
        tell_holder_gone,
    ),
    Cause(Reason.BEING_READ, lambda post: post.status is Status.PROCESSING, tell_being_read),
    # It waits: for its time, for somebody to come, for others.
    Cause(Reason.WAITS, lambda post: post.due > post.looked_at, tell_waits),
    Cause(Reason.NO_WORKER, lambda post: not post.workers, tell_no_worker),
    Cause(Reason.SLOTS_TAKEN, lambda post: not post.has_free_slot, tell_slots_taken),
    Cause(Reason.LOCKED, lambda post: post.is_locked or (not post.is_next and not post.ahead), tell_locked),
    Cause(Reason.BEHIND_OTHERS, lambda post: not post.is_next, tell_behind),
    # For nothing.
    Cause(Reason.DUE, lambda _: True, lambda post: f"{is_due(post)}; a worker takes it any moment."),
)
