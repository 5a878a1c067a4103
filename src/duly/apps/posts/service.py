"""The verbs that doors call: bring an image, ask for a post, change its words, look. Each is one short transaction."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from psycopg import DatabaseError
from psycopg.errors import ForeignKeyViolation, UniqueViolation

from duly.apps.posts import repository
from duly.apps.posts.model import Intent, Post, checked_caption, kept_name
from duly.apps.posts.states import POST, POST_MACHINE
from duly.db.id_prefix import IdPrefix, only_match
from duly.db.pool import Pool
from duly.db.rows import Connection
from duly.errors import AlreadyPosted, DulyError, IllegalMove, InvalidArgument, NotFound, RequestIdReused
from duly.lease import timeline
from duly.lease.operations import sweep
from duly.outcomes import Created, Creation, Existing
from duly.paging import Page, checked_limit, page_of, read_place
from duly.storage import Objects
from duly.storage.photo import MAX_PHOTO_BYTES

__all__ = [
    "create_intent",
    "edit_caption",
    "get_image",
    "get_post",
    "list_posts",
    "list_transitions",
    "repair",
    "resolve_id",
    "upload_image",
]

Answer = Mapping[str, Any]
SWEPT_AT_ONCE = 100


# Asking ---------------------------------------------------------------------------------------------------------------


async def upload_image(pool: Pool, objects: Objects, author: str, photo: bytes, key: UUID | None = None) -> str:
    """Keep a cleaned image for a day, until its author makes a post of it; the name it goes by.

    Whoever brings the same image again, for the same request, may say so by a `key` made of both: it is one upload.
    """
    name = f"temp/{key or uuid4()}.jpg"
    try:
        async with pool.transaction() as connection:
            await repository.add_upload(connection, name, author)
    except ForeignKeyViolation:
        raise NotFound(f"there is nobody called {author}; make them with: duly users create {author}") from None
    except UniqueViolation:
        assert key, "a new id is nobody else's"
    await objects.put(name, photo)
    return name


async def create_intent(pool: Pool, objects: Objects, intent: Intent) -> Creation[Answer]:
    """Make the post of this author and day, or find what the same request was answered.

    The image is copied to where it stays before the post is there, and the upload removed after it: a post is never
    without its image. A copy that no post came of leaves with its upload. Where images are kept matters to new posts
    alone: whoever has been answered before is answered while nothing can be copied.
    """
    trouble: DulyError | None = None
    try:
        is_kept = await keep_image(objects, intent)
    except DulyError as error:
        is_kept, trouble = False, error
    try:
        with as_our_errors():
            async with pool.statement() as connection:
                made = await repository.create_intent(connection, intent, is_kept=is_kept)
    except InvalidArgument as refusal:  # there is no image: none was brought, or nobody could look
        raise trouble or refusal from None
    if not made["is_new"]:
        return Existing(made["answer"])
    with suppress(DulyError):  # the post is there, and what stays behind leaves with its upload
        await objects.remove([intent.image_path])
    return Created(made["answer"])


async def keep_image(objects: Objects, intent: Intent) -> bool:
    """Copy the image to where it stays; False when there is none, here or there."""
    kept = kept_name(intent.image_path)
    return await objects.copy(intent.image_path, kept) or await objects.exists(kept)


async def edit_caption(pool: Pool, author: str, key: UUID, caption: str) -> Post:
    """Change the words of a post that waits; one that is being prepared or is released refuses."""
    checked_caption(caption)
    async with pool.transaction() as connection:
        is_edited = await repository.edit_caption(connection, key, author, caption)
        post = await repository.find_post(connection, key, author)
    if post is None or post.author_id != author:
        raise NotFound(f"there is no post {key} of yours")
    if not is_edited:
        raise IllegalMove(f"post {key} is {post.status}: its caption can be changed only while it is PENDING")
    return post


# Repairing ------------------------------------------------------------------------------------------------------------


async def repair(pool: Pool) -> int:
    """Let posts wait again whose holders are gone, some at a time, as workers do with every sweep; how many."""
    repaired = 0
    while True:
        async with pool.transaction() as connection:
            rows = await sweep(connection, POST, limit=SWEPT_AT_ONCE)
        repaired += len(rows)
        if len(rows) < SWEPT_AT_ONCE:
            return repaired


# Looking --------------------------------------------------------------------------------------------------------------


async def get_post(pool: Pool, viewer: str | None, key: UUID, *, reader: str | None = None) -> Post:
    """A post that this viewer may see, or NotFound; a reader sees its request and lease too, where it is theirs."""
    async with pool.transaction() as connection:
        return await get(connection, key, viewer, reader)


async def resolve_id(pool: Pool, viewer: str | None, prefix: IdPrefix) -> UUID:
    """The id of the one post that begins so and that this viewer may see; a whole id is not looked up."""
    if prefix.is_whole:
        return prefix.first
    async with pool.transaction() as connection:
        return only_match(prefix, "post", await repository.list_post_ids(connection, prefix, viewer))


async def get_image(pool: Pool, objects: Objects, viewer: str | None, key: UUID) -> bytes:
    """The image of a post that this viewer may see."""
    post = await get_post(pool, viewer, key)
    with suppress(InvalidArgument, NotFound):  # one of the first version may name a place elsewhere, or nothing
        return await objects.get(post.image_url or "", MAX_PHOTO_BYTES)
    raise NotFound(f"we keep no image of post {key}")


async def list_posts(
    pool: Pool,
    viewer: str | None,
    *,
    author: str | None = None,
    place: str | None = None,
    limit: int = 100,
    reader: str | None = None,
) -> Page[Post]:
    """A page of what is released, or of one author's posts, the newest first; their own show authors what waits too."""
    at, key = repository.END if place is None else read_place(place, datetime.fromisoformat, UUID)
    async with pool.transaction() as connection:
        if author is None:
            shown_to = reader or viewer
            rows = await repository.list_released(connection, (at, key), checked_limit(limit) + 1, reader=shown_to)
        else:
            several = checked_limit(limit) + 1
            rows = await repository.list_of_author(connection, author, viewer, (at, key), several, reader=reader)
    return page_of(rows, limit, lambda post: (post.created_at, post.id))


async def list_transitions(
    pool: Pool, viewer: str | None, key: UUID, *, place: str | None = None, limit: int = 100
) -> Page[timeline.Transition]:
    """A page of a post's log, in order."""
    async with pool.transaction() as connection:
        await get(connection, key, viewer)
        return await timeline.list_transitions(connection, POST_MACHINE.name, key, place=place, limit=limit)


# Within ---------------------------------------------------------------------------------------------------------------


async def get(connection: Connection, key: UUID, viewer: str | None, reader: str | None = None) -> Post:
    """A post that this viewer may see, or NotFound."""
    if post := await repository.find_post(connection, key, viewer, reader=reader):
        return post
    raise NotFound(f"there is no post {key}")


@contextmanager
def as_our_errors() -> Generator[None, None, None]:
    """What the database says of an intent, in the words of our tree."""
    try:
        yield
    except DatabaseError as error:
        words = error.diag.message_primary or str(error)
        match error.sqlstate:
            case repository.REQUEST_ID_REUSED:
                raise RequestIdReused(words) from None
            case repository.ALREADY_POSTED:
                raise AlreadyPosted(words, post_id=UUID(error.diag.message_detail)) from None
            case repository.NO_IMAGE:
                raise InvalidArgument(f"imagePath: {words}") from None
            case _:
                raise
