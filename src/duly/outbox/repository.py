"""The statements of `lease.sql` and `queries.sql`, one function each."""

import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from duly.crashpoint import crashpoint
from duly.db.id_prefix import CANDIDATES_LIMIT, IdPrefix
from duly.db.queries import load_queries
from duly.db.rows import Connection, Row, execute, find_row, find_value, get_rows, get_value
from duly.lease.operations import Lease
from duly.lease.owner import new_owner
from duly.outbox.channel import Contact
from duly.outbox.states import MessageTable

SQL = load_queries(__file__)
SCAN_LIMIT = 500  # due messages examined per scan, so that one recipient's long blocked queue is passed quickly
MAX_SCANS = 20


# Sending --------------------------------------------------------------------------------------------------------------


async def claim_messages(
    connection: Connection,
    table: MessageTable,
    worker_id: str,
    channels: Sequence[str],
    *,
    lease_seconds: float,
    limit: int,
) -> list[Lease]:
    """Claim due messages of these channels, in the order they were written for each recipient."""
    owner, sent_at = new_owner(worker_id), time.monotonic()
    claimed: list[Lease] = []
    for _ in range(MAX_SCANS):
        rows = await get_rows(
            connection,
            table.statements.claim,
            owner=owner,
            channels=list(channels),
            lease_seconds=lease_seconds,
            scan_limit=max(limit, SCAN_LIMIT),
            limit=limit - len(claimed),
        )
        ours = [Lease(table, owner, row, sent_at) for row in rows if row["lease_owner"] == owner]
        claimed += ours
        if len(ours) == len(rows) or len(claimed) >= limit:  # nothing due was blocked behind an earlier message
            break
    if claimed:
        crashpoint("after_claim")
    return sorted(claimed, key=lambda lease: lease.row["seq"])


async def find_contacts(connection: Connection, uids: Sequence[str]) -> dict[str, Contact]:
    """Return the contacts of known users, by uid."""
    rows = await get_rows(connection, SQL.find_contacts, uids=list(uids))
    return {row["uid"]: Contact(**row) for row in rows}


async def find_contacts_by_telegram_id(connection: Connection, telegram_ids: Sequence[int]) -> dict[str, Contact]:
    """Return a contact for each Telegram id; one that belongs to no user has only that id."""
    rows = await get_rows(connection, SQL.find_contacts_by_telegram_id, telegram_ids=list(telegram_ids))
    without_user = {str(each): Contact(str(each), telegram_id=each) for each in telegram_ids}
    return without_user | {str(row["telegram_id"]): Contact(**row) for row in rows}


async def mark_called(
    connection: Connection, table: MessageTable, leases: Sequence[Lease]
) -> frozenset[tuple[Any, str]]:
    """Set `called_at` just before the transport is called; return the claims whose leases are still ours."""
    rows = await get_rows(
        connection,
        table.statements.mark_called,
        keys=[lease.key for lease in leases],
        owners=[lease.owner for lease in leases],
    )
    return frozenset((row["key"], row["owner"]) for row in rows)


async def sweep_messages(
    connection: Connection, table: MessageTable, *, max_starts: int, keys: Sequence[Any] | None = None, limit: int = 100
) -> list[Any]:
    """Make messages with expired leases pending, failed or uncertain; return their keys."""
    crashpoint("before_sweep")
    rows = await get_rows(connection, table.statements.sweep, max_starts=max_starts, keys=keys, limit=limit)
    if rows:
        crashpoint("after_sweep")
    return [row["key"] for row in rows]


async def resend_uncertain(
    connection: Connection, table: MessageTable, channels: Sequence[str], *, max_starts: int, limit: int = 100
) -> int:
    """Make uncertain messages of channels that deduplicate pending again; return their number."""
    statement = SQL.using(**table.names).resend_uncertain
    rows = await get_rows(connection, statement, channels=list(channels), max_starts=max_starts, limit=limit)
    return len(rows)


async def note_unconfigured(
    connection: Connection, table: MessageTable, reasons: Mapping[str, str], limit: int = SCAN_LIMIT
) -> int:
    """Write the reason into `last_error` of due messages of unconfigured channels; return their number."""
    return await execute(
        connection,
        SQL.using(**table.names).note_unconfigured,
        channels=list(reasons),
        reasons=list(reasons.values()),
        limit=limit,
    )


async def fail_unconfigured(
    connection: Connection, table: MessageTable, reasons: Mapping[str, str], days: int, limit: int = 100
) -> int:
    """Fail messages that have waited `days` for their channel to be configured; return their number."""
    statement = SQL.using(**table.names).fail_unconfigured
    rows = await get_rows(
        connection, statement, channels=list(reasons), reasons=list(reasons.values()), days=days, limit=limit
    )
    return len(rows)


async def purge(connection: Connection, days: int, limit: int = 500) -> int:
    """Delete messages that ended `days` ago, with their history; return their number."""
    return await get_value(connection, SQL.purge, days=days, limit=limit)


async def is_managed(connection: Connection, table: MessageTable) -> bool:
    """Return whether duly delivers the messages of this table, that is, whether it has our column `delivery`."""
    return await get_value(
        connection, SQL.is_managed, schema_name=table.qualified_name[0], table_name=table.qualified_name[1]
    )


# Reading --------------------------------------------------------------------------------------------------------------


async def list_messages(
    connection: Connection,
    table: MessageTable,
    *,
    status: str | None = None,
    channel: str | None = None,
    recipient: str | None = None,
    before: int = 2**63 - 1,
    limit: int = 100,
) -> Sequence[Row]:
    """Return the messages before a sequence number, the newest first."""
    return await get_rows(
        connection,
        SQL.using(**table.names).list_messages,
        status=status,
        channel=channel,
        recipient=recipient,
        before=before,
        limit=limit,
    )


async def find_message(connection: Connection, table: MessageTable, key: UUID | str) -> Row | None:
    """Return a message by its key, or None."""
    return await find_row(connection, SQL.using(**table.names).find_message, key=key)


async def list_message_ids(connection: Connection, prefix: IdPrefix) -> Sequence[Row]:
    """Return ids and labels of the first few outbox messages whose id has this prefix."""
    return await get_rows(
        connection, SQL.list_message_ids, first=prefix.first, last=prefix.last, limit=CANDIDATES_LIMIT
    )


async def resend(connection: Connection, key: UUID | str) -> bool:
    """Make a failed or uncertain message of the outbox pending; return False when it is in another state."""
    return await find_value(connection, SQL.resend, key=key) is not None


async def resend_notification(connection: Connection, table: MessageTable, key: UUID | str) -> bool:
    """Make a failed or uncertain notification pending; return False when it is in another state."""
    return await find_value(connection, SQL.using(**table.names).resend_notification, key=key) is not None


async def resolve(connection: Connection, key: UUID | str, *, was_sent: bool) -> bool:
    """Make an uncertain message of the outbox sent or failed; return False when it is not uncertain."""
    return await find_value(connection, SQL.resolve, key=key, was_sent=was_sent) is not None


async def resolve_notification(connection: Connection, table: MessageTable, key: UUID | str, *, was_sent: bool) -> bool:
    """Make an uncertain notification sent or failed; return False when it is not uncertain."""
    statement = SQL.using(**table.names).resolve_notification
    return await find_value(connection, statement, key=key, was_sent=was_sent) is not None
