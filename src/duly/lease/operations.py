"""Claim, renew, settle, release and sweep rows, by the statements that each leased table has in its `lease.sql`.

    claim ---> renew, renew, ... ---> settle           finished by its owner
                  |           |
                  |           +-----> release          unfinished, without counting a start
                  |
                  +-- owner dies ---> sweep            made claimable again
                                  --> claim_expired    or claimed by another worker at once,
                                  --> quarantine       and set aside when it was started too often

The same operation has the same name in every file, and the same parameters here. What a table does differently, as jobs
and messages do, its package runs by functions of its own. An owner whose statement finds no row has lost the lease, and
must write nothing.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg import sql

from duly.crashpoint import crashpoint
from duly.db.queries import Queries
from duly.db.rows import Connection, Row, find_value, get_rows
from duly.lease.owner import new_owner


@dataclass(frozen=True)
class LeaseTable:
    """A table whose rows can be leased, and the statements that do it."""

    qualified_name: tuple[str, str]
    statements: Queries = field(compare=False, repr=False)  # its `lease.sql`
    key: str = "id"
    starts: str = "starts"  # the column that counts the starts of a row

    def __str__(self) -> str:
        return ".".join(self.qualified_name)

    @property
    def can_claim_expired(self) -> bool:
        """Are expired rows claimed at once? Otherwise the sweep makes them claimable again."""
        return "claim_expired" in self.statements


@dataclass(frozen=True)
class Lease:
    """A row that we have claimed, as it was then."""

    table: LeaseTable
    owner: str
    row: Row
    sent_at: float  # our monotonic clock when the claim was sent: the lease began later

    @property
    def key(self) -> Any:
        return self.row[self.table.key]

    @property
    def claim(self) -> tuple[Any, str]:
        """Identify the claim by key and owner: we may have claimed one row twice."""
        return self.key, self.owner


@dataclass(frozen=True)
class Renewal:
    """The result of one renewal: the claims, by what became of them."""

    renewed: frozenset[tuple[Any, str]]
    skipped: frozenset[tuple[Any, str]]  # locked by a transaction of our own; the next heartbeat renews it
    lost: frozenset[tuple[Any, str]]
    cancelled: frozenset[tuple[Any, str]]  # ours, and their cancellation was requested


async def claim_rows(
    connection: Connection,
    table: LeaseTable,
    worker_id: str,
    *,
    lease_seconds: float,
    limit: int = 1,
    keys: Sequence[Any] | None = None,
) -> list[Lease]:
    """Claim up to `limit` due rows, or those of them with these keys, under one fresh owner."""
    owner, sent_at = new_owner(worker_id), time.monotonic()
    rows = await get_rows(
        connection, table.statements.claim, owner=owner, lease_seconds=lease_seconds, limit=limit, keys=keys
    )
    if rows:
        crashpoint("after_claim")
    return [Lease(table, owner, row, sent_at) for row in rows]


async def find_next(connection: Connection, table: LeaseTable) -> Any:
    """Find and lock the row that a claim of one row would take; returns its key, or None."""
    return await find_value(connection, table.statements.find_next)


async def find_due_keys(
    connection: Connection, table: LeaseTable, *, excluded_keys: Sequence[Any] = (), limit: int = 100
) -> list[Any]:
    """Find the keys of what a claim would take next, except these, without locking."""
    rows = await get_rows(connection, table.statements.find_due, excluded_keys=list(excluded_keys), limit=limit)
    return [row["key"] for row in rows]


async def claim_expired_rows(
    connection: Connection,
    table: LeaseTable,
    worker_id: str,
    *,
    lease_seconds: float,
    max_starts: int,
    limit: int = 1,
    keys: Sequence[Any] | None = None,
) -> list[Lease]:
    """Claim up to `limit` rows whose lease has expired, or those of them with these keys."""
    owner, sent_at = new_owner(worker_id), time.monotonic()
    rows = await get_rows(
        connection,
        table.statements.claim_expired,
        owner=owner,
        lease_seconds=lease_seconds,
        max_starts=max_starts,
        limit=limit,
        keys=keys,
    )
    if rows:
        crashpoint("after_claim")
    return [Lease(table, owner, row, sent_at) for row in rows]


async def quarantine_rows(
    connection: Connection, table: LeaseTable, *, max_starts: int, keys: Sequence[Any] | None = None, limit: int = 100
) -> Sequence[Row]:
    """Set aside expired rows, or those with these keys, that were started too often; returns them as updated."""
    return await get_rows(connection, table.statements.quarantine, max_starts=max_starts, keys=keys, limit=limit)


async def find_expired_keys(
    connection: Connection, table: LeaseTable, *, excluded_keys: Sequence[Any] = (), limit: int = 100
) -> list[Any]:
    """Find the keys of rows whose lease has expired, except these, without locking."""
    rows = await get_rows(connection, table.statements.find_expired, excluded_keys=list(excluded_keys), limit=limit)
    return [row["key"] for row in rows]


async def sweep_rows(
    connection: Connection, table: LeaseTable, *, keys: Sequence[Any] | None = None, limit: int = 100
) -> Sequence[Row]:
    """Make expired rows, or those with these keys, claimable again; returns them as updated."""
    crashpoint("before_sweep")
    rows = await get_rows(connection, table.statements.sweep, keys=keys, limit=limit)
    if rows:
        crashpoint("after_sweep")
    return rows


async def renew_leases(connection: Connection, leases: Sequence[Lease], *, lease_seconds: float) -> Renewal:
    """Renew every lease of one table that is still ours; never waits for a lock."""
    crashpoint("before_renew")
    rows = await get_rows(
        connection, single_table(leases).statements.renew, lease_seconds=lease_seconds, **keys_and_owners(leases)
    )
    crashpoint("after_renew")
    ours = [row for row in rows if row["ours"]]
    return Renewal(
        renewed=frozenset((row["key"], row["owner"]) for row in ours if row["renewed"]),
        skipped=frozenset((row["key"], row["owner"]) for row in ours if not row["renewed"]),
        lost=frozenset((row["key"], row["owner"]) for row in rows if not row["ours"]),
        cancelled=frozenset((row["key"], row["owner"]) for row in ours if row["cancelled"]),
    )


async def fence_rows(connection: Connection, leases: Sequence[Lease]) -> frozenset[Any]:
    """Lock those of many rows that we own until the transaction ends; returns their keys."""
    rows = await get_rows(connection, single_table_of_rows(leases).statements.fence, **keys_and_owners(leases))
    return frozenset(row["key"] for row in rows)


async def settle_rows(
    connection: Connection, leases: Sequence[Lease], statement: sql.SQL, **columns: object
) -> frozenset[Any]:
    """Settle many rows by one of their table's statements; returns the keys that we settled, the others are lost.

    `columns` are its further parameters, most of them lists with one value per lease. Comes first in the transaction
    that records the result, so that what follows is written for rows that are ours. Repeating it is safe: rows that an
    earlier call settled count as settled.
    """
    if not leases:
        return frozenset()
    single_table_of_rows(leases)
    crashpoint("before_settle")
    rows = await get_rows(connection, statement, **keys_and_owners(leases), **columns)
    if rows:
        crashpoint("after_settle")
    settled = frozenset(row["key"] for row in rows)
    return settled if len(settled) == len(leases) else settled | await find_settled(connection, leases)


async def find_settled(connection: Connection, leases: Sequence[Lease]) -> frozenset[Any]:
    """Find which of these rows we settled earlier; returns their keys."""
    rows = await get_rows(connection, single_table_of_rows(leases).statements.find_settled, **keys_and_owners(leases))
    return frozenset(row["key"] for row in rows)


async def release_rows(connection: Connection, leases: Sequence[Lease]) -> frozenset[Any]:
    """Release rows unfinished, without counting the start; lost ones are left alone.

    Returns the keys of those that were still ours.
    """
    crashpoint("before_release")
    rows = await get_rows(connection, single_table(leases).statements.release, **keys_and_owners(leases))
    crashpoint("after_release")
    return frozenset(row["key"] for row in rows)


def single_table(leases: Sequence[Lease]) -> LeaseTable:
    """Return the one table of a batch of leases."""
    tables = {lease.table.qualified_name: lease.table for lease in leases}
    assert len(tables) == 1, "a batch has leases of exactly one table"
    return next(iter(tables.values()))


def single_table_of_rows(leases: Sequence[Lease]) -> LeaseTable:
    """Return the one table of a batch in which each row occurs once, so that its key identifies the claim."""
    assert len({lease.key for lease in leases}) == len(leases), "a batch has one claim of each row"
    return single_table(leases)


def keys_and_owners(leases: Sequence[Lease]) -> dict[str, list[Any]]:
    """Return a batch as two arrays, the parameters of most statements."""
    return {"keys": [lease.key for lease in leases], "owners": [lease.owner for lease in leases]}
