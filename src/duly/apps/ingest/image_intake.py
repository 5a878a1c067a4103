"""Photographs that a bot brings one by one: each is taken once, whatever is repeated, and in whatever order.

    /start_session ---> a session is open ---> photographs go into it ---> /done ---> it is closed
    photographs sent together --------------> a session of their own, closed when no more of them come
    a photograph alone ---------------------> a session of its own, closed at once

A bot gets its messages at least once. So every name is made of the message: the session's id, and the name under which
the image is kept. What came before is found by it; of one person one thing at a time is done. The name of a session
that photographs began by being sent together is a UUID of version 3: by that it is known, and takes no others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from duly.apps.ingest import repository
from duly.apps.ingest.model import Image
from duly.apps.ingest.service import MAX_IMAGES
from duly.db.pool import Pool
from duly.db.rows import Connection
from duly.lease.owner import new_id
from duly.outcomes import Created, Creation, Existing
from duly.storage import Objects

__all__ = ["Begun", "Photograph", "SessionFull", "Taken", "begin", "bring", "find_taken", "finish", "keep"]

KINDS = ("png", "jpg")


class SessionFull(Exception):
    """The session that a photograph belongs to takes no more."""


@dataclass(frozen=True)
class Photograph:
    """A cleaned photograph, and the message that brought it."""

    name: str  # under which it is kept, without its ending
    message_id: int
    data: bytes
    kind: str

    @property
    def r2_key(self) -> str:
        """The whole name."""
        return f"{self.name}.{self.kind}"


@dataclass(frozen=True)
class Begun:
    """A session that takes photographs, or the one that this very command began and that was closed since."""

    session_id: UUID
    images: int
    is_open: bool


@dataclass(frozen=True)
class Taken:
    """A photograph that is ours, and whether its session waits for more."""

    image: Image
    is_open: bool


async def begin(pool: Pool, schema: str, user_id: int, session_id: UUID) -> Creation[Begun]:
    """Begin a session under this id; who has an open one goes on with that."""
    async with pool.transaction() as connection:
        await repository.lock_bringer(connection, user_id)
        if found := await repository.find_open_session(connection, schema, user_id, session_id):
            return Existing(Begun(found.id, found.images, is_open=True))
        if await repository.begin_session(connection, schema, user_id, session_id):
            return Created(Begun(session_id, 0, is_open=True))
        images = await repository.list_images(connection, schema, session_id, MAX_IMAGES)
        return Existing(Begun(session_id, len(images), is_open=False))


async def find_taken(pool: Pool, schema: str, user_id: int, name: str, message_id: int) -> Taken | None:
    """What this message brought before, if it did: then nothing needs to be fetched again."""
    async with pool.transaction() as connection:
        return await taken_before(connection, schema, user_id, name, message_id)


async def keep(objects: Objects, photograph: Photograph) -> None:
    """Keep a photograph where images are kept, before it is brought."""
    await objects.put(photograph.r2_key, photograph.data)


async def bring(
    pool: Pool,
    schema: str,
    objects: Objects,
    user_id: int,
    photograph: Photograph,
    session_id: UUID,
    *,
    stays_open: bool = False,
) -> Creation[Taken]:
    """Take a photograph that is kept into the open session, or into one of its own under this id, closed at once.

    `stays_open` is for the first of several that come together: the others follow, and the session closes when none
    has come for a while.
    """
    try:
        async with pool.transaction() as connection:
            await repository.lock_bringer(connection, user_id)
            if found := await taken_before(connection, schema, user_id, photograph.name, photograph.message_id):
                return Existing(found)
            session, is_open = await session_for(connection, schema, user_id, session_id, stays_open=stays_open)
            image = await repository.add_image(connection, schema, session, photograph.r2_key, photograph.message_id)
            assert image, "it was not there a moment ago, and nobody else brings it"
            if image.sequence > MAX_IMAGES:
                raise SessionFull
            if not is_open:
                await repository.close_session(connection, schema, user_id, session)
    except SessionFull:  # and only then: after a lost answer the image may be there
        await objects.remove([photograph.r2_key])
        raise
    return Created(Taken(image, is_open))


async def finish(pool: Pool, schema: str, user_id: int, message_id: int) -> Begun | None:
    """Close the open session, by this message; None when there is none.

    One without photographs stays open, and so does one that got a photograph after this message: the message was
    about an earlier session, and comes again.
    """
    async with pool.transaction() as connection:
        await repository.lock_bringer(connection, user_id)
        found = await repository.find_open_session(connection, schema, user_id, None)
        if found is None:
            return None
        closes = found.images > 0 and (found.last_message_id or 0) < message_id
        if closes:
            await repository.close_session(connection, schema, user_id, found.id)
        return Begun(found.id, found.images, is_open=not closes)


# Within ---------------------------------------------------------------------------------------------------------------


async def session_for(
    connection: Connection, schema: str, user_id: int, session_id: UUID, *, stays_open: bool
) -> tuple[UUID, bool]:
    """The session that a photograph goes into, and whether more may follow."""
    if found := await repository.find_open_session(connection, schema, user_id, session_id):
        return found.id, True
    if await repository.begin_session(connection, schema, user_id, session_id):
        return session_id, stays_open
    late = new_id()  # the others of its group are closed already
    await repository.begin_session(connection, schema, user_id, late)
    return late, False


async def taken_before(connection: Connection, schema: str, user_id: int, name: str, message_id: int) -> Taken | None:
    """What this message brought before."""
    image = await repository.find_brought(connection, schema, user_id, message_id, names_of(name))
    if image is None:
        return None
    session = await repository.find_session(connection, schema, user_id, image.session_id)
    return Taken(image, is_open=session is not None and session.closed_at is None)


def names_of(name: str) -> Sequence[str]:
    """The names that an image may have been kept under."""
    return [f"{name}.{kind}" for kind in KINDS]
