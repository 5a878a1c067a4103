"""The state machine of a job."""

from duly.backoff import MAX_SECONDS
from duly.bounds import (
    MAX_ATTEMPTS,
    MAX_EVENT_DETAIL_BYTES,
    MAX_NAME_LENGTH,
    MAX_PRIORITY,
    MAX_RETAIN_DAYS,
    MAX_SNOOZES,
    MAX_STAGE_LENGTH,
    MIN_PRIORITY,
    MIN_RETAIN_DAYS,
)
from duly.canonical_json import MAX_BYTES
from tools.state_machines.model import Derived, StateMachine, TransitionLog, Verified

MAX_OWNER_LENGTH = 300
START_OF_TIME, END_OF_TIME = 946684800, 7258118400  # 2000 and 2200: a literal would be printed in a zone
NAME = "'^[A-Za-z0-9][A-Za-z0-9_.:/-]*$'"  # checked at the insert only (revision 1): names never change
TIMES = ", ".join(
    f"new.{name}_at"
    for name in ("created", "updated", "started", "finished", "run", "lease_expires", "cancel_requested", "progressed")
)

JOB_EVENT = TransitionLog(
    table="ledger.job_event",
    columns={  # SQL; `render.py` fills in {key}, {state} and {detail} of the table that is logged
        "id": "ledger.event_id({key}, revision)",  # so that the primary key rejects a second event with the same number
        "job_id": "{key}",
        "org_id": "org_id",
        "seq": "revision",
        "ts": "duly.clock()",
        "prev_status": "transition_from",
        "next_status": "{state}::text",
        "detail_json": "{detail}",
    },
    # The foreign key check is planned once per session, perhaps while there are few jobs, and its plan is kept.
    settings={"enable_seqscan": "off", "jit": "off"},
)

