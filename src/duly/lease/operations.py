"""Holding a row: `lease.sql` says how, this fills in the names of each table and asks.

    claim ---> renew, renew, ... ---> settle           finished by the holder, provably
                  |           |
                  |           +-----> release          handed back unfinished, the start given back
                  |
                  +-- holder dies --> sweep            returned to be claimed again      (lapsed="returned")
                                  --> claim_lapsed     taken over by another             (lapsed="reclaimed")
                                  --> quarantine       started too often: set aside

A table describes itself once, as a `LeaseTable`. A holder that gets no row answered has lost the lease: `LeaseLost`,
stop, write nothing.
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

__all__ = [
    "Lease",
    "LeaseTable",
    "Renewal",
    "claim",
    "claim_expired",
    "fence",
    "fence_many",
    "find_due",
    "find_expired",
    "find_next",
    "find_settled",
    "quarantine",
    "release",
    "render",
    "renew",
    "settle",
    "settle_and",
    "settle_many",
    "sweep",
]

TEMPLATES = parse_queries(Path(__file__).with_name("lease.sql").read_text())


@dataclass(frozen=True)
class LeaseTable:
    """How one table is held: its columns and its states, nothing of its meaning."""

    qualified_name: tuple[str, str]
    state: str
    ready: str
    held: str
    owner: str
    due: str
    expired: Literal["returned", "reclaimed"]
    since: str | None = None  # when the lease began; its length is in `length`
    until: str | None = None  # when it ends
    length: str = "lease_seconds"
    default_lease_seconds: float | None = None  # assumed when a holder that is not ours left the length null
    key: str = "id"
    key_type: str = "uuid"
    order: tuple[str, ...] = ()  # columns of the claim's order; by default the due time, then the key
    starts: str = "starts"
    settled_by: str = "settled_by"
    cancel: str | None = None  # a column that is not null when somebody asked to cancel
    poisoned: str | None = None  # the state of a row that was started too often
    verdict: tuple[tuple[str, str], ...] = ()  # columns and texts that quarantine writes beside it

    def __post_init__(self) -> None:
        assert (self.since is None) != (self.until is None), "a lease table keeps exactly one clock"

    def __str__(self) -> str:
        return ".".join(self.qualified_name)


@dataclass(frozen=True)
class Lease:
    """A row that we hold, as it was when we claimed it."""

    table: LeaseTable
    owner: str
    row: Row
    sent_at: float  # our monotonic clock when the claim was sent: the lease is at least as young as that

    @property
    def key(self) -> Any:
        return self.row[self.table.key]

    @property
    def claim(self) -> tuple[Any, str]:
        """Which row, by which claim: one row may have been ours twice, the earlier time in vain."""
        return self.key, self.owner


@dataclass(frozen=True)
class Renewal:
    """What became of each lease at a beat, by its row and claim."""

    renewed: frozenset[tuple[Any, str]]
    busy: frozenset[tuple[Any, str]]  # locked by a transaction of our own; the next beat will do
    lost: frozenset[tuple[Any, str]]
    cancelled: frozenset[tuple[Any, str]]  # ours, and somebody asked us to stop


async def claim(
    connection: Connection,
    table: LeaseTable,
    worker_id: str,
    *,
    lease_seconds: float,
    limit: int = 1,
    keys: Sequence[Any] | None = None,
) -> list[Lease]:
    """Hold up to `most` due rows, or those of them with these keys, under one fresh owner."""
    owner, sent_at = new_owner(worker_id), time.monotonic()
    rows = await get_rows(
        connection, render(table, "claim"), owner=owner, lease_seconds=lease_seconds, limit=limit, keys=keys
    )
    if rows:
        crashpoint("after_claim")
    return [Lease(table, owner, row, sent_at) for row in rows]


async def find_next(connection: Connection, table: LeaseTable) -> Any:
    """The key of the row that a claim with one free slot would take, or None; locked for this transaction."""
    row = await find_row(connection, render(table, "takeable"), keys=None, limit=1)
    return row and row[table.key]


async def find_due(
    connection: Connection, table: LeaseTable, *, besides: Sequence[Any] = (), limit: int = 100
) -> list[Any]:
    """The keys of what a claim would take next, but for these; only looks."""
    rows = await get_rows(connection, render(table, "find_due"), besides=list(besides), limit=limit)
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
    """Take over up to `most` rows, or those of them with these keys, whose holders let them lapse."""
    assert table.expired == "reclaimed", f"lapsed rows of {table} are swept, not reclaimed"
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
    """Set aside lapsed rows, or those of them with these keys, that were started too often; as they are now."""
    assert table.poisoned, f"{table} has no state for a row that was started too often"
    return await get_rows(connection, render(table, "quarantine"), max_starts=max_starts, keys=keys, limit=limit)


async def find_expired(
    connection: Connection, table: LeaseTable, *, besides: Sequence[Any] = (), limit: int = 100
) -> list[Any]:
    """The keys of rows that nobody holds any more, but for these; only looks."""
    rows = await get_rows(connection, render(table, "find_expired"), besides=list(besides), limit=limit)
    return [row["key"] for row in rows]


async def sweep(
    connection: Connection, table: LeaseTable, *, keys: Sequence[Any] | None = None, limit: int = 100
) -> Sequence[Row]:
    """Return lapsed rows, or those of them with these keys, to where they can be claimed; as they are now."""
    assert table.expired == "returned", f"lapsed rows of {table} are reclaimed, not swept"
    crashpoint("before_sweep")
    rows = await get_rows(connection, render(table, "sweep"), keys=keys, limit=limit)
    if rows:
        crashpoint("after_sweep")
    return rows


async def renew(connection: Connection, leases: Sequence[Lease], *, lease_seconds: float) -> Renewal:
    """Put a fresh stamp on every lease of one table that is still ours; never waits for anybody."""
    crashpoint("before_renew")
    rows = await get_rows(
        connection, render(table_of(leases), "renew"), lease_seconds=lease_seconds, **keys_and_owners(leases)
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
    """Prove, for the rest of this transaction, that the row is ours to write about; LeaseLost if it is not."""
    if not await find_row(connection, render(lease.table, "fence"), key=lease.key, owner=lease.owner):
        raise LeaseLost(f"{lease.table} {lease.key} is held by somebody else now")


async def fence_many(connection: Connection, leases: Sequence[Lease]) -> frozenset[Any]:
    """The same for many rows of one table; returns the keys that are ours."""
    rows = await get_rows(connection, render(table_of_rows(leases), "fence_many"), **keys_and_owners(leases))
    return frozenset(row["key"] for row in rows)


async def settle(connection: Connection, lease: Lease, to: str, **changes: tuple[str, object]) -> bool:
    """Finish the row: `to` is its new state, `changes` are columns with their SQL type and value.

    Comes first in the transaction that records the result: everything after it is fenced for free. Doing it twice is
    doing it once: False says that an earlier call did it, whose answer was lost, and all that followed it as well.
    """
    columns = {name: (kind, [value]) for name, (kind, value) in changes.items()}
    if await write_settled(connection, [lease], to, columns):
        return True
    if await find_settled(connection, [lease]):
        return False
    raise LeaseLost(f"{lease.table} {lease.key} is held by somebody else now")


async def settle_many(
    connection: Connection,
    leases: Sequence[Lease],
    to: str,
    columns: Mapping[str, tuple[str, Sequence[object]]] | None = None,
) -> frozenset[Any]:
    """Finish many rows of one table in one statement; returns the keys that we settled, the others are lost.

    `columns` gives each further column its SQL type and one value per lease.
    """
    settled = await write_settled(connection, leases, to, columns or {})
    return settled if len(settled) == len(leases) else settled | await find_settled(connection, leases)


async def settle_and(
    connection: Connection,
    leases: Sequence[Lease],
    to: str,
    columns: Mapping[str, tuple[str, Sequence[object]]],
    beside: Mapping[str, tuple[str, Sequence[object]]],
    then: str,
    **parameters: object,
) -> Sequence[Row]:
    """Finish many rows and, in the same statement, do what `then` says: for a write that is to carry the guard itself.

    `then` goes on after the settle: `settled` has the keys that we finished, `given` the keys with the values of
    `beside`, one per lease. Returns the rows that it returns.
    """
    crashpoint("before_settle")
    kinds = tuple((name, kind) for name, (kind, _) in columns.items())
    others = tuple((name, kind) for name, (kind, _) in beside.items())
    values = {f"column_{name}": list(each) for name, (_, each) in (*columns.items(), *beside.items())}
    statement = render_settle(table_of_rows(leases), to, kinds, others, then)
    rows = await get_rows(connection, statement, **keys_and_owners(leases), **values, **parameters)
    if rows:
        crashpoint("after_settle")
    return rows


async def write_settled(
    connection: Connection, leases: Sequence[Lease], to: str, columns: Mapping[str, tuple[str, Sequence[object]]]
) -> frozenset[Any]:
    """Finish what we hold; the keys of it."""
    crashpoint("before_settle")
    kinds = tuple((name, kind) for name, (kind, _) in columns.items())
    values = {f"column_{name}": list(each) for name, (_, each) in columns.items()}
    statement = render_settle(table_of_rows(leases), to, kinds)
    rows = await get_rows(connection, statement, **keys_and_owners(leases), **values)
    if rows:
        crashpoint("after_settle")
    return frozenset(row["key"] for row in rows)


async def find_settled(connection: Connection, leases: Sequence[Lease]) -> frozenset[Any]:
    """The keys of what we had finished before."""
    rows = await get_rows(connection, render(table_of_rows(leases), "find_settled"), **keys_and_owners(leases))
    return frozenset(row["key"] for row in rows)


async def release(connection: Connection, leases: Sequence[Lease]) -> frozenset[Any]:
    """Hand rows back unfinished: the start is given back and our lease lapses at once; a lost one is left alone.

    Returns the keys of those that were still ours.
    """
    crashpoint("before_release")
    table = table_of(leases)
    rows = await get_rows(connection, render(table, "release"), **keys_and_owners(leases))
    crashpoint("after_release")
    return frozenset(row[table.key] for row in rows)


def table_of(leases: Sequence[Lease]) -> LeaseTable:
    """The one table a batch of leases is of."""
    tables = {lease.table.qualified_name: lease.table for lease in leases}
    assert len(tables) == 1, "a batch is of one table, and not empty"
    return next(iter(tables.values()))


def table_of_rows(leases: Sequence[Lease]) -> LeaseTable:
    """The same, of a batch with each row once: what is answered by keys must leave no doubt which claim is meant."""
    assert len({lease.key for lease in leases}) == len(leases), "a batch has one claim of each row"
    return table_of(leases)


def keys_and_owners(leases: Sequence[Lease]) -> dict[str, list[Any]]:
    """The batch as two arrays."""
    return {"keys": [lease.key for lease in leases], "owners": [lease.owner for lease in leases]}


# Filling in the names ------------------------------------------------------------------------------------------------


@cache
def render(table: LeaseTable, name: str) -> sql.Composed:
    """One statement of `lease.sql` for this table."""
    return template(name).format(**names_of(table))


@cache
def render_settle(
    table: LeaseTable,
    to: str,
    columns: tuple[tuple[str, str], ...] = (),
    beside: tuple[tuple[str, str], ...] = (),
    then: str | None = None,
) -> sql.Composed:
    """The settle of this table into one state, with these further columns and their types."""
    arrays = [
        sql.SQL(", (select {}::{}[])").format(place_of(name, kind), sql.SQL(literal(kind)))
        for name, kind in (*columns, *beside)
    ]
    names = [sql.SQL(", {}").format(sql.Identifier(name)) for name, _ in (*columns, *beside)]
    changes = [sql.SQL(", {name} = ours.{name}").format(name=sql.Identifier(name)) for name, _ in columns]
    return template("settle").format(
        **names_of(table),
        to=sql.Literal(to),
        arrays=sql.Composed(arrays),
        columns=sql.Composed(names),
        changes=sql.Composed(changes),
        then=sql.SQL(literal(then)) if then else template("settled"),
    )


def names_of(table: LeaseTable) -> dict[str, sql.Composable]:
    """What stands in the braces of `lease.sql`, for this table."""
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
        "poisoned": sql.Literal(table.poisoned),
        "verdict": sql.SQL(", ").join(
            sql.SQL("{} = {}").format(sql.Identifier(column), sql.Literal(value)) for column, value in table.verdict
        ),
        "cancelled": sql.SQL("t.{} is not null").format(sql.Identifier(table.cancel))
        if table.cancel
        else sql.SQL("false"),
        "clock": sql.Identifier(table.since or table.until or ""),
        "length": sql.Identifier(table.length),
        "began": or_else(table.since or "", table.default_lease_seconds and "-infinity"),
        "lasts": or_else(table.length, table.default_lease_seconds),
    }
    parts = ("stamp", "lapse", "over", "let_lapse", "freed")
    clocks = {part: template(f"{clock}_{part}").format(**plain) for part in parts}
    return {**plain, **clocks, "takeable": template("takeable").format(**plain)}


def place_of(name: str, kind: str) -> sql.Placeholder:
    """Where the values of a column go; documents as they are, for in a text array each of their quotes is escaped."""
    return sql.Placeholder(f"column_{name}", PyFormat.BINARY if kind == "jsonb" else PyFormat.AUTO)


def or_else(column: str, value: float | str | None) -> sql.Composable:
    """A column, or what stands for it where nothing was written."""
    if value is None:
        return sql.Identifier(column)
    return sql.SQL("coalesce({}, {})").format(sql.Identifier(column), sql.Literal(value))


@cache
def template(name: str) -> sql.SQL:
    """The text of one block, without its comment: that is for readers of the file."""
    lines = [line for line in TEMPLATES[name].splitlines() if not line.lstrip().startswith("--")]
    return sql.SQL(literal("\n".join(lines)))


def literal(text: str) -> LiteralString:
    """Text of ours, from a file or a table's description, never from a caller."""
    return cast("LiteralString", text)
