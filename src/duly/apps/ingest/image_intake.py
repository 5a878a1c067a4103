"""Accept images that a bot uploads one by one: each exactly once, whatever is repeated and in whatever order.

    /start_session ---> an open session ---> images are added to it ---> /done ---> it is closed
    images of a media group ---------------> a session of their own, closed when no more of them arrive
    a single image -----------------------> a session of its own, closed at once

A bot gets its messages at least once. So every id is derived from the message: the id of the session, and the object
name of the image; what an earlier delivery of the message did is found by them. Uploads of one person are serialized.
The session of a media group has a UUID of version 3: that marks it as accepting only images of its group.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from duly.apps.ingest.model import MAX_IMAGES, CaptureImage
from duly.apps.ingest.repository import SessionTables
from duly.db.pool import Pool
from duly.db.rows import Connection
from duly.lease.owner import new_id
from duly.outcomes import Created, Creation, Existing
from duly.storage import ObjectStore

EXTENSIONS = ("png", "jpg")


class SessionFull(Exception):
    """The session of an image has the maximum number of images."""


@dataclass(frozen=True)
class NewImage:
    """A cleaned image to add, and the message that contained it."""

    name: str  # object name without extension
    message_id: int
    data: bytes
    extension: str

    @property
    def r2_key(self) -> str:
        """The full object name."""
        return f"{self.name}.{self.extension}"


@dataclass(frozen=True)
class IntakeSession:
    """A session that accepts images, or one that this command opened and that was closed since."""

    session_id: UUID
    images: int
    is_open: bool


@dataclass(frozen=True)
class ReceivedImage:
    """An image that was added, and whether its session accepts more."""

    image: CaptureImage
    is_open: bool


class ImageIntake:
    """Adds images to the sessions of one installation; those of one person one after another."""

    def __init__(self, pool: Pool, tables: SessionTables) -> None:
        self.pool = pool
        self.tables = tables

    async def open_session(self, user_id: int, session_id: UUID) -> Creation[IntakeSession]:
        """Open a session with this id, or return the one that is open."""
        async with self.pool.transaction() as connection:
            await self.tables.lock_intake(connection, user_id)
            if found := await self.tables.find_open_session(connection, user_id, session_id):
                return Existing(IntakeSession(found.id, found.images, is_open=True))
            if await self.tables.add_session_with_id(connection, user_id, session_id):
                return Created(IntakeSession(session_id, 0, is_open=True))
            images = await self.tables.list_images(connection, session_id, MAX_IMAGES)
            return Existing(IntakeSession(session_id, len(images), is_open=False))

    async def find_received(self, user_id: int, name: str, message_id: int) -> ReceivedImage | None:
        """Return the image that this message added before, so that it need not be downloaded again."""
        async with self.pool.transaction() as connection:
            return await self._find_received(connection, user_id, name, message_id)

    async def add_image(
        self,
        objects: ObjectStore,
        user_id: int,
        image: NewImage,
        session_id: UUID,
        *,
        stays_open: bool = False,
    ) -> Creation[ReceivedImage]:
        """Add a stored image to the open session, or to one of its own with this id, which is closed at once.

        `stays_open` is for the first image of a media group: the others follow, and the session is closed when
        none has arrived for a while.
        """
        try:
            async with self.pool.transaction() as connection:
                await self.tables.lock_intake(connection, user_id)
                if found := await self._find_received(connection, user_id, image.name, image.message_id):
                    return Existing(found)
                session, is_open = await self._choose_session(connection, user_id, session_id, stays_open=stays_open)
                added = await self.tables.add_image(connection, session, image.r2_key, image.message_id)
                assert added, "it was not found above, and the lock keeps other uploads of this person out"
                if added.sequence > MAX_IMAGES:
                    raise SessionFull
                if not is_open:
                    await self.tables.close_session(connection, user_id, session)
        except SessionFull:  # only then: after any other error the transaction may have committed
            await objects.remove([image.r2_key])
            raise
        return Created(ReceivedImage(added, is_open))

    async def close_open_session(self, user_id: int, message_id: int) -> IntakeSession | None:
        """Close the open session, as this message requests; None when there is none.

        A session without images stays open, and so does one with an image that is newer than this message:
        then the message was about an earlier session, and is delivered again.
        """
        async with self.pool.transaction() as connection:
            await self.tables.lock_intake(connection, user_id)
            found = await self.tables.find_open_session(connection, user_id, None)
            if found is None:
                return None
            closes = found.images > 0 and (found.last_message_id or 0) < message_id
            if closes:
                await self.tables.close_session(connection, user_id, found.id)
            return IntakeSession(found.id, found.images, is_open=not closes)

    async def _choose_session(
        self, connection: Connection, user_id: int, session_id: UUID, *, stays_open: bool
    ) -> tuple[UUID, bool]:
        """Return the session for an image, and whether it stays open."""
        if found := await self.tables.find_open_session(connection, user_id, session_id):
            return found.id, True
        if await self.tables.add_session_with_id(connection, user_id, session_id):
            return session_id, stays_open
        late = new_id()  # the session of its group is closed already
        await self.tables.add_session_with_id(connection, user_id, late)
        return late, False

    async def _find_received(
        self, connection: Connection, user_id: int, name: str, message_id: int
    ) -> ReceivedImage | None:
        """Return the image that this message added before."""
        image = await self.tables.find_image_by_message(connection, user_id, message_id, _possible_names(name))
        if image is None:
            return None
        session = await self.tables.find_session(connection, user_id, image.session_id)
        return ReceivedImage(image, is_open=session is not None and session.closed_at is None)


def _possible_names(name: str) -> Sequence[str]:
    """Return the object names that an image may have."""
    return [f"{name}.{extension}" for extension in EXTENSIONS]
