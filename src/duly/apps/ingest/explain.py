"""Explain in one sentence why a session is not processed, or how it ended.

Everything that could be the reason is read in one statement (`explain.sql`); the first cause that applies is reported.
Only the row that the next claim would return is reported as about to be claimed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Any
from uuid import UUID

from duly.apps.ingest.model import CaptureOutcome
from duly.apps.ingest.reading import Input
from duly.apps.ingest.session_reports import format_other_days
from duly.apps.ingest.states import DEFAULT_SCHEMA, States, capture_lease_table
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
from duly.lease.work import Tuning

START = "start one: duly worker --only ingest"
CLAIMS = " that claims sessions"
INPUTS = {
    Input.FIXTURE: "the file of FIXTURE_PAYLOAD_PATH",
    Input.GIVEN: "the data given with it",
    Input.PHOTOGRAPHS: "its photographs",
}

SQL = load_queries(__file__, "explain.sql")


class SessionReason(StrEnum):
    """Why a session is in its state; each has one sentence."""

    DONE = "done"
    FAILED = "failed"
    EXPIRED_NO_WORKER = "expired_no_worker"
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
class SessionSettings:
    """The settings that explanations depend on."""

    schema: str = DEFAULT_SCHEMA
    states: States = field(default_factory=States)
    idle_seconds: float = 25.0
    lease_seconds: float = 300.0  # assumed when an external owner left lease_seconds null
    max_starts: int = Tuning.max_starts  # a session that was started this often fails


@dataclass(frozen=True, slots=True)
class SessionSituation:
    """A session with everything that could delay it."""

    settings: SessionSettings
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
    last_at: datetime | None  # of the last image
    observed_at: datetime
    holder_gone_at: datetime | None  # when the lease owner was last seen, if it is not alive
    workers: int  # alive, that claim sessions
    stopping: Sequence[str]  # names of workers that claim nothing new
    slots: int  # of live workers
    held: int  # sessions held by live workers
    has_free_slot: bool  # of a live worker
    ahead: int  # closed sessions that are claimed first
    is_locked: bool  # by another transaction
    is_next: bool  # a claim of one row would return it

    @property
    def holder(self) -> str:
        """The worker that holds it, or held it until its lease expired."""
        return worker_from_owner(self.locked_by or "an unknown worker")

    @property
    def held_until(self) -> datetime | None:
        """When its lease expires."""
        if self.locked_at is None:
            return None
        return self.locked_at + timedelta(seconds=self.lease_seconds or self.settings.lease_seconds)

    @property
    def is_held(self) -> bool:
        """Whether it is claimed, even if the lease has expired."""
        return self.state == self.settings.states.processing

    @property
    def is_expired(self) -> bool:
        """Whether its lease has expired."""
        return self.is_held and self.held_until is not None and self.held_until < self.observed_at

    @property
    def is_open(self) -> bool:
        """Whether it accepts images."""
        return self.given_at is None and self.closed_at is None

    @property
    def idle_at(self) -> datetime | None:
        """When its last image is old enough to close it."""
        return self.last_at + timedelta(seconds=self.settings.idle_seconds) if self.last_at else None

    @property
    def is_idle(self) -> bool:
        """Whether its last image is old enough to close it."""
        return self.idle_at is not None and self.idle_at <= self.observed_at


async def explain(
    pool: Pool,
    user_id: int | None,
    key: UUID,
    settings: SessionSettings = SessionSettings(),  # noqa: B008 (frozen)
    *,
    zone: tzinfo | None = UTC,
) -> Explanation[SessionReason]:
    """Explain the state of a session; NotFound when it is another person's."""
    async with pool.transaction() as connection:
        situation = await find_situation(connection, key, user_id, settings, zone)
    if situation is None:
        raise NotFound(f"there is no session {key}")
    return find_explanation(CAUSES, key, situation.state, situation)


