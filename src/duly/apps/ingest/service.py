"""The operations behind the entry points: create a session, add images, close it, and read days and their history."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from uuid import UUID

from duly.apps.ingest import repository
from duly.apps.ingest.canonical import canonicalize
from duly.apps.ingest.diff import ShiftChange, diff, replay
from duly.apps.ingest.model import (
    MAX_IMAGES,
    CaptureImage,
    CaptureSession,
    DayVersion,
    KnownDay,
    ShiftEvent,
    StoredNotification,
)
from duly.apps.ingest.shift import Shift, shift_from_json
from duly.apps.ingest.states import CAPTURE_MACHINE
from duly.canonical_json import checked_json
from duly.db.id_prefix import IdPrefix, resolve_single_match
from duly.db.pool import Pool
from duly.db.rows import Connection
from duly.errors import IllegalMove, InvalidArgument, NotFound
from duly.lease import timeline
from duly.lease.owner import new_id
from duly.paging import MAX_ROWS, Page, build_page, checked_limit, decode_cursor
from duly.storage import ObjectStore

__all__ = [
    "MAX_IMAGES",
    "ReplayedDay",
    "add_image",
    "close_session",
    "compare_versions",
    "create_session",
    "get_day",
    "get_session",
    "get_version",
    "list_all_events",
    "list_days",
    "list_events",
    "list_images",
    "list_notifications",
    "list_sessions",
    "list_transitions",
    "list_versions",
    "replay_day",
    "resolve_id",
]

# Creating sessions ----------------------------------------------------------------------------------------------------


async def create_session(
    pool: Pool, schema: str, user_id: int, payload: Mapping[str, Any] | None = None
) -> CaptureSession:
    """Create a session of this person; with a payload it is closed and needs no images."""
    if payload is not None:
        payload = checked_json(payload)
        canonicalize(payload)  # an invalid payload is rejected now, not later by a worker
    async with pool.transaction() as connection:
        return await repository.add_session(connection, schema, user_id, payload)


async def add_image(
    pool: Pool, schema: str, objects: ObjectStore, user_id: int, session_id: UUID, image: bytes, kind: str = "png"
) -> CaptureImage:
    """Store a cleaned image and add it to an open session."""
    name = f"screenshots/{user_id}/{session_id}/{new_id()}.{kind}"
    await check_accepts_images(pool, schema, user_id, session_id)
    await objects.put(name, image)
    try:
        async with pool.transaction() as connection:
            if not await repository.lock_open_session(connection, schema, user_id, session_id):
                raise IllegalMove(f"session {session_id} was closed meanwhile and takes no more images; begin another")
            added = await repository.add_image(connection, schema, session_id, name)
            assert added, "only images with a message id can be duplicates"
            if added.sequence > MAX_IMAGES:
                raise too_many_images(session_id)
    except (IllegalMove, InvalidArgument):  # only then: after any other error the transaction may have committed
        await objects.remove([name])
        raise
    return added


async def check_accepts_images(pool: Pool, schema: str, user_id: int, session_id: UUID) -> None:
    """Raise an error when a session is another person's, is closed, or has the maximum number of images."""
    async with pool.transaction() as connection:
        session = await get_own_session(connection, schema, user_id, session_id)
        images = await repository.list_images(connection, schema, session_id, MAX_IMAGES)
    if session.state != "pending" or session.closed_at is not None:
        state = "closed" if session.state == "pending" else session.state
        raise IllegalMove(f"session {session_id} is {state} and takes no more images; begin another")
    if len(images) >= MAX_IMAGES:
        raise too_many_images(session_id)


def too_many_images(session_id: UUID) -> InvalidArgument:
    """Return the error for one image too many."""
    return InvalidArgument(f"session {session_id} has {MAX_IMAGES} images, the maximum; close it")


async def close_session(pool: Pool, schema: str, user_id: int, session_id: UUID) -> CaptureSession:
    """Close a session; closing it again changes nothing."""
    async with pool.transaction() as connection:
        await repository.close_session(connection, schema, user_id, session_id)
        return await get_own_session(connection, schema, user_id, session_id)


