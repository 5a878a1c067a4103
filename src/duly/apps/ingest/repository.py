"""Read and write capture sessions, and read days: one function per statement, connection and schema in, value out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import orjson

from duly.apps.ingest.model import CaptureImage, CaptureSession, DayVersion, KnownDay, ShiftEvent, StoredNotification
from duly.db.advisory import advisory_key
from duly.db.id_prefix import CANDIDATES_LIMIT, IdPrefix
from duly.db.queries import load_queries
from duly.db.rows import Connection, Row, execute, find_row, find_value, get_row, get_rows, get_rows_unprepared

SQL = load_queries(__file__)
BEGINNING = datetime.min.replace(tzinfo=UTC)
END = (datetime.max.replace(tzinfo=UTC), UUID(int=2**128 - 1))
NO_EVENT = (-1, BEGINNING, UUID(int=0))


# Creating sessions ----------------------------------------------------------------------------------------------------


async def add_session(
    connection: Connection, schema: str, user_id: int, payload: Mapping[str, Any] | None = None
) -> CaptureSession:
    """Create a session; with a payload it is closed."""
    given = to_json(payload) if payload is not None else None
    return CaptureSession(
        **await get_row(connection, SQL.using(schema=schema).add_session, user_id=user_id, payload=given)
    )


async def lock_open_session(connection: Connection, schema: str, user_id: int, session_id: UUID) -> bool:
    """Lock a session of this person until the transaction ends; False when it accepts no more images."""
    found = await find_value(
        connection, SQL.using(schema=schema).lock_open_session, user_id=user_id, session_id=session_id
    )
    return found is not None


async def add_image(
    connection: Connection, schema: str, session_id: UUID, r2_key: str, telegram_message_id: int | None = None
) -> CaptureImage | None:
    """Add an image to a session that we have locked; None when this message has added it before."""
    row = await find_row(
        connection,
        SQL.using(schema=schema).add_image,
        session_id=session_id,
        r2_key=r2_key,
        telegram_message_id=telegram_message_id,
    )
    return CaptureImage(**row) if row else None


async def close_session(connection: Connection, schema: str, user_id: int, session_id: UUID) -> bool:
    """Close a session; False when it is another person's or no longer pending."""
    found = await find_value(connection, SQL.using(schema=schema).close_session, user_id=user_id, session_id=session_id)
    return found is not None


# Uploads of single images ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session that accepts images."""

    id: UUID
    images: int
    last_message_id: int | None  # of the message that added the latest image, where a bot did


async def lock_intake(connection: Connection, user_id: int) -> None:
    """Serialize the uploads of this person until the transaction ends."""
    await execute(connection, SQL.lock_intake, key=advisory_key("ingest.bringer", user_id))


async def begin_session(connection: Connection, schema: str, user_id: int, session_id: UUID) -> bool:
    """Create a session with this id; False when it exists."""
    found = await find_value(connection, SQL.using(schema=schema).begin_session, user_id=user_id, session_id=session_id)
    return found is not None


async def find_open_session(connection: Connection, schema: str, user_id: int, own: UUID | None) -> OpenSession | None:
    """Return, locked, the session of this person that accepts an image which belongs to `own`, or any image."""
    row = await find_row(connection, SQL.using(schema=schema).find_open_session, user_id=user_id, own=own)
    return OpenSession(**row) if row else None


async def find_image_by_message(
    connection: Connection, schema: str, user_id: int, telegram_message_id: int, r2_keys: Sequence[str]
) -> CaptureImage | None:
    """Return the image that a message added, under one of these object names."""
    row = await find_row(
        connection,
        SQL.using(schema=schema).find_image_by_message,
        user_id=user_id,
        telegram_message_id=telegram_message_id,
        r2_keys=list(r2_keys),
    )
    return CaptureImage(**row) if row else None


# Reading --------------------------------------------------------------------------------------------------------------


async def find_session(
    connection: Connection, schema: str, user_id: int | None, session_id: UUID
) -> CaptureSession | None:
    """Return a session of this person, or of any person when `user_id` is None."""
    row = await find_row(connection, SQL.using(schema=schema).find_session, user_id=user_id, session_id=session_id)
    return CaptureSession(**row) if row else None


async def list_session_ids(connection: Connection, schema: str, prefix: IdPrefix) -> Sequence[Row]:
    """Return a few of the sessions whose ids have this prefix."""
    statement = SQL.using(schema=schema).list_session_ids
    return await get_rows(connection, statement, first=prefix.first, last=prefix.last, limit=CANDIDATES_LIMIT)


