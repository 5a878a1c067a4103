"""One small function per statement: connection in, value out."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from uuid import UUID

import orjson

from duly.apps.posts.model import Intent, LegacyPost, Post, Status
from duly.db.id_prefix import CANDIDATES_LIMIT, IdPrefix
from duly.db.queries import load_queries
from duly.db.rows import Connection, Row, change, find_row, find_value, get_row, get_rows, get_value
from duly.lease.owner import worker_of

__all__ = [
    "ALREADY_POSTED",
    "ANYBODY",
    "END",
    "NO_IMAGE",
    "REQUEST_ID_REUSED",
    "SQL",
    "add_authors",
    "add_legacy",
    "add_locks",
    "add_upload",
    "count_intents",
    "create_intent",
    "edit_caption",
    "expire_uploads",
    "find_post",
    "list_of_author",
    "list_post_ids",
    "list_released",
    "retain",
    "write_notices",
]

SQL = load_queries(__file__)
REQUEST_ID_REUSED, ALREADY_POSTED, NO_IMAGE = "DU002", "DU003", "DU004"  # how an intent is refused
ANYBODY = "*"  # a viewer who may see everything; no uid is called so
END = (datetime.max.replace(tzinfo=UTC), UUID(int=2**128 - 1))


# Asking ------------------------------------------------------------------------------------------------------------


async def create_intent(connection: Connection, intent: Intent, *, is_kept: bool) -> Row:
    """Make a post, or find what the same request was answered: whether it `is_new`, and the `answer`."""
    return await get_row(
        connection,
        SQL.create_intent,
        author=intent.author,
        request_id=intent.request_id,
        digest=intent.digest,
        caption=intent.caption,
        upload=intent.image_path,
        is_kept=is_kept,
    )


async def add_upload(connection: Connection, name: str, author: str) -> None:
    """Note whose an image is."""
    await change(connection, SQL.add_upload, name=name, author=author)


async def edit_caption(connection: Connection, key: UUID, author: str, caption: str) -> bool:
    """Change the caption of a post that waits; False when it is not theirs or no longer waits."""
    return await find_value(connection, SQL.edit_caption, key=key, author=author, caption=caption) is not None


# Looking -----------------------------------------------------------------------------------------------------------


async def find_post(connection: Connection, key: UUID, viewer: str | None, *, reader: str | None = None) -> Post | None:
    """A post that this viewer may see; a reader sees request and lease too, where it is theirs."""
    row = await find_row(connection, SQL.find_post, key=key, viewer=viewer, reader=reader or viewer)
    return post_of(row) if row else None


async def list_post_ids(connection: Connection, prefix: IdPrefix, viewer: str | None) -> Sequence[Row]:
    """The posts whose ids begin so and that this viewer may see, a few of them."""
    return await get_rows(
        connection, SQL.list_post_ids, first=prefix.first, last=prefix.last, viewer=viewer, limit=CANDIDATES_LIMIT
    )


async def list_released(
    connection: Connection, before: tuple[datetime, UUID] = END, limit: int = 100, *, reader: str | None = None
) -> Sequence[Post]:
    """A page of everybody's feed."""
    rows = await get_rows(
        connection, SQL.list_released, before_at=before[0], before_id=before[1], limit=limit, reader=reader
    )
    return [post_of(row) for row in rows]


async def list_of_author(
    connection: Connection,
    author: str,
    viewer: str | None,
    before: tuple[datetime, UUID] = END,
    limit: int = 100,
    *,
    reader: str | None = None,
) -> Sequence[Post]:
    """A page of one author's posts."""
    rows = await get_rows(
        connection,
        SQL.list_of_author,
        author=author,
        viewer=viewer,
        reader=reader or viewer,
        before_at=before[0],
        before_id=before[1],
        limit=limit,
    )
    return [post_of(row) for row in rows]


def post_of(row: Row) -> Post:
    """A row as a post."""
    owner = row["lease_owner"]
    return replace(Post(**row), status=Status(row["status"]), lease_owner=worker_of(owner) if owner else None)


# Releasing ---------------------------------------------------------------------------------------------------------


async def write_notices(connection: Connection, keys: Sequence[UUID], texts: Mapping[str, str]) -> int:
    """Tell the authors of released posts, once each, in these words by language; how many messages were written."""
    return await change(connection, SQL.write_notices, keys=list(keys), texts=orjson.dumps(texts).decode())


# Tidying -----------------------------------------------------------------------------------------------------------


async def expire_uploads(connection: Connection, limit: int = 100) -> list[str]:
    """Forget uploads whose time is over; the names of the images that go with them."""
    rows = await get_rows(connection, SQL.expire_uploads, limit=limit)
    return [name for row in rows for name in (row["name"], row["kept"]) if name]


async def retain(connection: Connection, limit: int = 1000) -> int:
    """Forget answers and minutes whose time is over; how many rows went."""
    return await get_value(connection, SQL.retain, limit=limit)


async def count_intents(connection: Connection, intents: Mapping[str, int]) -> None:
    """Add to this minute's counts."""
    await change(connection, SQL.count_intents, outcomes=list(intents), intents=list(intents.values()))


# The first version -------------------------------------------------------------------------------------------------


async def add_authors(connection: Connection, authors: Sequence[str]) -> int:
    """Make people of authors we do not know; how many there were."""
    return await change(connection, SQL.add_authors, authors=list(authors))


async def add_legacy(connection: Connection, several: Sequence[LegacyPost]) -> list[UUID]:
    """Make rows of documents; the ids of those that were not there."""
    rows = [asdict(each) for each in several]
    found = await get_rows(connection, SQL.add_legacy, rows=orjson.dumps(rows).decode())
    return [row["id"] for row in found]


async def add_locks(connection: Connection, keys: Sequence[UUID]) -> int:
    """Lock the days of imported posts that say which day they were of; how many were free."""
    return await change(connection, SQL.add_locks, keys=list(keys))
