"""The verbs that doors call: begin a session, add images, close it, and look at what days became."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from uuid import UUID

from duly.apps.ingest import repository
from duly.apps.ingest.canonical import observe
from duly.apps.ingest.diff import Change, diff, replay
from duly.apps.ingest.model import MAX_IMAGES, DayVersion, Image, KnownDay, Message, PastEvent, Session
from duly.apps.ingest.shift import Shift, read_shift
from duly.apps.ingest.states import CAPTURE_MACHINE
from duly.canonical_json import checked_json
from duly.db.id_prefix import IdPrefix, only_match
from duly.db.pool import Pool
from duly.db.rows import Connection
from duly.errors import IllegalMove, InvalidArgument, NotFound
from duly.lease import timeline
from duly.lease.owner import new_id
from duly.paging import MAX_ROWS, Page, checked_limit, page_of, read_place
from duly.storage import Objects

__all__ = [
    "MAX_IMAGES",
    "Replayed",
    "add_image",
    "all_events",
    "close_session",
    "compare_versions",
    "create_session",
    "get_day",
    "get_session",
    "get_version",
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

# Asking ---------------------------------------------------------------------------------------------------------------


async def create_session(pool: Pool, schema: str, user_id: int, payload: Mapping[str, Any] | None = None) -> Session:
    """Begin a session of this person; with a payload it needs no images, and is complete."""
    if payload is not None:
        payload = checked_json(payload)
        observe(payload)  # refused here, by name, and not later by a worker
    async with pool.transaction() as connection:
        return await repository.add_session(connection, schema, user_id, payload)


async def add_image(
    pool: Pool, schema: str, objects: Objects, user_id: int, session_id: UUID, image: bytes, kind: str = "png"
) -> Image:
    """Keep a cleaned image as the next of a session that still takes some."""
    name = f"screenshots/{user_id}/{session_id}/{new_id()}.{kind}"
    await must_take_images(pool, schema, user_id, session_id)
    await objects.put(name, image)
    try:
        async with pool.transaction() as connection:
            if not await repository.lock_open_session(connection, schema, user_id, session_id):
                raise IllegalMove(f"session {session_id} was closed meanwhile and takes no more images; begin another")
            added = await repository.add_image(connection, schema, session_id, name)
            assert added, "what has no message is never there already"
            if added.sequence > MAX_IMAGES:
                raise full(session_id)
    except (IllegalMove, InvalidArgument):  # and only then: after a lost answer the image may be there
        await objects.remove([name])
        raise
    return added


async def must_take_images(pool: Pool, schema: str, user_id: int, session_id: UUID) -> None:
    """Refuse to add an image to a session that is not theirs, is complete, or is full."""
    async with pool.transaction() as connection:
        session = await get(connection, schema, user_id, session_id)
        images = await repository.list_images(connection, schema, session_id, MAX_IMAGES)
    if session.state != "pending" or session.closed_at is not None:
        state = "closed" if session.state == "pending" else session.state
        raise IllegalMove(f"session {session_id} is {state} and takes no more images; begin another")
    if len(images) >= MAX_IMAGES:
        raise full(session_id)


def full(session_id: UUID) -> InvalidArgument:
    """The refusal of one image too many."""
    return InvalidArgument(f"session {session_id} has {MAX_IMAGES} images, and takes no more; close it")


async def close_session(pool: Pool, schema: str, user_id: int, session_id: UUID) -> Session:
    """Say that a session is complete; saying it again changes nothing."""
    async with pool.transaction() as connection:
        await repository.close_session(connection, schema, user_id, session_id)
        return await get(connection, schema, user_id, session_id)


# Looking --------------------------------------------------------------------------------------------------------------


async def get_session(pool: Pool, schema: str, user_id: int | None, session_id: UUID) -> Session:
    """A session of this person, or NotFound."""
    async with pool.transaction() as connection:
        return await get(connection, schema, user_id, session_id)


async def resolve_id(pool: Pool, schema: str, prefix: IdPrefix) -> UUID:
    """The id of the one session that begins so; a whole id is not looked up."""
    if prefix.is_whole:
        return prefix.first
    async with pool.transaction() as connection:
        return only_match(prefix, "session", await repository.list_session_ids(connection, schema, prefix))


async def list_sessions(
    pool: Pool, schema: str, user_id: int, *, place: str | None = None, limit: int = 100
) -> Page[Session]:
    """A page of a person's sessions, the newest first."""
    before = repository.END if place is None else read_place(place, datetime.fromisoformat, UUID)
    async with pool.transaction() as connection:
        rows = await repository.list_sessions(
            connection, schema, user_id, (before[0], before[1]), checked_limit(limit) + 1
        )
    return page_of(rows, limit, lambda session: (session.created_at, session.id))


async def list_images(pool: Pool, schema: str, user_id: int | None, session_id: UUID) -> list[Image]:
    """The images of a session, in their order."""
    async with pool.transaction() as connection:
        await get(connection, schema, user_id, session_id)
        return list(await repository.list_images(connection, schema, session_id, MAX_IMAGES))


