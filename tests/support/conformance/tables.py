"""The lease tables of the conformance tests: two of different shape that only tests use, and every one of ours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, LiteralString

from psycopg import sql

from duly.apps.ingest.states import capture_lease_table
from duly.apps.posts.states import POST
from duly.apps.scheduler.states import PLAN_TABLE
from duly.db.queries import load_queries
from duly.db.rows import Connection
from duly.jobs import JOB, repository
from duly.jobs.model import TypeInQueue
from duly.lease.operations import Lease, LeaseTable, claim_rows, release_rows, settle_rows, sweep_rows
from duly.outbox import OUTBOX
from duly.outbox.repository import claim_messages, sweep_messages
from duly.outbox.states import MessageTable, notification_table
from tools.state_machines.ingest import CAPTURE_MACHINE
from tools.state_machines.jobs import JOB_MACHINE
from tools.state_machines.model import StateMachine
from tools.state_machines.outbox import NOTIFICATION_MACHINE, OUTBOX_MACHINE
from tools.state_machines.posts import POST_MACHINE
from tools.state_machines.render import render_state_machine

MANY_STARTS = 1000
LEASE = 60.0


@dataclass(frozen=True)
class Shape:
    """A lease table with its state machine, and what tests must know of it.

    The methods do what a worker does with the table. Where its package runs a statement by a function of its own, a
    subclass calls that, so that the tests try what runs.
    """

    table: LeaseTable
    machine: StateMachine
    end: str
    settling: str = "settle"  # the statement that brings a row to `end`
    constants: Mapping[str, object] = field(default_factory=dict[str, object])  # its parameters beside the note
    nulls: Sequence[str] = ()  # its columns beside the note, which get no values
    note: str = "note"  # a column that an owner may write with it
    poison: str = "poison"  # a text that this column refuses
    blank: str | None = None  # what is written into it without a note
    due: str = "due_at"
    key_type: str = "uuid"
    renewed: Sequence[str] = ("lease_expires_at",)  # the columns that renewing writes
    cancel: str | None = None  # a column that is not null when cancellation was requested
    quarantined: str | None = None  # the state of a row that was started too often
    keeps_due: bool = True  # does a row that is swept keep its due time?
    planned_elsewhere: Sequence[str] = ()  # statements whose plans are held in tests of the package
    required: Mapping[str, str] = field(default_factory=dict[str, str])  # values of columns without a default
    beside: Mapping[str, LiteralString] = field(default_factory=dict[str, LiteralString])  # SQL to set with a state

    def __str__(self) -> str:
        return self.machine.name

    @property
    def state(self) -> str:
        """The column of the state."""
        return self.machine.state

    @property
    def ready(self) -> str:
        """The state of a row that can be claimed."""
        return self.machine.initial[0]

    @property
    def held(self) -> str:
        """The state of a row that has an owner."""
        assert self.machine.leased_state
        return self.machine.leased_state

    @property
    def owner(self) -> str:
        """The column of the owner."""
        assert self.machine.owner
        return self.machine.owner

    def become(self, state: str) -> sql.Composed:
        """Return the SET clause that changes the state, with what the table requires beside it."""
        beside = self.beside.get(state, "")
        return sql.SQL("{} = {}{}").format(
            sql.Identifier(self.state), sql.Literal(state), sql.SQL(", " + beside if beside else "")
        )

    async def claim(self, connection: Connection, worker_id: str, *, lease_seconds: float, limit: int) -> list[Lease]:
        """Claim due rows."""
        return await claim_rows(connection, self.table, worker_id, lease_seconds=lease_seconds, limit=limit)

    async def sweep(self, connection: Connection, limit: int = 100) -> list[Any]:
        """Make expired rows claimable again; returns their keys."""
        return [row[self.table.key] for row in await sweep_rows(connection, self.table, limit=limit)]

    async def settle(
        self, connection: Connection, leases: Sequence[Lease], notes: Sequence[str] | None = None
    ) -> frozenset[Any]:
        """Bring rows to their end, with a note each; returns the keys of those that we settled."""
        nothing = [None for _ in leases]
        note = self.encode(notes) if notes else [self.blank for _ in leases]
        columns: dict[str, object] = {self.note: note, **dict.fromkeys(self.nulls, nothing)}
        return await settle_rows(
            connection, leases, getattr(self.table.statements, self.settling), **columns, **self.constants
        )

    def encode(self, notes: Sequence[str]) -> list[str]:
        """Return notes as the statement takes them."""
        return list(notes)

    async def release(self, connection: Connection, leases: Sequence[Lease]) -> object:
        """Release rows unfinished."""
        return await release_rows(connection, leases)


@dataclass(frozen=True)
class JobShape(Shape):
    """Jobs: a claim names types in queues, a release and a sweep queue them again; their results are the notes."""

    async def claim(self, connection: Connection, worker_id: str, *, lease_seconds: float, limit: int) -> list[Lease]:
        """Claim due jobs."""
        types = [TypeInQueue("default", "work")]
        return await repository.claim_jobs(connection, worker_id, types, lease_seconds=lease_seconds, limit=limit)

    async def sweep(self, connection: Connection, limit: int = 100) -> list[Any]:
        """Fail jobs whose leases have expired, and put them back in the queue."""
        async with connection.transaction():
            return [row["key"] for row in await repository.sweep_jobs(connection, limit=limit)]

    async def settle(
        self, connection: Connection, leases: Sequence[Lease], notes: Sequence[str] | None = None
    ) -> frozenset[Any]:
        """Settle succeeded jobs."""
        return await repository.settle_done(connection, leases, notes or [None] * len(leases))

    async def release(self, connection: Connection, leases: Sequence[Lease]) -> object:
        """Requeue jobs."""
        return await repository.release_jobs(connection, leases)


@dataclass(frozen=True)
class MessageShape(Shape):
    """Messages: a claim names channels, and the sweep decides what an expired lease means."""

    channel: str = "console"

    @property
    def messages(self) -> MessageTable:
        """The table, as one of messages."""
        assert isinstance(self.table, MessageTable)
        return self.table

    async def claim(self, connection: Connection, worker_id: str, *, lease_seconds: float, limit: int) -> list[Lease]:
        """Claim due messages."""
        return await claim_messages(
            connection, self.messages, worker_id, [self.channel], lease_seconds=lease_seconds, limit=limit
        )

    async def sweep(self, connection: Connection, limit: int = 100) -> list[Any]:
        """Make messages that were not sent pending again."""
        return await sweep_messages(connection, self.messages, max_starts=MANY_STARTS, limit=limit)


@dataclass(frozen=True)
class CaptureShape(Shape):
    """Capture sessions: their results are the notes."""

    def encode(self, notes: Sequence[str]) -> list[str]:
        """Return results: an object for a note, and for a poisonous one an array, which is refused."""
        return [note if note == self.poison else f'{{"note": "{note}"}}' for note in notes]


PARCEL = Shape(
    table=LeaseTable(("conformance", "parcel"), load_queries(__file__, "parcel.sql")),
    machine=StateMachine(
        name="parcel",
        table=("conformance", "parcel"),
        state="status",
        initial=("WAITING",),
        edges={"WAITING": ("CARRIED",), "CARRIED": ("DELIVERED", "WAITING")},
        leased_state="CARRIED",
        owner="carrier",
        actor="coalesce(settled_by, carrier)",
    ),
    end="DELIVERED",
    renewed=("carried_until",),
    cancel="cancel_requested_at",
)

VISIT = Shape(
    table=LeaseTable(("conformance", "visit"), load_queries(__file__, "visit.sql"), key="number"),
    machine=StateMachine(
        name="visit",
        table=("conformance", "visit"),
        key="number",
        state="state",
        initial=("pending",),
        edges={"pending": ("processing",), "processing": ("done", "failed")},
        leased_state="processing",
        owner="locked_by",
        transition_if="new.progress is distinct from old.progress",
        detail="jsonb_build_object('progress', progress)",
    ),
    end="done",
    due="created_at",
    key_type="bigint",
    renewed=("locked_at", "lease_seconds"),
    quarantined="failed",
    beside={"failed": "error = 'because'"},
)

UNHELD: LiteralString = "lease_owner = null, lease_expires_at = null"
MESSAGE = MessageShape(
    table=OUTBOX,
    machine=OUTBOX_MACHINE,
    end="sent",
    settling="settle_sent",
    nulls=("channel",),
    planned_elsewhere=("claim",),
    note="receipt",
    poison="x" * 2049,
    required={"channel": "console", "kind": "reminder", "payload": "{}"},
    beside={
        "pending": UNHELD + ", called_at = null",
        "sending": "lease_owner = 'another', lease_expires_at = duly.clock()",
        "sent": UNHELD,
        "failed": UNHELD + ", last_error = 'because'",
        "uncertain": UNHELD + ", called_at = duly.clock()",
    },
)
NOTIFICATION = MessageShape(
    table=notification_table(),
    machine=NOTIFICATION_MACHINE,
    end="sent",
    settling="settle_sent",
    nulls=("channel",),
    planned_elsewhere=("claim",),
    key_type="text",
    note="receipt",
    poison="x" * 2049,
    channel="telegram",
    required={
        "schedule_date": "2026-11-17",
        "source_session_id": "00000000-0000-0000-0000-00000000000a",
        "notification_type": "summary",
        "message": "Nothing is as it was",
        "event_ids": "[]",
    },
)
JOBS = JobShape(
    table=JOB,
    machine=JOB_MACHINE,
    end="succeeded",
    settling="settle_done",
    note="result",
    poison="x" * (1024 * 1024 + 1),
    due="run_at",
    cancel="cancel_requested_at",
    keeps_due=False,
    required={
        "org_id": "00000000-0000-0000-0000-00000000000a",
        "type": "work",
        "backoff_policy": "none",
        "max_attempts": "1000",
    },
)
POSTS = Shape(  # documents of the first version, which may be due at any time
    table=POST,
    machine=replace(POST_MACHINE, leased_state="PROCESSING", owner="lease_owner"),
    end="RELEASED",
    settling="settle_released",
    nulls=("ai",),
    note="ai_error",
    poison="no code",
    due="release_time",
    required={"author_id": "anna", "legacy": "{}"},
)
PLANS = Shape(
    table=PLAN_TABLE,
    machine=StateMachine(  # plans have no machine in the database; this names their states for the tests
        name="plan",
        table=("scheduler", "job_plans"),
        key="job_id",
        state="state",
        initial=("waiting",),
        edges={"waiting": ("planning",), "planning": ("waiting", "stuck")},
        leased_state="planning",
        owner="lease_owner",
    ),
    end="stuck",
    settling="settle_stuck",
    note="last_error",
    poison="x" * 2049,
    blank="because",
    due="plan_at",
    key_type="bigint",
    quarantined="stuck",
)


def captures(due: str = "closed_at", **required: str) -> CaptureShape:
    """Return sessions as a worker sees them that claims by this column."""
    return CaptureShape(
        table=capture_lease_table(due=due),
        machine=CAPTURE_MACHINE,
        end="done",
        settling="settle_done",
        constants={"canonicalizer": 1},
        nulls=("user_id", "schedule_date", "version", "payload", "payload_hash"),
        note="result",
        poison="[]",
        due=due,
        renewed=("locked_at", "lease_seconds"),
        quarantined="failed",
        required={"user_id": "42", **required},
    )


CAPTURES = captures()
SHAPES = (PARCEL, VISIT, MESSAGE)
EVERY_SHAPE = (*SHAPES, JOBS, POSTS, CAPTURES, PLANS, NOTIFICATION)
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
    transition_from text
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
    transition_from text,
    constraint ck_visit__error check ((state = 'failed') = (error is not null))
) with (fillfactor = 45);
create index visit_due on conformance.visit (created_at, number) where state = 'pending';
create index visit_locked on conformance.visit (number) where state = 'processing';

grant select, insert, update on conformance.parcel, conformance.visit to duly_worker;

-- What a worker writes beside settling; the key makes it idempotent.
create table conformance.receipt (key text primary key, written_by text not null);
grant select, insert on conformance.receipt to duly_worker;

-- Messages of one recipient are sent in order; here each has a recipient of its own.
alter table duly.outbox alter recipient set default 'person ' || gen_random_uuid();
alter table schedule_ingest.schedule_notification alter user_id set default (random() * 1e12)::bigint;
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
