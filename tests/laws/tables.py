"""Two tables of different shape that nobody but the laws uses: every law must hold on both."""

from dataclasses import dataclass

from duly.kernel.lease import LeaseTable
from duly.kernel.machine import Machine, render_machine

__all__ = ["SHAPES", "Shape", "schema_sql"]


@dataclass(frozen=True)
class Shape:
    """A lease table with its machine, and an end a holder may bring a row to."""

    of: LeaseTable
    machine: Machine
    end: str

    def __str__(self) -> str:
        return self.machine.name


PARCEL = Shape(
    of=LeaseTable(
        table=("laws", "parcel"),
        state="status",
        ready="WAITING",
        held="CARRIED",
        owner="carrier",
        until="carried_until",
        due="due_at",
        lapsed="returned",
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
    of=LeaseTable(
        table=("laws", "visit"),
        key="number",
        key_type="bigint",
        state="state",
        ready="pending",
        held="processing",
        owner="locked_by",
        since="locked_at",
        due="created_at",
        lapsed="reclaimed",
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
)
SHAPES = (PARCEL, VISIT)

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
"""


def schema_sql() -> str:
    """Both tables with their guards and timelines."""
    return TABLES + "\n".join(render_machine(shape.machine) for shape in SHAPES)