async def list_transitions(
    pool: Pool, schema: str, user_id: int | None, session_id: UUID, *, place: str | None = None, limit: int = 100
) -> Page[timeline.Transition]:
    """A page of a session's log, in order."""
    async with pool.transaction() as connection:
        await get(connection, schema, user_id, session_id)
        return await timeline.list_transitions(connection, CAPTURE_MACHINE.name, session_id, place=place, limit=limit)


async def list_days(
    pool: Pool, schema: str, user_id: int, first: date, last: date, *, limit: int = 100
) -> Sequence[KnownDay]:
    """A person's days from one to another, as they are known now."""
    async with pool.transaction() as connection:
        return await repository.list_snapshots(connection, schema, user_id, first, last, checked_limit(limit))


async def get_day(pool: Pool, schema: str, user_id: int, schedule_date: date) -> KnownDay:
    """A person's day as it is known now, or NotFound."""
    async with pool.transaction() as connection:
        day = await repository.find_snapshot(connection, schema, user_id, schedule_date)
    if day is None:
        raise NotFound(f"nothing is known of {schedule_date.isoformat()}")
    return day


async def list_versions(
    pool: Pool, schema: str, user_id: int, schedule_date: date, *, place: str | None = None, limit: int = 100
) -> Page[DayVersion]:
    """A page of a day's versions, in order, without what they show."""
    after = 0 if place is None else read_place(place, int)[0]
    async with pool.transaction() as connection:
        rows = await repository.list_versions(
            connection, schema, user_id, schedule_date, after, checked_limit(limit) + 1
        )
    return page_of(rows, limit, lambda version: (version.version,))


async def get_version(pool: Pool, schema: str, user_id: int, schedule_date: date, version: int) -> DayVersion:
    """A day as it once was, or NotFound."""
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
    place: str | None = None,
    limit: int = 100,
) -> Page[PastEvent]:
    """A page of a day's events, or of those that one session wrote, in the order in which they happened."""
    after = repository.NO_EVENT if place is None else read_place(place, int, datetime.fromisoformat, UUID)
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
    return page_of(rows, limit, lambda event: (event.seq or 0, event.detected_at, event.event_id))


async def list_notifications(
    pool: Pool, schema: str, user_id: int, schedule_date: date, *, place: str | None = None, limit: int = 100
) -> Page[Message]:
    """A page of what a person was told of a day, in the order of delivery."""
    after = (repository.BEGINNING, "") if place is None else read_place(place, datetime.fromisoformat, str)
    async with pool.transaction() as connection:
        rows = await repository.list_notifications(
            connection, schema, user_id, schedule_date, (after[0], after[1]), checked_limit(limit) + 1
        )
    return page_of(rows, limit, lambda message: (message.created_at, message.notification_id))


async def compare_versions(
    pool: Pool, schema: str, user_id: int, schedule_date: date, before: int, after: int
) -> list[Change]:
    """What changed from one version of a day to another; 0 is the empty day before the first."""
    shifts = [await shifts_of_version(pool, schema, user_id, schedule_date, version) for version in (before, after)]
    return diff(*shifts)


async def shifts_of_version(
    pool: Pool, schema: str, user_id: int, schedule_date: date, version: int
) -> tuple[Shift, ...]:
    """The shifts that a version has, in the form that we give them today."""
    if version == 0:
        return ()
    return observe((await get_version(pool, schema, user_id, schedule_date, version)).payload).shifts


@dataclass(frozen=True, slots=True)
class Replayed:
    """A day as its events make it, beside the day as it is known."""

    schedule_date: date
    events: int
    shifts: list[Shift] | None  # None: one of them removes a shift that was not there
    known: list[Shift]

    @property
    def is_same(self) -> bool:
        """Do the events rebuild the day?"""
        return self.shifts == self.known


async def replay_day(pool: Pool, schema: str, user_id: int, schedule_date: date) -> Replayed:
    """Rebuild a day from its events alone, none of which came while we looked."""
    day = await get_day(pool, schema, user_id, schedule_date)
    while True:
        events = await all_events(pool, schema, user_id, schedule_date)
        again = await get_day(pool, schema, user_id, schedule_date)
        if again == day:
            break
        day = again
    known = sorted(map(read_shift, day.snapshot_payload), key=lambda shift: shift.order)
    try:
        shifts = replay((each.old_value, each.new_value) for each in events)
    except ValueError:
        shifts = None
    return Replayed(schedule_date, len(events), shifts, known)


async def all_events(
    pool: Pool, schema: str, user_id: int, schedule_date: date, session_id: UUID | None = None
) -> list[PastEvent]:
    """Every event of a day, or those that one session wrote, in order."""
    page = await list_events(pool, schema, user_id, schedule_date, session_id=session_id, limit=MAX_ROWS)
    events = list(page.items)
    while page.next:
        page = await list_events(
            pool, schema, user_id, schedule_date, session_id=session_id, place=page.next, limit=MAX_ROWS
        )
        events += page.items
    return events


# Within ---------------------------------------------------------------------------------------------------------------


async def get(connection: Connection, schema: str, user_id: int | None, session_id: UUID) -> Session:
    """A session of this person, or NotFound."""
    if session := await repository.find_session(connection, schema, user_id, session_id):
        return session
    raise NotFound(f"there is no session {session_id}")
