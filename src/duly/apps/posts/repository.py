"""The statements of `queries.sql`, one function each."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from uuid import UUID

import orjson

from duly.apps.posts.legacy_document import LegacyPost
from duly.apps.posts.model import Intent, Post, PostStatus
from duly.db.id_prefix import CANDIDATES_LIMIT, IdPrefix
from duly.db.queries import load_queries
from duly.db.rows import Connection, Row, execute, find_row, find_value, get_row, get_rows, get_value
from duly.lease.owner import worker_from_owner

SQL = load_queries(__file__)
ADMIN_VIEWER = "*"  # sees everything; not a valid uid
START_CURSOR = (datetime.max.replace(tzinfo=UTC), UUID(int=2**128 - 1))


# Creating -------------------------------------------------------------------------------------------------------------


async def create_intent(connection: Connection, intent: Intent, *, is_stored: bool) -> Row:
    """Create a post, or return the stored response to the same request, as `is_new` and `response`."""
    return await get_row(
        connection,
        SQL.create_intent,
        author=intent.author,
        request_id=intent.request_id,
        digest=intent.digest,
        caption=intent.caption,
        upload=intent.image_path,
        is_stored=is_stored,
    )


async def add_upload(connection: Connection, name: str, author: str) -> None:
    """Record the author of an uploaded image."""
    await execute(connection, SQL.add_upload, name=name, author=author)


async def edit_caption(connection: Connection, post_id: UUID, author: str, caption: str) -> bool:
    """Change the caption of a pending post; return False when it has another author or status."""
    return await find_value(connection, SQL.edit_caption, post_id=post_id, author=author, caption=caption) is not None


# Reading --------------------------------------------------------------------------------------------------------------


async def find_post(
    connection: Connection, post_id: UUID, viewer: str | None, *, private_viewer: str | None = None
) -> Post | None:
    """Return a post that the viewer may see, or None; its author and the private viewer also see request and lease."""
    row = await find_row(
        connection, SQL.find_post, post_id=post_id, viewer=viewer, private_viewer=private_viewer or viewer
    )
    return post_from_row(row) if row else None


async def list_post_ids(connection: Connection, prefix: IdPrefix, viewer: str | None) -> Sequence[Row]:
    """Return ids and labels of the first few posts with this prefix that the viewer may see."""
    return await get_rows(
        connection, SQL.list_post_ids, first=prefix.first, last=prefix.last, viewer=viewer, limit=CANDIDATES_LIMIT
    )


async def list_released(
    connection: Connection,
    before: tuple[datetime, UUID] = START_CURSOR,
    limit: int = 100,
    *,
    private_viewer: str | None = None,
) -> Sequence[Post]:
    """Return a page of the public feed."""
    rows = await get_rows(
        connection,
        SQL.list_released,
        before_at=before[0],
        before_id=before[1],
        limit=limit,
        private_viewer=private_viewer,
    )
    return [post_from_row(row) for row in rows]


async def list_by_author(
    connection: Connection,
    author: str,
    viewer: str | None,
    before: tuple[datetime, UUID] = START_CURSOR,
    limit: int = 100,
    *,
    private_viewer: str | None = None,
) -> Sequence[Post]:
    """Return a page of one author's posts that the viewer may see."""
    rows = await get_rows(
        connection,
        SQL.list_by_author,
        author=author,
        viewer=viewer,
        private_viewer=private_viewer or viewer,
        before_at=before[0],
        before_id=before[1],
        limit=limit,
    )
    return [post_from_row(row) for row in rows]


def post_from_row(row: Row) -> Post:
    """Build a post from its row, without the claim token in the lease owner."""
    owner = row["lease_owner"]
    return replace(
        Post(**row), status=PostStatus(row["status"]), lease_owner=worker_from_owner(owner) if owner else None
    )


# Releasing ------------------------------------------------------------------------------------------------------------


async def write_notices(connection: Connection, post_ids: Sequence[UUID], texts: Mapping[str, str]) -> int:
    """Write one message to the author of each released post, in the author's language; return how many."""
    return await execute(connection, SQL.write_notices, post_ids=list(post_ids), texts=orjson.dumps(texts).decode())


# Purging --------------------------------------------------------------------------------------------------------------


async def expire_uploads(connection: Connection, limit: int = 100) -> list[str]:
    """Delete expired uploads; return the names of the stored images to remove."""
    rows = await get_rows(connection, SQL.expire_uploads, limit=limit)
    return [name for row in rows for name in (row["name"], row["permanent"]) if name]


async def retain(connection: Connection, limit: int = 1000) -> int:
    """Delete expired responses and per-minute counts; return the number of rows."""
    return await get_value(connection, SQL.retain, limit=limit)


async def count_intents(connection: Connection, intents: Mapping[str, int]) -> None:
    """Add to the counts of the current minute."""
    await execute(connection, SQL.count_intents, outcomes=list(intents), intents=list(intents.values()))


# The first version ----------------------------------------------------------------------------------------------------


async def add_authors(connection: Connection, authors: Sequence[str]) -> int:
    """Create people for unknown authors; return how many."""
    return await execute(connection, SQL.add_authors, authors=list(authors))


async def add_legacy(connection: Connection, posts: Sequence[LegacyPost]) -> list[UUID]:
    """Insert documents as posts; return the ids of those that did not exist."""
    rows = [asdict(each) for each in posts]
    inserted = await get_rows(connection, SQL.add_legacy, rows=orjson.dumps(rows).decode())
    return [row["id"] for row in inserted]


async def add_locks(connection: Connection, post_ids: Sequence[UUID]) -> int:
    """Insert the daily locks of imported posts that have a daily key; return how many were free."""
    return await execute(connection, SQL.add_locks, post_ids=list(post_ids))
