"""The verbs that doors call: look at messages, have one sent again, say whether one arrived."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from duly.db.pool import Pool
from duly.db.rows import Connection
from duly.delivery import store
from duly.errors import IllegalMove, InvalidArgument, NotFound
from duly.kernel.paging import Page, checked_most, page_of, read_place

__all__ = ["STATUSES", "SentMessage", "get_message", "list_messages", "resend_message", "resolve_message"]

STATUSES = ("pending", "sending", "sent", "failed", "uncertain")


@dataclass(frozen=True)
class SentMessage:
    """A message, and what became of it."""

    id: UUID
    channel: str
    recipient: str
    kind: str
    status: str
    due_at: datetime
    created_at: datetime
    called_at: datetime | None
    sent_at: datetime | None
    starts: int
    last_error: str | None
    receipt: str | None
    payload: Mapping[str, Any]
    seq: int


async def list_messages(
    pool: Pool,
    *,
    status: str | None = None,
    channel: str | None = None,
    recipient: str | None = None,
    place: str | None = None,
    most: int = 100,
) -> Page[SentMessage]:
    """A page of messages, the newest first."""
    if status is not None and status not in STATUSES:
        raise InvalidArgument(f"status: must be one of {', '.join(STATUSES)}, not {status!r}")
    before = 2**63 - 1 if place is None else read_place(place, int)[0]
    async with pool.transaction() as connection:
        rows = await store.list_messages(
            connection,
            status=status,
            channel=channel,
            recipient=recipient,
            before=before,
            most=checked_most(most) + 1,
        )
    return page_of([SentMessage(**row) for row in rows], most, lambda each: (each.seq,))


async def get_message(pool: Pool, key: UUID) -> SentMessage:
    """A message, or NotFound."""
    async with pool.transaction() as connection:
        return await get(connection, key)


async def resend_message(pool: Pool, key: UUID) -> SentMessage:
    """Have a message that failed, or of which nobody knows, sent again under the same id."""
    async with pool.transaction() as connection:
        before = await get(connection, key)
        if not await store.resend(connection, key):
            raise IllegalMove(f"message {key} is {before.status}: only what failed or is uncertain is sent again")
        return await get(connection, key)


async def resolve_message(pool: Pool, key: UUID, *, was_sent: bool) -> SentMessage:
    """Say of a message of which nobody knows whether it arrived."""
    async with pool.transaction() as connection:
        before = await get(connection, key)
        if not await store.resolve(connection, key, was_sent=was_sent):
            raise IllegalMove(f"message {key} is {before.status}: only of what is uncertain can that be said")
        return await get(connection, key)


async def get(connection: Connection, key: UUID) -> SentMessage:
    """A message, or NotFound."""
    if row := await store.find_message(connection, key):
        return SentMessage(**row)
    raise NotFound(f"there is no message {key}")
