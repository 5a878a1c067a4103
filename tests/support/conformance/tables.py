"""Two tables of different shape that nobody but the laws uses, and the real ones: every law must hold on each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import LiteralString

from psycopg import sql

from duly.lease.operations import LeaseTable
from duly.lease.state_machine import Machine, render_machine
from duly.outbox import OUTBOX, OUTBOX_MACHINE

__all__ = ["SHAPES", "Shape", "insert_rows", "schema_sql"]


@dataclass(frozen=True)
class Shape:
    """A lease table with its machine, an end a holder may bring a row to, and what its rows cannot do without."""

    table: LeaseTable
    machine: Machine
    end: str
    note: str = "note"  # a column of text that a holder may write
    poison: str = "poison"  # a text which that column refuses
    required: Mapping[str, str] = field(default_factory=dict[str, str])  # columns without a default, with a value
    beside: Mapping[str, LiteralString] = field(default_factory=dict[str, LiteralString])  # set with a state, by hand

    def __str__(self) -> str:
        return self.machine.name

    def become(self, state: str) -> sql.Composed:
        """What to set to change the state by hand: the state, and whatever the table wants beside it."""
        beside = self.beside.get(state, "")
        return sql.SQL("{} = {}{}").format(
            sql.Identifier(self.table.state), sql.Literal(state), sql.SQL(", " + beside if beside else "")
        )


PARCEL = Shape(
    table=LeaseTable(
        qualified_name=("laws", "parcel"),
        state="status",
        ready="WAITING",
        held="CARRIED",
        owner="carrier",
        until="carried_until",
        due="due_at",
        expired="returned",
        cancel="cancel_requested_at",
    ),
    machine=Machine(
        name="parcel",
        table=("laws", "parcel"),
        state="status",
        initial=("WAITING",),
        edges={"WAITING": ("CARRIED",), "CARRIED": ("DELIVERED", "WAITING")},
        held="CARRIED",
        owner="carrier",
        actor="coalesce(settled_by, carrier)",
    ),
    end="DELIVERED",
)

VISIT = Shape(
    table=LeaseTable(
        qualified_name=("laws", "visit"),
        key="number",
        key_type="bigint",
        state="state",
        ready="pending",
        held="processing",
        owner="locked_by",
        since="locked_at",
        due="created_at",
        expired="reclaimed",
        poisoned="failed",
        verdict=(("error", "started too often"),),
    ),
    machine=Machine(
        name="visit",
        table=("laws", "visit"),
        key="number",
        state="state",
        initial=("pending",),
        edges={"pending": ("processing",), "processing": ("done", "failed")},
        held="processing",
        owner="locked_by",
        moved="new.progress is distinct from old.progress",
        detail="jsonb_build_object('progress', progress)",
    ),
    end="done",
    beside={"failed": "error = 'because'"},
)

UNHELD: LiteralString = "lease_owner = null, lease_expires_at = null"
MESSAGE = Shape(
    table=OUTBOX,
    machine=OUTBOX_MACHINE,
    end="sent",
    note="receipt",
    poison="x" * 2049,
    required={"channel": "console", "recipient": "anna", "kind": "reminder", "payload": "{}"},
    beside={
        "pending": UNHELD + ", called_at = null",
        "sending": "lease_owner = 'anybody', lease_expires_at = duly.clock()",
        "sent": UNHELD,
        "failed": UNHELD + ", last_error = 'because'",
        "uncertain": UNHELD + ", called_at = duly.clock()",
    },
)
SHAPES = (PARCEL, VISIT, MESSAGE)

TABLES = """
create schema laws;
grant usage on schema laws to duly_worker;

create table laws.parcel (
    id uuid primary key default gen_random_uuid(),
    status text not null default 'WAITING',
    due_at timestamptz not null default duly.clock(),
    carrier text,
    carried_until timestamptz,
    starts integer not null default 0,
    settled_by text,
    cancel_requested_at timestamptz,
    note text check (note <> 'poison'),
    revision bigint not null default 0,
    moved_from text
) with (fillfactor = 45);
create index parcel_due on laws.parcel (due_at, id) where status = 'WAITING';
create index parcel_carried on laws.parcel (id) where status = 'CARRIED';

create type laws.visit_state as enum ('pending', 'processing', 'done', 'failed');
create table laws.visit (
    number bigint generated always as identity primary key,
    state laws.visit_state not null default 'pending',
    created_at timestamptz not null default duly.clock(),
    locked_by text,
    locked_at timestamptz,
    lease_seconds double precision,
    starts integer not null default 0,
    settled_by text,
    progress integer,
    error text,
    note text check (note <> 'poison'),
    revision bigint not null default 0,
    moved_from text,
    constraint ck_visit__error check ((state = 'failed') = (error is not null))
) with (fillfactor = 45);
create index visit_due on laws.visit (created_at, number) where state = 'pending';
create index visit_locked on laws.visit (number) where state = 'processing';

grant select, insert, update on laws.parcel, laws.visit to duly_worker;

-- What a worker writes beside settling; its key makes a second one the same one.
create table laws.receipt (key text primary key, written_by text not null);
grant select, insert on laws.receipt to duly_worker;
"""


def schema_sql() -> str:
    """The laws' own two tables with their guards and timelines; the real ones are there already."""
    return TABLES + "\n".join(render_machine(shape.machine) for shape in (PARCEL, VISIT))


def insert_rows(shape: Shape, columns: Mapping[str, sql.Composable], rows: int = 1) -> sql.Composed:
    """A statement that puts rows into the table, with these columns as well as those it cannot do without."""
    given = {name: sql.Literal(value) for name, value in shape.required.items()} | dict(columns)
    return sql.SQL("insert into {} ({}) select {} from generate_series(1, {})").format(
        sql.Identifier(*shape.table.qualified_name),
        sql.SQL(", ").join(map(sql.Identifier, given)),
        sql.SQL(", ").join(given.values()),
        sql.Literal(rows),
    )