JOB_MACHINE = StateMachine(
    name="job",
    table=("ledger", "job"),
    state="status",
    initial=("queued",),
    edges={
        "queued": ("running", "canceled"),
        "running": ("succeeded", "failed", "canceled", "queued"),
        "failed": ("queued", "dead_letter"),
        "dead_letter": ("queued",),
    },
    leased_state="running",
    owner="lease_owner",
    transition_if=(  # these changes count as a transition although the status stays
        "new.progressed_at is distinct from old.progressed_at"
        " or (old.cancel_requested_at is null and new.cancel_requested_at is not null)"
        " or new.idempotency_key is distinct from old.idempotency_key"
    ),
    detail=(
        "case when event_detail is null and status = 'running'"
        " then jsonb_build_object('actor', lease_owner, 'start', starts)"
        " when transition_from = 'running' and status <> 'running' and num_nonnulls(stage, progress) > 0"
        " then coalesce(event_detail, jsonb_build_object())"
        " || jsonb_strip_nulls(jsonb_build_object('stage', stage, 'progress', progress))"
        " else event_detail end"
    ),
    log=JOB_EVENT,
    rules={
        "ck_job__type": f"new.revision > 1 or new.type ~ {NAME}",
        "ck_job__queue": f"new.revision > 1 or (char_length(new.queue) <= {MAX_NAME_LENGTH} and new.queue ~ {NAME})",
        "ck_job__attempt": "new.attempt = greatest(new.starts - 1, 0)",
        "ck_job__max_attempts": f"new.max_attempts between 1 and {MAX_ATTEMPTS}",
        "ck_job__starts": (
            "new.starts between 0 and new.max_attempts - case when new.status = 'queued' then 1 else 0 end"
        ),
        "ck_job__snoozes": f"new.snoozes between 0 and {MAX_SNOOZES}",
        "ck_job__priority": f"new.priority between {MIN_PRIORITY} and {MAX_PRIORITY}",
        "ck_job__idempotency_key": "new.idempotency_key <> ''",
        "ck_job__request_digest": (
            "case when new.idempotency_key is null then new.request_digest is null"
            " else octet_length(new.request_digest) = 32 end"
        ),
        "ck_job__payload": f"jsonb_typeof(new.payload) = 'object' and pg_column_size(new.payload) <= {MAX_BYTES}",
        "ck_job__result": f"pg_column_size(new.result) <= {MAX_BYTES}",
        "ck_job__timeout_seconds": f"new.timeout_seconds > 0 and new.timeout_seconds <= {MAX_SECONDS:.0f}",
        "ck_job__backoff": (
            "new.backoff_base_seconds >= 0 and new.backoff_base_seconds <= new.backoff_cap_seconds"
            f" and new.backoff_cap_seconds <= {MAX_SECONDS:.0f}"
        ),
        "ck_job__lease": (
            "case new.status when 'running' then new.lease_owner is not null and new.lease_expires_at is not null"
            " when 'failed' then new.lease_owner is not null and new.lease_expires_at is null"
            " else new.lease_owner is null and new.lease_expires_at is null end"
        ),
        "ck_job__owners": (
            f"char_length(new.lease_owner) between 1 and {MAX_OWNER_LENGTH}"
            f" and char_length(new.settled_by) <= {MAX_OWNER_LENGTH}"
        ),
        "ck_job__last_error": (
            "new.last_error_code ~ '^[A-Z][A-Z0-9_]*$'"
            " and (new.status not in ('failed', 'dead_letter') or new.last_error_code is not null)"
        ),
        "ck_job__progress": (
            f"new.progress between 0 and 100 and char_length(new.stage) between 1 and {MAX_STAGE_LENGTH}"
        ),
        "ck_job__retain_for": (
            f"new.retain_for between interval '{MIN_RETAIN_DAYS} days' and interval '{MAX_RETAIN_DAYS} days'"
        ),
        "ck_job__retain_until": "(new.finished_at is null) = (new.retain_until is null)",
        "ck_job__event_detail": (
            "jsonb_typeof(new.event_detail) = 'object'"
            f" and pg_column_size(new.event_detail) <= {MAX_EVENT_DETAIL_BYTES}"
        ),
        "ck_job__years_2000_to_2200": (
            f"date_part('epoch', least({TIMES})) >= {START_OF_TIME}"
            f" and date_part('epoch', greatest({TIMES})) < {END_OF_TIME}"
        ),
    },
    at_other_update=(
        "new.event_detail := null;",
        "new.updated_at := duly.clock();",
    ),
    at_transition=(
        "if new.idempotency_key is distinct from old.idempotency_key",
        "    and (new.idempotency_key is not null or new.status <> 'canceled')",
        "then",
        "    raise exception 'the idempotency key of job % can change only by its release, once the job is canceled',",
        "        old.id using errcode = 'DU001';",
        "end if;",
    ),
    derived={
        "event_detail": Derived(
            "case when new.event_detail is distinct from old.event_detail"
            " or new.progressed_at is distinct from old.progressed_at then new.event_detail end",
            check="new.event_detail is null",
        ),
        # By the real clock, which costs no call of a function: when a test has moved ours, the guard is called.
        "updated_at": Derived(
            "duly.clock()", check="new.updated_at between statement_timestamp() and clock_timestamp()"
        ),
        "attempt": Derived("greatest(new.starts - 1, 0)"),
        "started_at": Derived(
            "case when new.status = 'running' then coalesce(old.started_at, new.updated_at) else old.started_at end"
        ),
        "finished_at": Derived(
            "case when new.status in ('succeeded', 'canceled', 'dead_letter')"
            " then coalesce(old.finished_at, new.updated_at) end"
        ),
        "retain_until": Derived("new.finished_at + new.retain_for"),
    },
    verified=Verified(
        insert_if=(f"char_length(new.queue) <= {MAX_NAME_LENGTH}",),  # an index would refuse a much longer one first
        edges={
            ("queued", "running"): (
                f"char_length(new.lease_owner) between 1 and {MAX_OWNER_LENGTH}",
                f"new.lease_expires_at >= new.updated_at and date_part('epoch', new.lease_expires_at) < {END_OF_TIME}",
            ),
            ("running", "succeeded"): ("num_nonnulls(new.lease_owner, new.lease_expires_at) = 0",),
        },
        update_if=(
            "new.starts between 0 and new.max_attempts",
            f"coalesce(char_length(new.settled_by), 0) <= {MAX_OWNER_LENGTH}",
            f"coalesce(pg_column_size(new.result), 0) <= {MAX_BYTES}",
            "(new.last_error_code is null or new.last_error_code = old.last_error_code)",
            "(new.stage is null or new.stage = old.stage)",
            "(new.progress is null or new.progress = old.progress)",
        ),
        guarded_columns=(
            *("id", "org_id", "type", "queue", "priority", "payload", "idempotency_key", "request_digest"),
            *("max_attempts", "backoff_policy", "backoff_base_seconds", "backoff_cap_seconds", "timeout_seconds"),
            *("retain_for", "requested_by", "created_at", "run_at", "snoozes", "cancel_requested_at", "progressed_at"),
        ),
    ),
)
