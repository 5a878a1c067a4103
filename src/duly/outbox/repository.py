"""One small function per statement: connection in, value out."""

import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from duly.crashpoint import crashpoint
from duly.db.id_prefix import CANDIDATES_LIMIT, IdPrefix
from duly.db.queries import load_queries
from duly.db.rows import Connection, Row, change, find_row, find_value, get_rows, get_value
from duly.lease.operations import Lease, LeaseTable
from duly.lease.owner import new_owner
from duly.outbox.channel import Person

__all__ = [
    "SQL",
    "claim_messages",
    "fail_unconfigured",
    "find_message",
    "find_people",
    "find_people_of_days",
    "is_here",
    "list_message_ids",
    "list_messages",
    "names_of",
    "note_called",
    "note_unconfigured",
    "release_messages",
    "resend",
    "resend_about_day",
    "resend_uncertain",
    "resolve",
    "resolve_about_day",
    "retain",
    "sweep_messages",
]

SQL = load_queries(__file__)
LOOKED_AT = 500  # messages at a time, so that a long line in the way is passed quickly
MAX_LOOKS = 20


# Sending --------------------------------------------------------------------------------------------------------------


async def claim_messages(
    connection: Connection,
    table: LeaseTable,
    worker_id: str,
    channels: Sequence[str],
    *,
    lease_seconds: float,
    limit: int,
) -> list[Lease]:
    """Hold due messages of these channels, each recipient's in order."""
    owner, sent_at = new_owner(worker_id), time.monotonic()
    held: list[Lease] = []
    for _ in range(MAX_LOOKS):
        rows = await get_rows(
            connection,
            SQL.using(**names_of(table)).claim_messages,
            owner=owner,
            channels=list(channels),
            lease_seconds=lease_seconds,
            looked_at=max(limit, LOOKED_AT),
            limit=limit - len(held),
        )
        ours = [Lease(table, owner, row, sent_at) for row in rows if row["lease_owner"] == owner]
        held += ours
        if len(ours) == len(rows) or len(held) >= limit:  # nobody was in the way
            break
    if held:
        crashpoint("after_claim")
    return sorted(held, key=lambda lease: lease.row["seq"])


async def find_people(connection: Connection, uids: Sequence[str]) -> dict[str, Person]:
    """Those of these that we know, by their uid."""
    rows = await get_rows(connection, SQL.find_people, uids=list(uids))
    return {row["uid"]: Person(**row) for row in rows}


async def find_people_of_days(connection: Connection, telegram_ids: Sequence[int]) -> dict[str, Person]:
    """Whom messages about days are for, by their Telegram id; who is nobody we know is known by that alone."""
    rows = await get_rows(connection, SQL.find_people_of_days, telegram_ids=list(telegram_ids))
    nobody = {str(each): Person(str(each), telegram_id=each) for each in telegram_ids}
    return nobody | {str(row["telegram_id"]): Person(**row) for row in rows}


async def note_called(connection: Connection, table: LeaseTable, leases: Sequence[Lease]) -> frozenset[tuple[Any, str]]:
    """Note that the transport is about to be called; which messages, by which claim, are still ours."""
    rows = await get_rows(
        connection,
        SQL.using(**names_of(table)).note_called,
        keys=[lease.key for lease in leases],
        owners=[lease.owner for lease in leases],
    )
    return frozenset((row["key"], row["owner"]) for row in rows)


async def release_messages(connection: Connection, table: LeaseTable, leases: Sequence[Lease]) -> None:
    """Hand messages back unsent and unblamed."""
    crashpoint("before_release")
    await change(
        connection,
        SQL.using(**names_of(table)).release_messages,
        keys=[lease.key for lease in leases],
        owners=[lease.owner for lease in leases],
    )
    crashpoint("after_release")


async def sweep_messages(
    connection: Connection, table: LeaseTable, *, max_starts: int, keys: Sequence[Any] | None = None, limit: int = 100
) -> int:
    """Bring back, set aside, or mark as uncertain what dead senders held; how many there were."""
    crashpoint("before_sweep")
    statement = SQL.using(**names_of(table)).sweep_messages
    rows = await get_rows(connection, statement, max_starts=max_starts, keys=keys, limit=limit)
    if rows:
        crashpoint("after_sweep")
    return len(rows)


