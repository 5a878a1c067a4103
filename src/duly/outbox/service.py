"""Operations for the entry points: list messages, resend one, resolve an uncertain one.

The outbox is read with the API role; notifications, which are in the ingest contract's own table, with the worker role.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from duly.db.id_prefix import IdPrefix, resolve_single_match
from duly.db.pool import Pool
from duly.db.rows import Connection, Row
from duly.errors import IllegalTransition, InvalidArgument, Misconfigured, NotFound
from duly.outbox import repository
from duly.outbox.states import OUTBOX, MessageTable
from duly.paging import Page, build_page, checked_limit, decode_cursor

STATUSES = ("pending", "sending", "sent", "failed", "uncertain")
NOTIFICATION_FIELDS = ("user_id", "schedule_date", "source_session_id", "message", "event_ids")


@dataclass(frozen=True)
class StoredMessage:
    """A message of either table, with its delivery state."""

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
    def from_row(cls, table: MessageTable, row: Row) -> Self:
        """Build a message from its row; the payload of a notification is made of its own columns."""
        payload = {name: row[name] for name in NOTIFICATION_FIELDS if name in row}
        values: dict[str, Any] = {"payload": payload, **row, "id": row[table.key], "status": row[table.state]}
        return cls(**{each.name: values[each.name] for each in fields(cls)})


async def list_messages(
    pool: Pool,
    table: MessageTable = OUTBOX,
    *,
    status: str | None = None,
    channel: str | None = None,
    recipient: str | None = None,
    cursor: str | None = None,
    limit: int = 100,
) -> Page[StoredMessage]:
    """Return a page of messages, the newest first."""
    if status is not None and status not in STATUSES:
        raise InvalidArgument(f"status: must be one of {', '.join(STATUSES)}, not {status!r}")
    before = 2**63 - 1 if cursor is None else decode_cursor(cursor, int)[0]
    async with pool.transaction() as connection:
        await check_managed(connection, table)
        rows = await repository.list_messages(
            connection,
            table,
            status=status,
            channel=channel,
            recipient=recipient,
            before=before,
            limit=checked_limit(limit) + 1,
        )
    return build_page([StoredMessage.from_row(table, row) for row in rows], limit, lambda each: (each.seq,))


async def get_message(pool: Pool, key: UUID | str, table: MessageTable = OUTBOX) -> StoredMessage:
    """Return a message; raises NotFound when there is none."""
    async with pool.transaction() as connection:
        return await fetch_message(connection, table, key)


async def resolve_id(pool: Pool, prefix: IdPrefix) -> UUID:
    """Return the id of the only outbox message with this prefix; a full id is returned without a query."""
    if prefix.is_full_id:
        return prefix.first
    async with pool.transaction() as connection:
        return resolve_single_match(prefix, "message", await repository.list_message_ids(connection, prefix))


async def resend_message(pool: Pool, key: UUID | str, table: MessageTable = OUTBOX) -> StoredMessage:
    """Put a failed or uncertain message back in the queue under the same id; IllegalTransition in any other state."""
    async with pool.transaction() as connection:
        before = await fetch_message(connection, table, key)
        update = (
            repository.resend(connection, key)
            if table.is_outbox
            else repository.resend_notification(connection, table, key)
        )
        if not await update:
            raise IllegalTransition(
                f"message {key} is {before.status}: only failed or uncertain messages can be resent"
            )
        return await fetch_message(connection, table, key)


async def resolve_message(
    pool: Pool, key: UUID | str, table: MessageTable = OUTBOX, *, was_sent: bool
) -> StoredMessage:
    """Record whether an uncertain message arrived; raises IllegalTransition when it is not uncertain."""
    async with pool.transaction() as connection:
        before = await fetch_message(connection, table, key)
        update = (
            repository.resolve(connection, key, was_sent=was_sent)
            if table.is_outbox
            else repository.resolve_notification(connection, table, key, was_sent=was_sent)
        )
        if not await update:
            raise IllegalTransition(f"message {key} is {before.status}: only uncertain messages can be resolved")
        return await fetch_message(connection, table, key)


async def fetch_message(connection: Connection, table: MessageTable, key: UUID | str) -> StoredMessage:
    """Return a message; raises NotFound when there is none."""
    await check_managed(connection, table)
    if row := await repository.find_message(connection, table, key):
        return StoredMessage.from_row(table, row)
    raise NotFound(f"there is no message {key}")


async def check_managed(connection: Connection, table: MessageTable) -> None:
    """Raise Misconfigured for a table whose messages another backend delivers."""
    if not table.is_outbox and not await repository.is_managed(connection, table):
        raise Misconfigured(
            f"notifications in the schema {table.qualified_name[0]} are delivered by the backend that owns them; "
            "set DB_SCHEMA to the schema that duly delivers from"
        )
