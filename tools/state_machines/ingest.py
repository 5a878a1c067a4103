"""The state machine of capture sessions in a schema that our migrations created."""

from duly.apps.ingest.states import DEFAULT_LEASE_SECONDS, DEFAULT_SCHEMA
from tools.state_machines.model import StateMachine

# A worker that knows only the contract's columns leaves lease_seconds null: then the value of the next claim counts.
LEASE_EXPIRED_SQL = (
    "old.locked_at < duly.clock()"
    f" - make_interval(secs => coalesce(old.lease_seconds, new.lease_seconds, {DEFAULT_LEASE_SECONDS}))"
)
CHECKED_TIMES = "new.created_at, new.closed_at, new.given_at, new.locked_at"


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