async def resend_uncertain(
    connection: Connection, table: LeaseTable, channels: Sequence[str], *, max_starts: int, limit: int = 100
) -> int:
    """Have what is uncertain sent again, where the other side can tell; how many there were."""
    statement = SQL.using(**names_of(table)).resend_uncertain
    rows = await get_rows(connection, statement, channels=list(channels), max_starts=max_starts, limit=limit)
    return len(rows)


async def note_unconfigured(
    connection: Connection, table: LeaseTable, reasons: Mapping[str, str], limit: int = LOOKED_AT
) -> int:
    """Write the reason on due messages of these channels, which are not configured; how many got it."""
    return await change(
        connection,
        SQL.using(**names_of(table)).note_unconfigured,
        channels=list(reasons),
        reasons=list(reasons.values()),
        limit=limit,
    )


async def fail_unconfigured(
    connection: Connection, table: LeaseTable, reasons: Mapping[str, str], days: int, limit: int = 100
) -> int:
    """Fail messages of these channels that have waited for so many days; how many there were."""
    statement = SQL.using(**names_of(table)).fail_unconfigured
    rows = await get_rows(
        connection, statement, channels=list(reasons), reasons=list(reasons.values()), days=days, limit=limit
    )
    return len(rows)


async def retain(connection: Connection, days: int, limit: int = 500) -> int:
    """Let messages leave that ended so many days ago; how many there were."""
    return await get_value(connection, SQL.retain, days=days, limit=limit)


async def is_here(connection: Connection, table: LeaseTable) -> bool:
    """Is this table one that we deliver?"""
    return await get_value(connection, SQL.is_here, in_schema=table.qualified_name[0], of_table=table.qualified_name[1])


# Looking --------------------------------------------------------------------------------------------------------------


async def list_messages(
    connection: Connection,
    table: LeaseTable,
    *,
    status: str | None = None,
    channel: str | None = None,
    recipient: str | None = None,
    before: int = 2**63 - 1,
    limit: int = 100,
) -> Sequence[Row]:
    """A page of messages."""
    return await get_rows(
        connection,
        SQL.using(**names_of(table)).list_messages,
        status=status,
        channel=channel,
        recipient=recipient,
        before=before,
        limit=limit,
    )


async def find_message(connection: Connection, table: LeaseTable, key: UUID | str) -> Row | None:
    """One message."""
    return await find_row(connection, SQL.using(**names_of(table)).find_message, key=key)


async def list_message_ids(connection: Connection, prefix: IdPrefix) -> Sequence[Row]:
    """The messages of the outbox whose ids begin so, a few of them."""
    return await get_rows(
        connection, SQL.list_message_ids, first=prefix.first, last=prefix.last, limit=CANDIDATES_LIMIT
    )


async def resend(connection: Connection, key: UUID | str) -> bool:
    """Have a message of the outbox sent again; False when it is not one that could be."""
    return await find_value(connection, SQL.resend, key=key) is not None


async def resend_about_day(connection: Connection, table: LeaseTable, key: UUID | str) -> bool:
    """The same for a message about a day."""
    return await find_value(connection, SQL.using(**names_of(table)).resend_about_day, key=key) is not None


async def resolve(connection: Connection, key: UUID | str, *, was_sent: bool) -> bool:
    """Say whether a message of the outbox arrived; False when that was no question."""
    return await find_value(connection, SQL.resolve, key=key, was_sent=was_sent) is not None


async def resolve_about_day(connection: Connection, table: LeaseTable, key: UUID | str, *, was_sent: bool) -> bool:
    """The same for a message about a day."""
    statement = SQL.using(**names_of(table)).resolve_about_day
    return await find_value(connection, statement, key=key, was_sent=was_sent) is not None


def names_of(table: LeaseTable) -> dict[str, str]:
    """What stands in the braces, for one of the two tables."""
    return {
        "schema": table.qualified_name[0],
        "table": table.qualified_name[1],
        "key": table.key,
        "state": table.state,
        "key_type": table.key_type,
    }