# Reading --------------------------------------------------------------------------------------------------------------


async def get_session(pool: Pool, schema: str, user_id: int | None, session_id: UUID) -> CaptureSession:
    """Return a session of this person, or of any person when `user_id` is None; raises NotFound when there is none."""
    async with pool.transaction() as connection:
        return await get_own_session(connection, schema, user_id, session_id)


async def resolve_id(pool: Pool, schema: str, prefix: IdPrefix) -> UUID:
    """Return the id of the only session with this prefix; a full id is not looked up."""
    if prefix.is_full_id:
        return prefix.first
    async with pool.transaction() as connection:
        return resolve_single_match(prefix, "session", await repository.list_session_ids(connection, schema, prefix))


async def list_sessions(
    pool: Pool, schema: str, user_id: int, *, cursor: str | None = None, limit: int = 100
) -> Page[CaptureSession]:
    """Return a page of a person's sessions, the newest first."""
    before = repository.END if cursor is None else decode_cursor(cursor, datetime.fromisoformat, UUID)
    async with pool.transaction() as connection:
        rows = await repository.list_sessions(
            connection, schema, user_id, (before[0], before[1]), checked_limit(limit) + 1
        )
    return build_page(rows, limit, lambda session: (session.created_at, session.id))


async def list_images(pool: Pool, schema: str, user_id: int | None, session_id: UUID) -> list[CaptureImage]:
    """Return the images of a session, in order."""
    async with pool.transaction() as connection:
        await get_own_session(connection, schema, user_id, session_id)
        return list(await repository.list_images(connection, schema, session_id, MAX_IMAGES))


async def list_transitions(
    pool: Pool, schema: str, user_id: int | None, session_id: UUID, *, cursor: str | None = None, limit: int = 100
) -> Page[timeline.Transition]:
    """Return a page of a session's audit log, in order."""
    async with pool.transaction() as connection:
        await get_own_session(connection, schema, user_id, session_id)
        return await timeline.list_transitions(connection, CAPTURE_MACHINE.name, session_id, cursor=cursor, limit=limit)


async def list_days(
    pool: Pool, schema: str, user_id: int, first: date, last: date, *, limit: int = 100
) -> Sequence[KnownDay]:
    """Return a person's days between two dates, as they are known now."""
    async with pool.transaction() as connection:
        return await repository.list_known_days(connection, schema, user_id, first, last, checked_limit(limit))


async def get_day(pool: Pool, schema: str, user_id: int, schedule_date: date) -> KnownDay:
    """Return a person's day as it is known now; raises NotFound when there is none."""
    async with pool.transaction() as connection:
        day = await repository.find_known_day(connection, schema, user_id, schedule_date)
    if day is None:
        raise NotFound(f"nothing is known of {schedule_date.isoformat()}")
    return day


async def list_versions(
    pool: Pool, schema: str, user_id: int, schedule_date: date, *, cursor: str | None = None, limit: int = 100
) -> Page[DayVersion]:
    """Return a page of a day's versions, in order, without their payloads."""
    after = 0 if cursor is None else decode_cursor(cursor, int)[0]
    async with pool.transaction() as connection:
        rows = await repository.list_versions(
            connection, schema, user_id, schedule_date, after, checked_limit(limit) + 1
        )
    return build_page(rows, limit, lambda version: (version.version,))


async def get_version(pool: Pool, schema: str, user_id: int, schedule_date: date, version: int) -> DayVersion:
    """Return a version of a day; raises NotFound when there is none."""
    async with pool.transaction() as connection:
        found = await repository.find_version(connection, schema, user_id, schedule_date, version)
    if found is None:
        raise NotFound(f"there is no version {version} of {schedule_date.isoformat()}")
    return found