async def list_sessions(
    connection: Connection, schema: str, user_id: int, before: tuple[datetime, UUID] = END, limit: int = 100
) -> Sequence[CaptureSession]:
    """Return a page of a person's sessions, the newest first."""
    rows = await get_rows(
        connection,
        SQL.using(schema=schema).list_sessions,
        user_id=user_id,
        before_at=before[0],
        before_id=before[1],
        limit=limit,
    )
    return [CaptureSession(**row) for row in rows]


async def list_images(
    connection: Connection, schema: str, session_id: UUID, limit: int = 100
) -> Sequence[CaptureImage]:
    """Return the images of a session, in order."""
    rows = await get_rows(connection, SQL.using(schema=schema).list_images, session_id=session_id, limit=limit)
    return [CaptureImage(**row) for row in rows]


async def find_known_day(connection: Connection, schema: str, user_id: int, schedule_date: date) -> KnownDay | None:
    """Return a day of this person as it is known now."""
    row = await find_row(
        connection, SQL.using(schema=schema).find_known_day, user_id=user_id, schedule_date=schedule_date
    )
    return KnownDay(**row) if row else None


async def list_known_days(
    connection: Connection, schema: str, user_id: int, first: date, last: date, limit: int = 100
) -> Sequence[KnownDay]:
    """Return the days of this person between two dates, as they are known now."""
    rows = await get_rows(
        connection, SQL.using(schema=schema).list_known_days, user_id=user_id, first=first, last=last, limit=limit
    )
    return [KnownDay(**row) for row in rows]


async def find_version(
    connection: Connection, schema: str, user_id: int, schedule_date: date, version: int
) -> DayVersion | None:
    """Return a version of a day, with its payload."""
    row = await find_row(
        connection, SQL.using(schema=schema).find_version, user_id=user_id, schedule_date=schedule_date, version=version
    )
    return DayVersion(**row) if row else None


async def list_versions(
    connection: Connection, schema: str, user_id: int, schedule_date: date, after_version: int = 0, limit: int = 100
) -> Sequence[DayVersion]:
    """Return a page of a day's versions, in order, without their payloads."""
    rows = await get_rows(
        connection,
        SQL.using(schema=schema).list_versions,
        user_id=user_id,
        schedule_date=schedule_date,
        after_version=after_version,
        limit=limit,
    )
    return [DayVersion(**row) for row in rows]


async def list_events(
    connection: Connection,
    schema: str,
    user_id: int,
    schedule_date: date,
    after: tuple[int, datetime, UUID] = NO_EVENT,
    limit: int = 100,
    session_id: UUID | None = None,
) -> Sequence[ShiftEvent]:
    """Return a page of the events of a day, or of one session, in order; events without a seq come first."""
    rows = await get_rows(
        connection,
        SQL.using(schema=schema).list_events,
        user_id=user_id,
        schedule_date=schedule_date,
        after_seq=after[0],
        after_at=after[1],
        after_id=after[2],
        session_id=session_id,
        limit=limit,
    )
    return [ShiftEvent(**row) for row in rows]


async def list_notifications(
    connection: Connection,
    schema: str,
    user_id: int,
    schedule_date: date,
    after: tuple[datetime, str] = (BEGINNING, ""),
    limit: int = 100,
) -> Sequence[StoredNotification]:
    """Return a page of the notifications about a day, in order of delivery."""
    rows = await get_rows(
        connection,
        SQL.using(schema=schema).list_notifications,
        user_id=user_id,
        schedule_date=schedule_date,
        after_at=after[0],
        after_id=after[1],
        limit=limit,
    )
    return [StoredNotification(**row) for row in rows]


# Worker ---------------------------------------------------------------------------------------------------------------


async def close_idle(
    connection: Connection, schema: str, *, pending: str, idle_seconds: float, limit: int = 100
) -> int:
    """Close sessions whose last image is older than `idle_seconds`; return how many."""
    rows = await get_rows_unprepared(
        connection, SQL.using(schema=schema).close_idle, pending=pending, idle_seconds=idle_seconds, limit=limit
    )
    return len(rows)


def to_json(value: object) -> str:
    """Return a value as JSON text for PostgreSQL."""
    return orjson.dumps(value).decode()
