"""Why does nothing happen to this session? One true sentence.

Everything that could be the reason is looked at once, in one statement (`explain.sql`); the first cause that holds is
told. That a worker takes it any moment is said only of the row that a claim would take: `takeable` of `lease.sql`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Any
from uuid import UUID

from duly.apps.ingest.endings import other_days_in_words
from duly.apps.ingest.model import Outcome
from duly.apps.ingest.reading import Input
from duly.apps.ingest.states import DEFAULT_SCHEMA, States, capture_session
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
from duly.lease.work import Tuning

__all__ = ["CAUSES", "INPUTS", "House", "Reason", "Situation", "explain", "result_in_words"]

START = "start one: duly worker --only ingest"
TAKES = " that takes sessions"
INPUTS = {
    Input.FIXTURE: "the file of FIXTURE_PAYLOAD_PATH",
    Input.GIVEN: "the data that came with it",
    Input.PHOTOGRAPHS: "its photographs",
}

SQL = load_queries(__file__, "explain.sql")


class Reason(StrEnum):
    """Why a session is where it is; each is one sentence."""

    DONE = "done"
    FAILED = "failed"
    EXPIRED_NO_WORKER = "lapsed_no_worker"
    EXPIRED = "expired"
    HOLDER_GONE = "holder_gone"
    BEING_READ = "being_read"
    NO_IMAGES = "no_images"
    OPEN = "open"
    IDLE = "idle"
    CLOCK_SET_BACK = "clock_set_back"
    NO_WORKER = "no_worker"
    SLOTS_TAKEN = "slots_taken"
    LOCKED = "locked"
    BEHIND_OTHERS = "behind_others"
    DUE = "due"


@dataclass(frozen=True, slots=True)
class House:
    """What an installation says of its sessions, as far as a reason can lie in it."""

    schema: str = DEFAULT_SCHEMA
    states: States = field(default_factory=States)
    idle_seconds: float = 25.0
    lease_seconds: float = 300.0  # of a lease whose holder did not write one down
    max_starts: int = Tuning.max_starts  # then it fails


@dataclass(frozen=True, slots=True)
class Situation:
    """A session, and what stands around it."""

    house: House
    id: UUID
    state: str
    created_at: datetime
    closed_at: datetime | None
    given_at: datetime | None
    error: str | None
    result: Mapping[str, Any] | None
    starts: int
    locked_by: str | None
    locked_at: datetime | None
    lease_seconds: float | None
    images: int
    last_at: datetime | None  # of the images
    looked_at: datetime
    holder_gone_at: datetime | None  # when its holder was last seen, if that is no worker that is there
    workers: int  # alive, that take sessions
    stopping: Sequence[str]  # the names of those who take nothing new
    slots: int  # of the live
    held: int  # sessions, by the live
    has_free_slot: bool  # one of the live
    ahead: int  # complete sessions that go first
    is_locked: bool  # has somebody the row locked?
    is_next: bool  # would a claim with one free slot take it?

    @property
    def holder(self) -> str:
        """The worker that has it, or had it until its lease ended."""
        return worker_of(self.locked_by or "nobody")

    @property
    def held_until(self) -> datetime | None:
        """When its lease ends."""
        if self.locked_at is None:
            return None
        return self.locked_at + timedelta(seconds=self.lease_seconds or self.house.lease_seconds)

    @property
    def is_held(self) -> bool:
        """Does somebody have it, if only by the book?"""
        return self.state == self.house.states.processing

    @property
    def is_expired(self) -> bool:
        """Is it held by the book only?"""
        return self.is_held and self.held_until is not None and self.held_until < self.looked_at

    @property
    def is_open(self) -> bool:
        """May it still get images?"""
        return self.given_at is None and self.closed_at is None

    @property
    def idle_at(self) -> datetime | None:
        """When its last image is old enough."""
        return self.last_at + timedelta(seconds=self.house.idle_seconds) if self.last_at else None

    @property
    def is_idle(self) -> bool:
        """Is its last image old enough?"""
        return self.idle_at is not None and self.idle_at <= self.looked_at


async def explain(
    pool: Pool,
    user_id: int | None,
    key: UUID,
    house: House = House(),  # noqa: B008 (frozen)
    *,
    zone: tzinfo | None = UTC,
) -> Explanation[Reason]:
    """Why nothing happens to this session, or what came of it; NotFound when it is another person's."""
    async with pool.transaction() as connection:
        situation = await find_situation(connection, key, user_id, house, zone)
    if situation is None:
        raise NotFound(f"there is no session {key}")
    return explained(CAUSES, key, situation.state, situation)


