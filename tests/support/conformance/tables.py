"""The lease tables of the conformance tests: two of different shape that only tests use, and the outbox."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import LiteralString

from psycopg import sql

from duly.lease.operations import LeaseTable
from duly.lease.state_machine import StateMachine, render_state_machine
from duly.outbox import OUTBOX, OUTBOX_MACHINE


@dataclass(frozen=True)
class Shape:
    """A lease table with its state machine, an end state, and the values that its rows require."""

    table: LeaseTable
    machine: StateMachine
    end: str
    note: str = "note"  # a text column that an owner may write
    poison: str = "poison"  # a text that this column refuses
    required: Mapping[str, str] = field(default_factory=dict[str, str])  # values of columns without a default
    beside: Mapping[str, LiteralString] = field(default_factory=dict[str, LiteralString])  # SQL to set with a state

    def __str__(self) -> str:
        return self.machine.name

    def become(self, state: str) -> sql.Composed:
        """Return the SET clause that changes the state, with what the table requires beside it."""
        beside = self.beside.get(state, "")
        return sql.SQL("{} = {}{}").format(
            sql.Identifier(self.table.state), sql.Literal(state), sql.SQL(", " + beside if beside else "")
        )


PARCEL = Shape(
    table=LeaseTable(
        qualified_name=("conformance", "parcel"),
        state="status",
        ready="WAITING",
        held="CARRIED",
        owner="carrier",
        until="carried_until",
        due="due_at",
        expired="returned",
        cancel="cancel_requested_at",
    ),
    machine=StateMachine(
        name="parcel",
        table=("conformance", "parcel"),
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
        qualified_name=("conformance", "visit"),
        key="number",
        key_type="bigint",
        state="state",
        ready="pending",
        held="processing",
        owner="locked_by",
        since="locked_at",
        due="created_at",
        expired="reclaimed",
        quarantine_state="failed",
        quarantine_columns=(("error", "started too often"),),
    ),
    machine=StateMachine(
        name="visit",
        table=("conformance", "visit"),
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
create schema conformance;
grant usage on schema conformance to duly_worker;

create table conformance.parcel (
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
create index parcel_due on conformance.parcel (due_at, id) where status = 'WAITING';
create index parcel_carried on conformance.parcel (id) where status = 'CARRIED';

create type conformance.visit_state as enum ('pending', 'processing', 'done', 'failed');
create table conformance.visit (
    number bigint generated always as identity primary key,
    state conformance.visit_state not null default 'pending',
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
create index visit_due on conformance.visit (created_at, number) where state = 'pending';
create index visit_locked on conformance.visit (number) where state = 'processing';

grant select, insert, update on conformance.parcel, conformance.visit to duly_worker;

-- What a worker writes beside settling; the key makes it idempotent.
create table conformance.receipt (key text primary key, written_by text not null);
grant select, insert on conformance.receipt to duly_worker;
"""


def schema_sql() -> str:
    """Return the DDL of the two test tables with their triggers; the real tables are there already."""
    return TABLES + "\n".join(render_state_machine(shape.machine) for shape in (PARCEL, VISIT))


def insert_rows(shape: Shape, columns: Mapping[str, sql.Composable], rows: int = 1) -> sql.Composed:
    """Return a statement that inserts rows with these columns and the required ones."""
    given = {name: sql.Literal(value) for name, value in shape.required.items()} | dict(columns)
    return sql.SQL("insert into {} ({}) select {} from generate_series(1, {})").format(
        sql.Identifier(*shape.table.qualified_name),
        sql.SQL(", ").join(map(sql.Identifier, given)),
        sql.SQL(", ").join(given.values()),
        sql.Literal(rows),
    )
