"""The lease table and the state machine of capture sessions: the images that a user sends to be read together.

The schema and the names of the states are configurable: a backend may own these tables and call the state `pending`
`closed`. A session is due by one of three columns: `main.py`, the one-cycle worker of the contract, claims any session
(`created_at`); `duly worker` claims those that are closed, on request or because no image has arrived for a while
(`closed_at`); a worker without OCR claims those that were given as data (`given_at`).
"""

from dataclasses import asdict, dataclass

from psycopg import sql

from duly.db.queries import load_queries
from duly.lease.operations import LeaseTable
from duly.lease.state_machine import StateMachine

SQL = load_queries(__file__, "lease.sql")
DEFAULT_SCHEMA = "schedule_ingest"
DEFAULT_LEASE_SECONDS = 300  # the default of LEASE_TIMEOUT_SECONDS
# A worker that knows only the contract's columns leaves lease_seconds null: then the value of the next claim counts.
LEASE_EXPIRED_SQL = (
    "old.locked_at < duly.clock()"
    f" - make_interval(secs => coalesce(old.lease_seconds, new.lease_seconds, {DEFAULT_LEASE_SECONDS}))"
)
CHECKED_TIMES = "new.created_at, new.closed_at, new.given_at, new.locked_at"


@dataclass(frozen=True)
class States:
    """The installation's names of the four states."""

    pending: str = "pending"
    processing: str = "processing"
    done: str = "done"
    failed: str = "failed"


def capture_lease_table(
    schema: str = DEFAULT_SCHEMA,
    states: States = States(),  # noqa: B008 (frozen)
    *,
    due: str = "closed_at",
    lease_seconds: float = DEFAULT_LEASE_SECONDS,
) -> LeaseTable:
    """Return the lease table of a schema, due by this column; `lease_seconds` is that of a lease which names none."""
    names = {name: sql.Literal(state) for name, state in asdict(states).items()}
    statements = SQL.using(schema=schema, due=due, default_lease_seconds=sql.Literal(float(lease_seconds)), **names)
    return LeaseTable((schema, "capture_session"), statements)


def capture_machine(schema: str = DEFAULT_SCHEMA) -> StateMachine:
    """Return the state machine of sessions in a schema that our migrations created."""
    return StateMachine(
        name="capture",
        table=(schema, "capture_session"),
        state="state",
        initial=("pending",),
        edges={"pending": ("processing", "failed"), "processing": ("done", "failed")},
        leased_state="processing",
        owner="locked_by",
        immutable=("user_id", "created_at", "given_at", "payload"),
        transition_if="new.closed_at is distinct from old.closed_at",
        actor="case when state = 'processing' then locked_by when state in ('done', 'failed') then settled_by end",
        detail=(
            "jsonb_strip_nulls(jsonb_build_object('closedAt', case when state = 'pending' then closed_at end,"
            " 'starts', nullif(starts, 0), 'error', error, 'result', result))"
        ),
        rules={
            "ck_capture_session__error": "(new.state = 'failed') = (new.error is not null)",
            "ck_capture_session__error_text": "char_length(new.error) between 1 and 4000",
            "ck_capture_session__lease": (
                "num_nonnulls(new.locked_at, new.locked_by) = case when new.state = 'processing' then 2 else 0 end"
            ),
            "ck_capture_session__lease_seconds": (
                "new.lease_seconds is null or (new.state = 'processing' and new.lease_seconds > 0)"
            ),
            "ck_capture_session__owners": (
                "char_length(new.locked_by) between 1 and 300 and char_length(new.settled_by) <= 300"
            ),
            "ck_capture_session__starts": "new.starts >= 0",
            "ck_capture_session__payload": (
                "num_nonnulls(new.payload, new.given_at) in (0, 2)"
                " and (new.payload is null or new.revision > 1 or (jsonb_typeof(new.payload) = 'object'"
                " and octet_length(new.payload::text) <= 2097152))"
            ),
            "ck_capture_session__result": (
                "new.result is null or (new.state = 'done' and jsonb_typeof(new.result) = 'object'"
                " and pg_column_size(new.result) <= 65536)"
            ),
            "ck_capture_session__years_2000_to_2200": (
                f"date_part('epoch', least({CHECKED_TIMES})) >= 946684800"
                f" and date_part('epoch', greatest({CHECKED_TIMES})) < 7258118400"
            ),
        },
        at_transition=(
            "if old.closed_at is not null and new.closed_at is distinct from old.closed_at then",
            "    raise exception 'capture % is closed since %; closed_at cannot change', old.id, old.closed_at",
            "        using errcode = 'DU001';",
            f"elsif old.state = 'processing' and new.state = 'processing' and not ({LEASE_EXPIRED_SQL}) then",
            "    raise exception 'capture % is leased by %', old.id, old.locked_by using errcode = 'DU001';",
            "end if;",
        ),
    )


CAPTURE_MACHINE = capture_machine()
