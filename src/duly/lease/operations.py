"""Claim, renew, settle, release and sweep rows of any leased table, by the statements of `lease.sql`.

    claim ---> renew, renew, ... ---> settle           finished by its owner
                  |           |
                  |           +-----> release          given back unfinished, without counting a start
                  |
                  +-- owner dies ---> sweep            made claimable again              (expired="returned")
                                  --> claim_expired    claimed by another worker         (expired="reclaimed")
                                  --> quarantine       started too often: set aside

A table describes itself once, as a `LeaseTable`. An owner whose statement finds no row has lost the lease: `LeaseLost`,
and it must write nothing.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, LiteralString, cast

from psycopg import sql
from psycopg.adapt import PyFormat

from duly.crashpoint import crashpoint
from duly.db.queries import parse_queries
from duly.db.rows import Connection, Row, find_row, get_rows
from duly.errors import LeaseLost
from duly.lease.owner import new_owner

TEMPLATES = parse_queries(Path(__file__).with_name("lease.sql").read_text())


@dataclass(frozen=True)
class LeaseTable:
    """Describes how rows of one table are leased: its columns and its states."""

    qualified_name: tuple[str, str]
    state: str
    ready: str
    held: str
    owner: str
    due: str
    expired: Literal["returned", "reclaimed"]
    since: str | None = None  # the column of the lease's start; its duration is in `length`
    until: str | None = None  # or the column of its end
    length: str = "lease_seconds"
    default_lease_seconds: float | None = None  # assumed when an external owner left `length` null
    key: str = "id"
    key_type: str = "uuid"
    order: tuple[str, ...] = ()  # columns that claims are ordered by; default: the due time, then the key
    starts: str = "starts"
    settled_by: str = "settled_by"
    cancel: str | None = None  # a column that is not null when cancellation was requested
    quarantine_state: str | None = None  # the state of a row that was started too often
    quarantine_columns: tuple[tuple[str, str], ...] = ()  # columns, with the texts that quarantine writes into them

    def __post_init__(self) -> None:
        assert (self.since is None) != (self.until is None), "a lease table has exactly one of `since` and `until`"

    def __str__(self) -> str:
        return ".".join(self.qualified_name)


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
    busy: frozenset[tuple[Any, str]]  # locked by a transaction of our own; the next heartbeat renews it
    lost: frozenset[tuple[Any, str]]
    cancelled: frozenset[tuple[Any, str]]  # ours, and their cancellation was requested


async def claim(
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
        connection, render(table, "claim"), owner=owner, lease_seconds=lease_seconds, limit=limit, keys=keys
    )
    if rows:
        crashpoint("after_claim")
    return [Lease(table, owner, row, sent_at) for row in rows]


async def find_next(connection: Connection, table: LeaseTable) -> Any:
    """Find and lock the row that a claim of one row would take; returns its key, or None."""
    row = await find_row(connection, render(table, "claimable"), keys=None, limit=1)
    return row and row[table.key]


async def find_due(
    connection: Connection, table: LeaseTable, *, excluded_keys: Sequence[Any] = (), limit: int = 100
) -> list[Any]:
    """Find the keys of what a claim would take next, except these, without locking."""
    rows = await get_rows(connection, render(table, "find_due"), excluded_keys=list(excluded_keys), limit=limit)
    return [row["key"] for row in rows]


async def claim_expired(
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
    assert table.expired == "reclaimed", f"expired rows of {table} are swept, not reclaimed"
    owner, sent_at = new_owner(worker_id), time.monotonic()
    rows = await get_rows(
        connection,
        render(table, "claim_expired"),
        owner=owner,
        lease_seconds=lease_seconds,
        max_starts=max_starts,
        limit=limit,
        keys=keys,
    )
    if rows:
        crashpoint("after_claim")
    return [Lease(table, owner, row, sent_at) for row in rows]


async def quarantine(
    connection: Connection, table: LeaseTable, *, max_starts: int, keys: Sequence[Any] | None = None, limit: int = 100
) -> Sequence[Row]:
    """Set aside expired rows, or those with these keys, that were started too often; returns them as updated."""
    assert table.quarantine_state, f"{table} has no quarantine_state"
    return await get_rows(connection, render(table, "quarantine"), max_starts=max_starts, keys=keys, limit=limit)


async def find_expired(
    connection: Connection, table: LeaseTable, *, excluded_keys: Sequence[Any] = (), limit: int = 100
) -> list[Any]:
    """Find the keys of rows whose lease has expired, except these, without locking."""
    rows = await get_rows(connection, render(table, "find_expired"), excluded_keys=list(excluded_keys), limit=limit)
    return [row["key"] for row in rows]


async def sweep(
    connection: Connection, table: LeaseTable, *, keys: Sequence[Any] | None = None, limit: int = 100
) -> Sequence[Row]:
    """Make expired rows, or those with these keys, claimable again; returns them as updated."""
    assert table.expired == "returned", f"expired rows of {table} are reclaimed, not swept"
    crashpoint("before_sweep")
    rows = await get_rows(connection, render(table, "sweep"), keys=keys, limit=limit)
    if rows:
        crashpoint("after_sweep")
    return rows


async def renew(connection: Connection, leases: Sequence[Lease], *, lease_seconds: float) -> Renewal:
    """Renew every lease of one table that is still ours; never waits for a lock."""
    crashpoint("before_renew")
    rows = await get_rows(
        connection, render(single_table(leases), "renew"), lease_seconds=lease_seconds, **keys_and_owners(leases)
    )
    crashpoint("after_renew")
    ours = [row for row in rows if row["ours"]]
    return Renewal(
        renewed=frozenset((row["key"], row["owner"]) for row in ours if row["renewed"]),
        busy=frozenset((row["key"], row["owner"]) for row in ours if not row["renewed"]),
        lost=frozenset((row["key"], row["owner"]) for row in rows if not row["ours"]),
        cancelled=frozenset((row["key"], row["owner"]) for row in ours if row["cancelled"]),
    )


async def fence(connection: Connection, lease: Lease) -> None:
    """Lock a row that we own until the end of the transaction; raises LeaseLost if we do not own it."""
    if not await find_row(connection, render(lease.table, "fence"), key=lease.key, owner=lease.owner):
        raise LeaseLost(f"{lease.table} {lease.key} is leased to another owner")


async def fence_many(connection: Connection, leases: Sequence[Lease]) -> frozenset[Any]:
    """Lock those of many rows that we own; returns their keys."""
    rows = await get_rows(connection, render(single_table_of_rows(leases), "fence_many"), **keys_and_owners(leases))
    return frozenset(row["key"] for row in rows)


async def settle(connection: Connection, lease: Lease, to: str, **changes: tuple[str, object]) -> bool:
    """Settle a row into the state `to`; `changes` are further columns with their SQL type and value.

    Comes first in the transaction that records the result: what follows it is fenced. Repeating it is safe: False means
    that an earlier call, whose answer was lost, has settled the row and committed what followed. Raises LeaseLost.
    """
    columns = {name: (column_type, [value]) for name, (column_type, value) in changes.items()}
    if await write_settled(connection, [lease], to, columns):
        return True
    if await find_settled(connection, [lease]):
        return False
    raise LeaseLost(f"{lease.table} {lease.key} is leased to another owner")


async def settle_many(
    connection: Connection,
    leases: Sequence[Lease],
    to: str,
    columns: Mapping[str, tuple[str, Sequence[object]]] | None = None,
) -> frozenset[Any]:
    """Settle many rows of one table in one statement; returns the keys that we settled, the others are lost.

    `columns` gives each further column its SQL type and one value per lease.
    """
    settled = await write_settled(connection, leases, to, columns or {})
    return settled if len(settled) == len(leases) else settled | await find_settled(connection, leases)


async def settle_with(
    connection: Connection,
    leases: Sequence[Lease],
    to: str,
    columns: Mapping[str, tuple[str, Sequence[object]]],
    beside: Mapping[str, tuple[str, Sequence[object]]],
    then: str,
    **parameters: object,
) -> Sequence[Row]:
    """Settle many rows and run `then` in the same statement, for a write that must be guarded by the settle itself.

    In `then`, the CTE `settled` has the keys that we settled, and `given` the keys with the values of `beside`, one per
    lease. Returns the rows that `then` returns.
    """
    crashpoint("before_settle")
    types = tuple((name, column_type) for name, (column_type, _) in columns.items())
    other_types = tuple((name, column_type) for name, (column_type, _) in beside.items())
    values = {f"column_{name}": list(each) for name, (_, each) in (*columns.items(), *beside.items())}
    statement = render_settle(single_table_of_rows(leases), to, types, other_types, then)
    rows = await get_rows(connection, statement, **keys_and_owners(leases), **values, **parameters)
    if rows:
        crashpoint("after_settle")
    return rows


async def write_settled(
    connection: Connection, leases: Sequence[Lease], to: str, columns: Mapping[str, tuple[str, Sequence[object]]]
) -> frozenset[Any]:
    """Settle the rows that we own; returns their keys."""
    crashpoint("before_settle")
    types = tuple((name, column_type) for name, (column_type, _) in columns.items())
    values = {f"column_{name}": list(each) for name, (_, each) in columns.items()}
    statement = render_settle(single_table_of_rows(leases), to, types)
    rows = await get_rows(connection, statement, **keys_and_owners(leases), **values)
    if rows:
        crashpoint("after_settle")
    return frozenset(row["key"] for row in rows)


async def find_settled(connection: Connection, leases: Sequence[Lease]) -> frozenset[Any]:
    """Find which of these rows we settled earlier; returns their keys."""
    rows = await get_rows(connection, render(single_table_of_rows(leases), "find_settled"), **keys_and_owners(leases))
    return frozenset(row["key"] for row in rows)


async def release(connection: Connection, leases: Sequence[Lease]) -> frozenset[Any]:
    """Release rows unfinished: the start is not counted and the lease expires at once; lost ones are left alone.

    Returns the keys of those that were still ours.
    """
    crashpoint("before_release")
    table = single_table(leases)
    rows = await get_rows(connection, render(table, "release"), **keys_and_owners(leases))
    crashpoint("after_release")
    return frozenset(row[table.key] for row in rows)


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


# Rendering -----------------------------------------------------------------------------------------------------------


@cache
def render(table: LeaseTable, name: str) -> sql.Composed:
    """Render one statement of `lease.sql` for this table."""
    return template(name).format(**template_values(table))


@cache
def render_settle(
    table: LeaseTable,
    to: str,
    columns: tuple[tuple[str, str], ...] = (),
    beside: tuple[tuple[str, str], ...] = (),
    then: str | None = None,
) -> sql.Composed:
    """Render the settle of this table into one state, with these further columns and their types."""
    arrays = [
        sql.SQL(", (select {}::{}[])").format(array_placeholder(name, column_type), sql.SQL(literal(column_type)))
        for name, column_type in (*columns, *beside)
    ]
    names = [sql.SQL(", {}").format(sql.Identifier(name)) for name, _ in (*columns, *beside)]
    changes = [sql.SQL(", {name} = ours.{name}").format(name=sql.Identifier(name)) for name, _ in columns]
    return template("settle").format(
        **template_values(table),
        to=sql.Literal(to),
        arrays=sql.Composed(arrays),
        columns=sql.Composed(names),
        changes=sql.Composed(changes),
        then=sql.SQL(literal(then)) if then else template("settled"),
    )


def template_values(table: LeaseTable) -> dict[str, sql.Composable]:
    """Return what replaces the braces of `lease.sql` for this table."""
    clock = "since" if table.since else "until"
    plain: dict[str, sql.Composable] = {
        "table": sql.Identifier(*table.qualified_name),
        "key": sql.Identifier(table.key),
        "key_type": sql.SQL(literal(table.key_type)),
        "state": sql.Identifier(table.state),
        "ready": sql.Literal(table.ready),
        "held": sql.Literal(table.held),
        "owner": sql.Identifier(table.owner),
        "due": sql.Identifier(table.due),
        "order": sql.SQL(", ").join(sql.Identifier(column) for column in table.order or (table.due, table.key)),
        "starts": sql.Identifier(table.starts),
        "settled_by": sql.Identifier(table.settled_by),
        "returned": sql.Literal(table.ready),
        "quarantine_state": sql.Literal(table.quarantine_state),
        "quarantine_columns": sql.SQL(", ").join(
            sql.SQL("{} = {}").format(sql.Identifier(column), sql.Literal(value))
            for column, value in table.quarantine_columns
        ),
        "cancelled": sql.SQL("t.{} is not null").format(sql.Identifier(table.cancel))
        if table.cancel
        else sql.SQL("false"),
        "clock": sql.Identifier(table.since or table.until or ""),
        "length": sql.Identifier(table.length),
        "began": coalesced(table.since or "", table.default_lease_seconds and "-infinity"),
        "lasts": coalesced(table.length, table.default_lease_seconds),
    }
    parts = ("stamp", "is_expired", "is_expired_now", "expire", "freed")
    clocks = {part: template(f"{clock}_{part}").format(**plain) for part in parts}
    return {**plain, **clocks, "claimable": template("claimable").format(**plain)}


def array_placeholder(name: str, column_type: str) -> sql.Placeholder:
    """Return the placeholder for the values of a column; JSON as binary, because a text array escapes every quote."""
    return sql.Placeholder(f"column_{name}", PyFormat.BINARY if column_type == "jsonb" else PyFormat.AUTO)


def coalesced(column: str, value: float | str | None) -> sql.Composable:
    """Return a column, or a default for where it is null."""
    if value is None:
        return sql.Identifier(column)
    return sql.SQL("coalesce({}, {})").format(sql.Identifier(column), sql.Literal(value))


@cache
def template(name: str) -> sql.SQL:
    """Return one block of `lease.sql` without its comments."""
    lines = [line for line in TEMPLATES[name].splitlines() if not line.lstrip().startswith("--")]
    return sql.SQL(literal("\n".join(lines)))


def literal(text: str) -> LiteralString:
    """Mark SQL text that comes from our files or table descriptions, never from a caller."""
    return cast("LiteralString", text)