async def find_situation(
    connection: Connection, key: UUID, user_id: int | None, house: House, zone: tzinfo | None
) -> Situation | None:
    """A session and what stands around it, with times in the zone.

    What would be taken next is asked first: that row stays locked, so that the rest is true of it, too.
    """
    sessions = capture_session(house.schema, house.states, lease_seconds=house.lease_seconds)
    is_next = await find_next(connection, sessions) == key
    row = await find_row(
        connection,
        SQL.using(schema=house.schema).find_situation,
        key=key,
        user_id=user_id,
        pending=house.states.pending,
        processing=house.states.processing,
        lease_seconds=house.lease_seconds,
        alive_seconds=ALIVE_SECONDS,
        most_counted=MAX_COUNTED + 1,
    )
    if row is None:
        return None
    return Situation(house, **in_zone(row, zone), is_next=is_next)


# The causes, and how each is told -------------------------------------------------------------------------------------


def result_in_words(result: Mapping[str, Any] | None) -> str:
    """What came of a session, after a colon; another program's may not say."""
    if not result or "schedule_date" not in result:
        return "what came of it, whoever finished it did not write down"
    known = next((words for kind, words in INPUTS.items() if kind == result.get("input")), "an unknown source")
    if result.get("outcome") != Outcome.CHANGED:
        is_same = f"{result['schedule_date']} is as it was, version {result.get('version')}, says {known}"
        return is_same + unseen_in_words(result) + other_days_in_words(result) + notes_in_words(result)
    events = counted(int(result.get("events") or 0), "event", "events")
    messages = counted(int(result.get("notifications") or 0), "message", "messages")
    says = f"{result['schedule_date']} has version {result.get('version')}, {events} and {messages}, from {known}"
    return says + unseen_in_words(result) + other_days_in_words(result) + notes_in_words(result)


def notes_in_words(result: Mapping[str, Any]) -> str:
    """What was odd in the photographs."""
    return "".join(f"; note: {note}" for note in result.get("notes") or ())


def unseen_in_words(result: Mapping[str, Any]) -> str:
    """What photographs did not show, after a semicolon; nothing when they showed the day."""
    unseen = int(result.get("unseen") or 0)
    return f"; {counted(unseen, 'shift', 'shifts')} that they do not cover stayed as known" if unseen else ""


def tell_being_read(session: Situation) -> str:
    """Somebody has it."""
    if session.locked_at is None:
        return f"It is {session.state}, and whoever moved it there wrote down neither a name nor a time."
    return (
        f"{session.holder} has it since {when(session.locked_at)}, at start {session.starts}, and holds it until "
        f"{when(session.held_until)} unless that is renewed."
    )


def tell_expired(session: Situation) -> str:
    """Somebody had it, and others will notice, or nobody is there to."""
    gone = f"{session.holder} had it and was not heard of since its lease ended at {when(session.held_until)}"
    if not session.workers:
        return f"{gone}, and {no_worker(session.stopping, ' that would take it over')}; {START}."
    if session.is_locked:
        return f"{gone}: {LOCKED}."
    if session.starts >= session.house.max_starts:
        return f"{gone}, and it was started {session.starts} times: the next sweep lets it fail."
    return f"{gone}: {live_workers(session.workers)} will take it over at the next sweep."


def tell_holder_gone(session: Situation) -> str:
    """Whoever holds it is not there."""
    then = "the next sweep takes it over" if session.workers else f"{no_worker(session.stopping)}; {START}"
    return f"{holder_gone(session.holder, session.held_until, session.holder_gone_at)} {then}."


