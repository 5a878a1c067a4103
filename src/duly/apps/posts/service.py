"""Operations for the entry points: upload an image, create a post, edit its caption, read; one transaction each."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from psycopg.errors import ForeignKeyViolation, UniqueViolation

from duly.apps.posts import repository
from duly.apps.posts.model import Intent, Post, permanent_name, validate_caption
from duly.apps.posts.states import POST
from duly.db.error_table import translate_errors
from duly.db.id_prefix import IdPrefix, resolve_single_match
from duly.db.pool import Pool
from duly.db.rows import Connection
from duly.errors import DulyError, IllegalTransition, InvalidArgument, KeyReused, NotFound, RequestIdReused
from duly.lease import timeline
from duly.lease.operations import sweep_rows
from duly.outcomes import Created, Creation, Existing
from duly.paging import Page, build_page, checked_limit, decode_cursor
from duly.storage import ObjectStore
from duly.storage.photo import MAX_PHOTO_BYTES

StoredResponse = Mapping[str, Any]  # what the first of the same requests got, as the contract prints it
SWEEP_BATCH = 100


# Creating -------------------------------------------------------------------------------------------------------------


async def upload_image(
    pool: Pool, objects: ObjectStore, author: str, photo: bytes, upload_id: UUID | None = None
) -> str:
    """Store a cleaned image for a day, until its author creates a post with it; return its name.

    Repeated uploads of one image with the same `upload_id` are one upload.
    """
    name = f"temp/{upload_id or uuid4()}.jpg"
    try:
        async with pool.transaction() as connection:
            await repository.add_upload(connection, name, author)
    except ForeignKeyViolation:
        raise NotFound(f"there is no user {author}; create it with: duly people create {author}") from None
    except UniqueViolation:
        assert upload_id, "a random id cannot exist already"
    await objects.put(name, photo)
    return name


async def create_intent(pool: Pool, objects: ObjectStore, intent: Intent) -> Creation[StoredResponse]:
    """Create the post of an author and day, or return the response that the same request got before.

    The image is copied to its permanent name before the post is created, and the upload removed after it: a post is
    never without its image. A copy without a post is purged with its upload. Only new posts need the object store: a
    repeated request is answered even when nothing can be copied.
    """
    store_error: DulyError | None = None
    try:
        is_stored = await copy_image(objects, intent)
    except DulyError as error:
        is_stored, store_error = False, error
    try:
        with translate_errors():
            async with pool.statement() as connection:
                created = await repository.create_intent(connection, intent, is_stored=is_stored)
    except KeyReused as error:
        raise RequestIdReused(str(error)) from None
    except InvalidArgument as refusal:  # no image: it was never uploaded, or the store failed
        raise store_error or refusal from None
    if not created["is_new"]:
        return Existing(created["response"])
    with suppress(DulyError):  # the post exists; what remains is purged with its upload
        await objects.remove([intent.image_path])
    return Created(created["response"])


async def copy_image(objects: ObjectStore, intent: Intent) -> bool:
    """Copy the image to its permanent name; return False when it exists under neither name."""
    name = permanent_name(intent.image_path)
    return await objects.copy(intent.image_path, name) or await objects.exists(name)


async def edit_caption(pool: Pool, author: str, post_id: UUID, caption: str) -> Post:
    """Change the caption of a pending post; raises IllegalTransition in any other status."""
    validate_caption(caption)
    async with pool.transaction() as connection:
        is_edited = await repository.edit_caption(connection, post_id, author, caption)
        post = await repository.find_post(connection, post_id, author)
    if post is None or post.author_id != author:
        raise NotFound(f"you have no post {post_id}")
    if not is_edited:
        raise IllegalTransition(f"post {post_id} is {post.status}: its caption can be changed only while it is PENDING")
    return post


# Repairing ------------------------------------------------------------------------------------------------------------


async def repair(pool: Pool) -> int:
    """Make posts with expired leases pending, in batches, as workers do with every sweep; return how many."""
    repaired = 0
    while True:
        async with pool.transaction() as connection:
            rows = await sweep_rows(connection, POST, limit=SWEEP_BATCH)
        repaired += len(rows)
        if len(rows) < SWEEP_BATCH:
            return repaired


# Reading --------------------------------------------------------------------------------------------------------------


async def get_post(pool: Pool, viewer: str | None, post_id: UUID, *, private_viewer: str | None = None) -> Post:
    """Return a post that the viewer may see, to the private viewer with request and lease; raises NotFound."""
    async with pool.transaction() as connection:
        return await fetch_post(connection, post_id, viewer, private_viewer)


async def resolve_id(pool: Pool, viewer: str | None, prefix: IdPrefix) -> UUID:
    """Return the id of the only visible post with this prefix; a full id is returned without a query."""
    if prefix.is_full_id:
        return prefix.first
    async with pool.transaction() as connection:
        return resolve_single_match(prefix, "post", await repository.list_post_ids(connection, prefix, viewer))


async def get_image(pool: Pool, objects: ObjectStore, viewer: str | None, post_id: UUID) -> bytes:
    """Return the image of a post that the viewer may see; raises NotFound."""
    post = await get_post(pool, viewer, post_id)
    with suppress(InvalidArgument, NotFound):  # a legacy post may refer to another system, or have no image
        return await objects.get(post.image_url or "", MAX_PHOTO_BYTES)
    raise NotFound(f"post {post_id} has no stored image")


async def list_posts(
    pool: Pool,
    viewer: str | None,
    *,
    author: str | None = None,
    cursor: str | None = None,
    limit: int = 100,
    private_viewer: str | None = None,
) -> Page[Post]:
    """Return a page of the feed, or of one author's posts, newest first; authors see their unreleased posts too."""
    at, post_id = repository.START_CURSOR if cursor is None else decode_cursor(cursor, datetime.fromisoformat, UUID)
    async with pool.transaction() as connection:
        if author is None:
            viewer_or_reader = private_viewer or viewer
            rows = await repository.list_released(
                connection, (at, post_id), checked_limit(limit) + 1, private_viewer=viewer_or_reader
            )
        else:
            page_size = checked_limit(limit) + 1
            rows = await repository.list_by_author(
                connection, author, viewer, (at, post_id), page_size, private_viewer=private_viewer
            )
    return build_page(rows, limit, lambda post: (post.created_at, post.id))


async def list_transitions(
    pool: Pool, viewer: str | None, post_id: UUID, *, cursor: str | None = None, limit: int = 100
) -> Page[timeline.Transition]:
    """Return a page of a post's transitions, in order."""
    async with pool.transaction() as connection:
        await fetch_post(connection, post_id, viewer)
        return await timeline.list_transitions(connection, "post", post_id, cursor=cursor, limit=limit)


# Helpers --------------------------------------------------------------------------------------------------------------


async def fetch_post(
    connection: Connection, post_id: UUID, viewer: str | None, private_viewer: str | None = None
) -> Post:
    """Return a post that the viewer may see; raises NotFound."""
    if post := await repository.find_post(connection, post_id, viewer, private_viewer=private_viewer):
        return post
    raise NotFound(f"there is no post {post_id}")
