"""The operations behind the entry points, bound once to the pool and to the schema of the ingest tables.

ingest = Ingest(pool, schema)
ingest.sessions     create a session, add images, close it, read it
ingest.intake       add the images that a bot receives one by one
ingest.days         read days and their history
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from duly.apps.ingest.canonical import canonicalize
from duly.apps.ingest.day_history import DayHistory
from duly.apps.ingest.image_intake import ImageIntake
from duly.apps.ingest.model import MAX_IMAGES, CaptureImage, CaptureSession
from duly.apps.ingest.repository import END, SessionTables
from duly.canonical_json import checked_json
from duly.db.id_prefix import IdPrefix, resolve_single_match
from duly.db.pool import Pool
from duly.db.rows import Connection
from duly.errors import IllegalTransition, InvalidArgument, NotFound
from duly.lease import timeline
from duly.lease.owner import new_id
from duly.paging import Page, build_page, checked_limit, decode_cursor
from duly.storage import ObjectStore


class SessionService:
    """Creates and reads the sessions of one installation; those of other people are not found."""

    def __init__(self, pool: Pool, tables: SessionTables) -> None:
        self.pool = pool
        self.tables = tables

    # Creating sessions ------------------------------------------------------------------------------------------------

    async def create_session(self, user_id: int, payload: Mapping[str, Any] | None = None) -> CaptureSession:
        """Create a session of this person; with a payload it is closed and needs no images."""
        if payload is not None:
            payload = checked_json(payload)
            canonicalize(payload)  # an invalid payload is rejected now, not later by a worker
        async with self.pool.transaction() as connection:
            return await self.tables.add_session(connection, user_id, payload)

    async def add_image(
        self, objects: ObjectStore, user_id: int, session_id: UUID, image: bytes, kind: str = "png"
    ) -> CaptureImage:
        """Store a cleaned image and add it to an open session."""
        name = f"screenshots/{user_id}/{session_id}/{new_id()}.{kind}"
        await self._check_accepts_images(user_id, session_id)
        await objects.put(name, image)
        try:
            async with self.pool.transaction() as connection:
                if not await self.tables.lock_open_session(connection, user_id, session_id):
                    raise IllegalTransition(
                        f"session {session_id} was closed meanwhile and accepts no more images; begin another"
                    )
                added = await self.tables.add_image(connection, session_id, name)
                assert added, "only images with a message id can be duplicates"
                if added.sequence > MAX_IMAGES:
                    raise too_many_images(session_id)
        except (
            IllegalTransition,
            InvalidArgument,
        ):  # only then: after any other error the transaction may have committed
            await objects.remove([name])
            raise
        return added

    async def _check_accepts_images(self, user_id: int, session_id: UUID) -> None:
        """Raise an error when a session is another person's, is closed, or has the maximum number of images."""
        async with self.pool.transaction() as connection:
            session = await self._find_session(connection, user_id, session_id)
            images = await self.tables.list_images(connection, session_id, MAX_IMAGES)
        if session.state != "pending" or session.closed_at is not None:
            state = "closed" if session.state == "pending" else session.state
            raise IllegalTransition(f"session {session_id} is {state} and accepts no more images; begin another")
        if len(images) >= MAX_IMAGES:
            raise too_many_images(session_id)

    async def close_session(self, user_id: int, session_id: UUID) -> CaptureSession:
        """Close a session; closing it again changes nothing."""
        async with self.pool.transaction() as connection:
            await self.tables.close_session(connection, user_id, session_id)
            return await self._find_session(connection, user_id, session_id)

    # Reading; where `user_id` is None, sessions of any person ---------------------------------------------------------

    async def get_session(self, user_id: int | None, session_id: UUID) -> CaptureSession:
        """Return a session; raises NotFound when there is none."""
        async with self.pool.transaction() as connection:
            return await self._find_session(connection, user_id, session_id)

    async def resolve_id(self, prefix: IdPrefix) -> UUID:
        """Return the id of the only session with this prefix; a full id is not looked up."""
        if prefix.is_full_id:
            return prefix.first
        async with self.pool.transaction() as connection:
            return resolve_single_match(prefix, "session", await self.tables.list_session_ids(connection, prefix))

    async def list_sessions(self, user_id: int, *, cursor: str | None = None, limit: int = 100) -> Page[CaptureSession]:
        """Return a page of a person's sessions, the newest first."""
        before = END if cursor is None else decode_cursor(cursor, datetime.fromisoformat, UUID)
        async with self.pool.transaction() as connection:
            rows = await self.tables.list_sessions(
                connection, user_id, (before[0], before[1]), checked_limit(limit) + 1
            )
        return build_page(rows, limit, lambda session: (session.created_at, session.id))

    async def list_images(self, user_id: int | None, session_id: UUID) -> list[CaptureImage]:
        """Return the images of a session, in order."""
        async with self.pool.transaction() as connection:
            await self._find_session(connection, user_id, session_id)
            return list(await self.tables.list_images(connection, session_id, MAX_IMAGES))

    async def list_transitions(
        self, user_id: int | None, session_id: UUID, *, cursor: str | None = None, limit: int = 100
    ) -> Page[timeline.Transition]:
        """Return a page of a session's timeline, in order."""
        async with self.pool.transaction() as connection:
            await self._find_session(connection, user_id, session_id)
            return await timeline.list_transitions(connection, "capture", session_id, cursor=cursor, limit=limit)

    async def _find_session(self, connection: Connection, user_id: int | None, session_id: UUID) -> CaptureSession:
        """Return a session; raises NotFound when there is none."""
        if session := await self.tables.find_session(connection, user_id, session_id):
            return session
        raise NotFound(f"there is no session {session_id}")


class Ingest:
    """The operations of ingest in one installation."""

    def __init__(self, pool: Pool, schema: str) -> None:
        tables = SessionTables(schema)
        self.sessions = SessionService(pool, tables)
        self.intake = ImageIntake(pool, tables)
        self.days = DayHistory(pool, schema)


def too_many_images(session_id: UUID) -> InvalidArgument:
    """Return the error for one image too many."""
    return InvalidArgument(f"session {session_id} has {MAX_IMAGES} images, the maximum; close it")