async def list_events(
    pool: Pool,
    schema: str,
    user_id: int,
    schedule_date: date,
    *,
    session_id: UUID | None = None,
    cursor: str | None = None,
    limit: int = 100,
) -> Page[ShiftEvent]:
    """Return a page of a day's events, or of those that one session wrote, in the order in which they happened."""
    after = repository.NO_EVENT if cursor is None else decode_cursor(cursor, int, datetime.fromisoformat, UUID)
    async with pool.transaction() as connection:
        rows = await repository.list_events(
            connection,
            schema,
            user_id,
            schedule_date,
            (after[0], after[1], after[2]),
            checked_limit(limit) + 1,
            session_id,
        )
    return build_page(rows, limit, lambda event: (event.seq or 0, event.detected_at, event.event_id))


async def list_notifications(
    pool: Pool, schema: str, user_id: int, schedule_date: date, *, cursor: str | None = None, limit: int = 100
) -> Page[StoredNotification]:
    """Return a page of the notifications about a day, in order of delivery."""
    after = (repository.BEGINNING, "") if cursor is None else decode_cursor(cursor, datetime.fromisoformat, str)
    async with pool.transaction() as connection:
        rows = await repository.list_notifications(
            connection, schema, user_id, schedule_date, (after[0], after[1]), checked_limit(limit) + 1
        )
    return build_page(rows, limit, lambda message: (message.created_at, message.notification_id))


async def compare_versions(
    pool: Pool, schema: str, user_id: int, schedule_date: date, before: int, after: int
) -> list[ShiftChange]:
    """Return what changed from one version of a day to another; 0 is the empty day before the first."""
    shifts = [await find_version_shifts(pool, schema, user_id, schedule_date, version) for version in (before, after)]
    return diff(*shifts)


async def find_version_shifts(
    pool: Pool, schema: str, user_id: int, schedule_date: date, version: int
) -> tuple[Shift, ...]:
    """Return the shifts of a version, in the form of the current canonicalizer."""
    if version == 0:
        return ()
    return canonicalize((await get_version(pool, schema, user_id, schedule_date, version)).payload).shifts


@dataclass(frozen=True, slots=True)
class ReplayedDay:
    """A day rebuilt from its events, beside the day as it is known."""

    schedule_date: date
    events: int
    shifts: list[Shift] | None  # None: an event removes a shift that is not there
    known: list[Shift]

    @property
    def is_same(self) -> bool:
        """Whether the events rebuild the known day."""
        return self.shifts == self.known


async def replay_day(pool: Pool, schema: str, user_id: int, schedule_date: date) -> ReplayedDay:
    """Rebuild a day from its events alone, from a state of the day that did not change meanwhile."""
    day = await get_day(pool, schema, user_id, schedule_date)
    while True:
        events = await list_all_events(pool, schema, user_id, schedule_date)
        again = await get_day(pool, schema, user_id, schedule_date)
        if again == day:
            break
        day = again
    known = sorted(map(shift_from_json, day.snapshot_payload), key=lambda shift: shift.sort_key)
    try:
        shifts = replay((each.old_value, each.new_value) for each in events)
    except ValueError:
        shifts = None
    return ReplayedDay(schedule_date, len(events), shifts, known)


async def list_all_events(
    pool: Pool, schema: str, user_id: int, schedule_date: date, session_id: UUID | None = None
) -> list[ShiftEvent]:
    """Return every event of a day, or those that one session wrote, in order."""
    page = await list_events(pool, schema, user_id, schedule_date, session_id=session_id, limit=MAX_ROWS)
    events = list(page.items)
    while page.next:
        page = await list_events(
            pool, schema, user_id, schedule_date, session_id=session_id, cursor=page.next, limit=MAX_ROWS
        )
        events += page.items
    return events


# Helpers --------------------------------------------------------------------------------------------------------------


async def get_own_session(connection: Connection, schema: str, user_id: int | None, session_id: UUID) -> CaptureSession:
    """Return a session of this person, or of any person when `user_id` is None; raises NotFound when there is none."""
    if session := await repository.find_session(connection, schema, user_id, session_id):
        return session
    raise NotFound(f"there is no session {session_id}")