async def find_situation(
    connection: Connection, key: UUID, user_id: int | None, settings: SessionSettings, zone: tzinfo | None
) -> SessionSituation | None:
    """Return a session with everything that could delay it, with times in the zone.

    The next row to claim is queried first and stays locked, so that the rest is consistent with it.
    """
    sessions = capture_lease_table(settings.schema, settings.states, lease_seconds=settings.lease_seconds)
    is_next = await find_next(connection, sessions) == key
    row = await find_row(
        connection,
        SQL.using(schema=settings.schema).find_situation,
        key=key,
        user_id=user_id,
        pending=settings.states.pending,
        processing=settings.states.processing,
        lease_seconds=settings.lease_seconds,
        alive_seconds=ALIVE_SECONDS,
        ahead_limit=MAX_AHEAD + 1,
    )
    if row is None:
        return None
    return SessionSituation(settings, **convert_times(row, zone), is_next=is_next)


# The causes and their sentences ---------------------------------------------------------------------------------------


def format_result(result: Mapping[str, Any] | None) -> str:
    """Format the result of a session; a session that another program settled may have none."""
    if not result or "schedule_date" not in result:
        return "the program that finished it recorded no result"
    source = next((text for name, text in INPUTS.items() if name == result.get("input")), "an unknown source")
    rest = format_uncovered(result) + format_other_days(result) + format_notes(result)
    if result.get("outcome") != CaptureOutcome.CHANGED:
        return f"{result['schedule_date']} is unchanged, version {result.get('version')}, according to {source}{rest}"
    events = pluralize(int(result.get("events") or 0), "event", "events")
    messages = pluralize(int(result.get("notifications") or 0), "message", "messages")
    return (
        f"{result['schedule_date']} has version {result.get('version')}, {events} and {messages}, from {source}{rest}"
    )


def format_notes(result: Mapping[str, Any]) -> str:
    """Format the notes about the photographs."""
    return "".join(f"; note: {note}" for note in result.get("notes") or ())


def format_uncovered(result: Mapping[str, Any]) -> str:
    """Format how many known shifts the photographs do not cover; empty when they cover the day."""
    uncovered = int(result.get("uncovered") or 0)
    return f"; {pluralize(uncovered, 'shift', 'shifts')} that they do not cover left unchanged" if uncovered else ""


def describe_being_read(session: SessionSituation) -> str:
    """Describe a session that a worker is reading."""
    if session.locked_at is None:
        return f"It is {session.state}, and the program that set this state recorded neither its name nor a time."
    return (
        f"{session.holder} has it since {format_time(session.locked_at)}, at start {session.starts}, and holds it "
        f"until {format_time(session.held_until)} unless that is renewed."
    )


def describe_expired(session: SessionSituation) -> str:
    """Describe a session whose lease has expired."""
    gone = f"{session.holder} claimed it, and its lease expired without renewal at {format_time(session.held_until)}"
    if not session.workers:
        return f"{gone}, and {describe_no_worker(session.stopping, ' that would claim it again')}; {START}."
    if session.is_locked:
        return f"{gone}: {LOCKED}."
    if session.starts >= session.settings.max_starts:
        return f"{gone}, and it was started {session.starts} times: the next sweep fails it."
    return f"{gone}: {format_live_workers(session.workers)} will claim it again at the next sweep."


def describe_holder_gone(session: SessionSituation) -> str:
    """Describe a session whose lease owner is not alive."""
    then = "the next sweep claims it again" if session.workers else f"{describe_no_worker(session.stopping)}; {START}"
    return f"{describe_missing_holder(session.holder, session.held_until, session.holder_gone_at)} {then}."


def describe_open(session: SessionSituation) -> str:
    """Describe an open session."""
    until = f"leave it until {format_time(session.idle_at)}, when a worker closes it"
    if not session.workers:
        until += f", but so far {describe_no_worker(session.stopping)}; {START}"
    return (
        f"It has {pluralize(session.images, 'image', 'images')}, the last of {format_time(session.last_at)}, and was "
        f"not closed: close it, or {until}."
    )


