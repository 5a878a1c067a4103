"""The state machines of schedules and their runs; `duly/apps/scheduler/states.py` draws them."""

from tools.state_machines.model import StateMachine

SCHEDULE_MACHINE = StateMachine(
    name="schedule",
    table=("scheduler", "jobs"),
    state="status",
    initial=("active", "paused"),
    edges={"active": ("paused", "archived"), "paused": ("active", "archived")},
    immutable=("user_id", "created_at", "idempotency_key", "request_digest"),
    transition_if="(new.rule, new.first_run_at) is distinct from (old.rule, old.first_run_at)",
    detail="jsonb_build_object('rule', rule)",
)

RUN_MACHINE = StateMachine(
    name="run",
    table=("scheduler", "job_runs"),
    state="status",
    initial=("pending",),
    edges={
        "pending": ("sent", "confirmed", "skipped", "cancelled"),
        "sent": ("confirmed", "skipped", "snoozed", "cancelled"),
        "snoozed": ("sent", "confirmed", "skipped", "cancelled"),
    },
    immutable=("job_id", "period_key", "scheduled_at", "created_at"),
    detail=(
        "jsonb_strip_nulls(jsonb_build_object('job_id', job_id, 'period_key', period_key, 'remind_at', remind_at,"
        " 'reason', reason))"
    ),
    at_insert=("new.sent_at := null;",),
    at_other_update=(
        "if new.status not in ('pending', 'sent', 'snoozed') and new.remind_at is not null then",
        "    raise exception 'run % is % and gets no reminder', old.id, old.status using errcode = 'DU001';",
        "end if;",
        "new.sent_at := old.sent_at;",
    ),
    at_transition=(
        "new.sent_at := case when new.status = 'sent' then coalesce(old.sent_at, duly.clock()) else old.sent_at end;",
        "new.remind_at := case when new.status = 'snoozed' then new.remind_at end;",
    ),
)
