"""The verbs that doors call: look at messages, have one sent again, say whether one arrived.

Those of the outbox as the API; those about days, which lie in the ingest contract's own table, as a worker.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from duly.db.id_prefix import IdPrefix, only_match
from duly.db.pool import Pool
from duly.db.rows import Connection, Row
from duly.errors import IllegalMove, InvalidArgument, Misconfigured, NotFound
from duly.lease.operations import LeaseTable
from duly.outbox import repository
from duly.outbox.states import OUTBOX
from duly.paging import Page, checked_limit, page_of, read_place

__all__ = ["STATUSES", "SentMessage", "get_message", "list_messages", "resend_message", "resolve_message"]

STATUSES = ("pending", "sending", "sent", "failed", "uncertain")
ABOUT_DAY = ("user_id", "schedule_date", "source_session_id", "message", "event_ids")


@dataclass(frozen=True)
class SentMessage:
    """A message, and what became of it."""

    id: UUID | str
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

    @classmethod
    def read(cls, table: LeaseTable, row: Row) -> Self:
        """A message, from its row of either table."""
        about_day = {name: row[name] for name in ABOUT_DAY if name in row}
        told: dict[str, Any] = {"payload": about_day, **row, "id": row[table.key], "status": row[table.state]}
        return cls(**{each.name: told[each.name] for each in fields(cls)})


async def list_messages(
    pool: Pool,
    table: LeaseTable = OUTBOX,
    *,
    status: str | None = None,
    channel: str | None = None,
    recipient: str | None = None,
    place: str | None = None,
    limit: int = 100,
) -> Page[SentMessage]:
    """A page of messages, the newest first."""
    if status is not None and status not in STATUSES:
        raise InvalidArgument(f"status: must be one of {', '.join(STATUSES)}, not {status!r}")
    before = 2**63 - 1 if place is None else read_place(place, int)[0]
    async with pool.transaction() as connection:
        await check_here(connection, table)
        rows = await repository.list_messages(
            connection,
            table,
            status=status,
            channel=channel,
            recipient=recipient,
            before=before,
            limit=checked_limit(limit) + 1,
        )
    return page_of([SentMessage.read(table, row) for row in rows], limit, lambda each: (each.seq,))


async def get_message(pool: Pool, key: UUID | str, table: LeaseTable = OUTBOX) -> SentMessage:
    """A message, or NotFound."""
    async with pool.transaction() as connection:
        return await get(connection, table, key)


async def resolve_id(pool: Pool, prefix: IdPrefix) -> UUID:
    """The id of the one message of the outbox that begins so; a whole id is not looked up."""
    if prefix.is_whole:
        return prefix.first
    async with pool.transaction() as connection:
        return only_match(prefix, "message", await repository.list_message_ids(connection, prefix))


async def resend_message(pool: Pool, key: UUID | str, table: LeaseTable = OUTBOX) -> SentMessage:
    """Have a message that failed, or of which nobody knows, sent again under the same id."""
    async with pool.transaction() as connection:
        before = await get(connection, table, key)
        is_done = (
            repository.resend(connection, key)
            if table is OUTBOX
            else repository.resend_about_day(connection, table, key)
        )
        if not await is_done:
            raise IllegalMove(f"message {key} is {before.status}: only what failed or is uncertain is sent again")
        return await get(connection, table, key)


async def resolve_message(pool: Pool, key: UUID | str, table: LeaseTable = OUTBOX, *, was_sent: bool) -> SentMessage:
    """Say of a message of which nobody knows whether it arrived."""
    async with pool.transaction() as connection:
        before = await get(connection, table, key)
        is_done = (
            repository.resolve(connection, key, was_sent=was_sent)
            if table is OUTBOX
            else repository.resolve_about_day(connection, table, key, was_sent=was_sent)
        )
        if not await is_done:
            raise IllegalMove(f"message {key} is {before.status}: only of what is uncertain can that be said")
        return await get(connection, table, key)


async def get(connection: Connection, table: LeaseTable, key: UUID | str) -> SentMessage:
    """A message, or NotFound."""
    await check_here(connection, table)
    if row := await repository.find_message(connection, table, key):
        return SentMessage.read(table, row)
    raise NotFound(f"there is no message {key}")


async def check_here(connection: Connection, table: LeaseTable) -> None:
    """Refuse a table whose messages somebody else delivers."""
    if table is not OUTBOX and not await repository.is_here(connection, table):
        raise Misconfigured(
            f"messages about days in the schema {table.qualified_name[0]} are delivered by the backend that owns them; "
            "DB_SCHEMA says which schema is meant"
        )