def describe_idle(session: SessionSituation) -> str:
    """Describe an idle session that is not closed yet."""
    if not session.workers:
        then = f"{describe_no_worker(session.stopping, ' to close it')}; {START}"
    else:
        then = LOCKED if session.is_locked else "a worker closes it at its next poll"
    images = pluralize(session.images, "image", "images")
    return f"It has {images} and is idle since {format_time(session.idle_at)}: {then}."


def describe_clock_set_back(session: SessionSituation) -> str:
    """Describe a session that was closed in the future."""
    assert session.closed_at, "a closed session has a time"
    left = format_duration((session.closed_at - session.observed_at).total_seconds())
    return (
        f"It was closed at {format_time(session.closed_at)}, {left} from now: the clock of the database was set back, "
        "and workers claim it once that time is reached again."
    )


def describe_due(session: SessionSituation) -> str:
    """Describe since when a session is complete, and how often it was started."""
    starts = f", was started {pluralize(session.starts, 'time', 'times')}" * bool(session.starts)
    since = session.closed_at or session.created_at
    waited = format_duration((session.observed_at - since).total_seconds())
    return f"It is complete since {format_time(since)} ({waited}){starts}"


def describe_slots_taken(session: SessionSituation) -> str:
    """Describe a due session while all slots are in use."""
    return (
        f"{describe_due(session)}, and the {session.slots} slots of {format_live_workers(session.workers)}"
        f" are taken: {pluralize(session.held, 'session is', 'sessions are')} being read."
    )


CAUSES: Sequence[Cause[SessionReason, SessionSituation]] = (
    # Done or failed.
    Cause(
        SessionReason.DONE,
        lambda session: session.state == session.settings.states.done,
        lambda session: f"It is done: {format_result(session.result)}.",
    ),
    Cause(
        SessionReason.FAILED,
        lambda session: session.state == session.settings.states.failed,
        lambda session: f"It failed: {session.error}",
    ),
    # Claimed.
    Cause(
        SessionReason.EXPIRED_NO_WORKER, lambda session: session.is_expired and not session.workers, describe_expired
    ),
    Cause(SessionReason.EXPIRED, lambda session: session.is_expired, describe_expired),
    Cause(
        SessionReason.HOLDER_GONE,
        lambda session: session.is_held and session.holder_gone_at is not None,
        describe_holder_gone,
    ),
    Cause(SessionReason.BEING_READ, lambda session: session.is_held, describe_being_read),
    # Open.
    Cause(
        SessionReason.NO_IMAGES,
        lambda session: session.is_open and not session.images,
        lambda _: "It has no image yet and was not closed: it waits for images; add one, then close it.",
    ),
    Cause(SessionReason.OPEN, lambda session: session.is_open and not session.is_idle, describe_open),
    Cause(SessionReason.IDLE, lambda session: session.is_open, describe_idle),
    # Closed, and blocked.
    Cause(
        SessionReason.CLOCK_SET_BACK,
        lambda session: session.closed_at is not None and session.closed_at > session.observed_at,
        describe_clock_set_back,
    ),
    Cause(
        SessionReason.NO_WORKER,
        lambda session: not session.workers,
        lambda session: f"{describe_due(session)}, and {describe_no_worker(session.stopping, CLAIMS)}; {START}.",
    ),
    Cause(SessionReason.SLOTS_TAKEN, lambda session: not session.has_free_slot, describe_slots_taken),
    Cause(
        SessionReason.LOCKED,
        lambda session: session.is_locked or (not session.is_next and not session.ahead),
        lambda session: f"{describe_due(session)}, and {LOCKED}.",
    ),
    Cause(
        SessionReason.BEHIND_OTHERS,
        lambda session: not session.is_next,
        lambda session: f"{describe_due(session)}, and {format_ahead(session.ahead, 'session', 'sessions')}.",
    ),
    # Closed, and next to be claimed.
    Cause(
        SessionReason.DUE, lambda _: True, lambda session: f"{describe_due(session)}; a worker is about to claim it."
    ),
)
