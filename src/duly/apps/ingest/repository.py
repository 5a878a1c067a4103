"""Read and write capture sessions and their images: one method per statement, connection in, value out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

from duly.apps.ingest.model import CaptureImage, CaptureSession
from duly.apps.ingest.states import DEFAULT_SCHEMA, States
from duly.db.advisory import advisory_key
from duly.db.id_prefix import CANDIDATES_LIMIT, IdPrefix
from duly.db.queries import load_queries
from duly.db.rows import Connection, Row, execute, find_row, find_value, get_row, get_rows, get_rows_unprepared

SQL = load_queries(__file__)
END = (datetime.max.replace(tzinfo=UTC), UUID(int=2**128 - 1))


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session that accepts images."""

    id: UUID
    images: int
    last_message_id: int | None  # of the message that added the latest image, where a bot did


class SessionTables:
    """The tables capture_session and capture_image of one installation."""

    def __init__(self, schema: str = DEFAULT_SCHEMA, states: States = States()) -> None:  # noqa: B008 (frozen)
        self.sql = SQL.using(schema=schema)
        self.states = states

    # Creating sessions ------------------------------------------------------------------------------------------------

    async def add_session(
        self, connection: Connection, user_id: int, payload: Mapping[str, Any] | None = None
    ) -> CaptureSession:
        """Create a session; with a payload it is closed."""
        given = to_json(payload) if payload is not None else None
        return CaptureSession(**await get_row(connection, self.sql.add_session, user_id=user_id, payload=given))

    async def lock_open_session(self, connection: Connection, user_id: int, session_id: UUID) -> bool:
        """Lock a session of this person until the transaction ends; False when it accepts no more images."""
        found = await find_value(connection, self.sql.lock_open_session, user_id=user_id, session_id=session_id)
        return found is not None

    async def add_image(
        self, connection: Connection, session_id: UUID, r2_key: str, telegram_message_id: int | None = None
    ) -> CaptureImage | None:
        """Add an image to a session that we have locked; None when this message has added it before."""
        row = await find_row(
            connection,
            self.sql.add_image,
            session_id=session_id,
            r2_key=r2_key,
            telegram_message_id=telegram_message_id,
        )
        return CaptureImage(**row) if row else None

    async def close_session(self, connection: Connection, user_id: int, session_id: UUID) -> bool:
        """Close a session; False when it is another person's or no longer pending."""
        found = await find_value(connection, self.sql.close_session, user_id=user_id, session_id=session_id)
        return found is not None

    # Uploads of single images -----------------------------------------------------------------------------------------

    async def lock_intake(self, connection: Connection, user_id: int) -> None:
        """Serialize the uploads of this person until the transaction ends."""
        await execute(connection, self.sql.lock_intake, key=advisory_key("ingest.intake", user_id))

    async def add_session_with_id(self, connection: Connection, user_id: int, session_id: UUID) -> bool:
        """Create a session with this id; False when it exists."""
        found = await find_value(connection, self.sql.add_session_with_id, user_id=user_id, session_id=session_id)
        return found is not None

    async def find_open_session(self, connection: Connection, user_id: int, own: UUID | None) -> OpenSession | None:
        """Return, locked, the session of this person that accepts an image which belongs to `own`, or any image."""
        row = await find_row(connection, self.sql.find_open_session, user_id=user_id, own=own)
        return OpenSession(**row) if row else None

    async def find_image_by_message(
        self, connection: Connection, user_id: int, telegram_message_id: int, r2_keys: Sequence[str]
    ) -> CaptureImage | None:
        """Return the image that a message added, under one of these object names."""
        row = await find_row(
            connection,
            self.sql.find_image_by_message,
            user_id=user_id,
            telegram_message_id=telegram_message_id,
            r2_keys=list(r2_keys),
        )
        return CaptureImage(**row) if row else None

    # Reading ----------------------------------------------------------------------------------------------------------

    async def find_session(
        self, connection: Connection, user_id: int | None, session_id: UUID
    ) -> CaptureSession | None:
        """Return a session of this person, or of any person when `user_id` is None."""
        row = await find_row(connection, self.sql.find_session, user_id=user_id, session_id=session_id)
        return CaptureSession(**row) if row else None

    async def list_session_ids(self, connection: Connection, prefix: IdPrefix) -> Sequence[Row]:
        """Return a few of the sessions whose ids have this prefix."""
        statement = self.sql.list_session_ids
        return await get_rows(connection, statement, first=prefix.first, last=prefix.last, limit=CANDIDATES_LIMIT)

    async def list_sessions(
        self, connection: Connection, user_id: int, before: tuple[datetime, UUID] = END, limit: int = 100
    ) -> Sequence[CaptureSession]:
        """Return a page of a person's sessions, the newest first."""
        rows = await get_rows(
            connection,
            self.sql.list_sessions,
            user_id=user_id,
            before_at=before[0],
            before_id=before[1],
            limit=limit,
        )
        return [CaptureSession(**row) for row in rows]

    async def list_images(self, connection: Connection, session_id: UUID, limit: int = 100) -> Sequence[CaptureImage]:
        """Return the images of a session, in order."""
        rows = await get_rows(connection, self.sql.list_images, session_id=session_id, limit=limit)
        return [CaptureImage(**row) for row in rows]

    # Worker -----------------------------------------------------------------------------------------------------------

    async def close_idle(self, connection: Connection, *, idle_seconds: float, limit: int = 100) -> int:
        """Close sessions whose last image is older than `idle_seconds`; return how many."""
        rows = await get_rows_unprepared(
            connection,
            self.sql.close_idle,
            pending=self.states.pending,
            idle_seconds=idle_seconds,
            limit=limit,
        )
        return len(rows)


def to_json(value: object) -> str:
    """Return a value as JSON text for PostgreSQL."""
    return orjson.dumps(value).decode()