def tell_open(session: Situation) -> str:
    """It could get more images."""
    until = f"leave it until {when(session.idle_at)}, when a worker closes it"
    if not session.workers:
        until += f", but so far {no_worker(session.stopping)}; {START}"
    return (
        f"It has {counted(session.images, 'image', 'images')}, the last of {when(session.last_at)}, and was not "
        f"closed: close it, or {until}."
    )


def tell_idle(session: Situation) -> str:
    """It got no more images, and nobody saw that."""
    if not session.workers:
        then = f"{no_worker(session.stopping, ' to close it')}; {START}"
    else:
        then = LOCKED if session.is_locked else "a worker closes it at its next look"
    return f"It has {counted(session.images, 'image', 'images')} and is idle since {when(session.idle_at)}: {then}."


def tell_clock_set_back(session: Situation) -> str:
    """It is complete, and that is still to come."""
    assert session.closed_at, "what was closed has a time"
    left = span((session.closed_at - session.looked_at).total_seconds())
    return (
        f"It was closed at {when(session.closed_at)}, {left} from now: the clock of the database was set back, and "
        "workers take it when that time has come again."
    )


def is_due(session: Situation) -> str:
    """Since when, how long that is, and how often it was tried."""
    tried = f", was started {counted(session.starts, 'time', 'times')}" * bool(session.starts)
    since = session.closed_at or session.created_at
    return f"It is complete since {when(since)} ({span((session.looked_at - since).total_seconds())}){tried}"


def tell_slots_taken(session: Situation) -> str:
    """All hands are full."""
    return (
        f"{is_due(session)}, and the {session.slots} slots of {live_workers(session.workers)}"
        f" are taken: {counted(session.held, 'session is', 'sessions are')} being read."
    )


def tell_locked(session: Situation) -> str:
    """Somebody has their hand on it."""
    return f"{is_due(session)}, and {LOCKED}."


def tell_behind(session: Situation) -> str:
    """Others go first."""
    return f"{is_due(session)}, and {go_first(session.ahead, 'session', 'sessions')}."


CAUSES: Sequence[Cause[Reason, Situation]] = (
    # It has come to its end.
    Cause(
        Reason.DONE,
        lambda session: session.state == session.house.states.done,
        lambda session: f"It is done: {result_in_words(session.result)}.",
    ),
    Cause(
        Reason.FAILED,
        lambda session: session.state == session.house.states.failed,
        lambda session: f"It failed: {session.error}",
    ),
    # Somebody has it.
    Cause(Reason.EXPIRED_NO_WORKER, lambda session: session.is_expired and not session.workers, tell_expired),
    Cause(Reason.EXPIRED, lambda session: session.is_expired, tell_expired),
    Cause(
        Reason.HOLDER_GONE,
        lambda session: session.is_held and session.holder_gone_at is not None,
        tell_holder_gone,
    ),
    Cause(Reason.BEING_READ, lambda session: session.is_held, tell_being_read),
    # It waits for images.
    Cause(
        Reason.NO_IMAGES,
        lambda session: session.is_open and not session.images,
        lambda _: "It has no image yet and was not closed: it waits for images; add one, then close it.",
    ),
    Cause(Reason.OPEN, lambda session: session.is_open and not session.is_idle, tell_open),
    Cause(Reason.IDLE, lambda session: session.is_open, tell_idle),
    # It is complete: it waits for somebody to come, or for others.
    Cause(
        Reason.CLOCK_SET_BACK,
        lambda session: session.closed_at is not None and session.closed_at > session.looked_at,
        tell_clock_set_back,
    ),
    Cause(
        Reason.NO_WORKER,
        lambda session: not session.workers,
        lambda session: f"{is_due(session)}, and {no_worker(session.stopping, TAKES)}; {START}.",
    ),
    Cause(Reason.SLOTS_TAKEN, lambda session: not session.has_free_slot, tell_slots_taken),
    Cause(Reason.LOCKED, lambda session: session.is_locked or (not session.is_next and not session.ahead), tell_locked),
    Cause(Reason.BEHIND_OTHERS, lambda session: not session.is_next, tell_behind),
    # For nothing.
    Cause(Reason.DUE, lambda _: True, lambda session: f"{is_due(session)}; a worker takes it any moment."),
)
