"""The state machines of schedules and their runs, and the lease on the plan of a schedule.

    active <---> paused             a schedule; archived is final
        \\          \\
         +----------+---> archived

    pending ---> sent <---> snoozed         a run; each of the three may become confirmed, skipped or cancelled,
        \\        |          /               which are final
         +-------+---------+---> confirmed, skipped, cancelled

A worker creates the runs of a schedule ahead of their time while it holds the lease on the schedule's plan. Changing a
schedule ends that lease, so that runs of a former rule are never written.
"""

from duly.db.queries import load_queries
from duly.lease.operations import LeaseTable
from duly.lease.state_machine import StateMachine

SQL = load_queries(__file__, "lease.sql")
PLAN = LeaseTable(("scheduler", "job_plans"), SQL, key="job_id")

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
