"""How a job is held, and how it may move.

A failure is two moves in one transaction: running to failed, which keeps the owner, and then, fenced by that owner, to
queued or to dead_letter. So `failed` is never at rest, and a row found there is somebody's unfinished business.

`said` is what the statement that moves a row wants its event to say: who, why, which error. The guard lets a word stand
for one move only: where nothing moved, or the move brought no word of its own, it is emptied.
"""

from duly.kernel.lease import LeaseTable
from duly.kernel.machine import Log, Machine

__all__ = ["JOB", "JOB_EVENT", "JOB_MACHINE"]

JOB = LeaseTable(
    table=("ledger", "job"),
    state="status",
    ready="queued",
    held="running",
    owner="lease_owner",
    until="lease_expires_at",
    due="run_at",
    lapsed="returned",
    cancel="cancel_requested_at",
)

JOB_EVENT = Log(
    table="ledger.job_event",
    columns={
        "id": "ledger.new_id()",
        "job_id": "{key}",
        "org_id": "org_id",
        "seq": "revision",
        "prev_status": "moved_from",
        "next_status": "{state}::text",
        "detail_json": "{detail}",
    },
)

JOB_MACHINE = Machine(
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
    held="running",
    owner="lease_owner",
    moved=(
        "new.progressed_at is distinct from old.progressed_at"
        " or (old.cancel_requested_at is null and new.cancel_requested_at is not null)"
    ),
    detail=(
        "case when said is null and status = 'running'"
        " then jsonb_build_object('actor', lease_owner, 'start', starts) else said end"
    ),
    log=JOB_EVENT,
    at_stay=(
        "new.said := null;",
        "new.updated_at := duly.clock();",
    ),
    at_move=(
        "if new.said is not distinct from old.said then",
        "    new.said := null;",
        "end if;",
        "new.updated_at := duly.clock();",
        "new.attempt := greatest(new.starts - 1, 0);",
        "new.started_at := case when new.status = 'running' then coalesce(old.started_at, new.updated_at)"
        " else old.started_at end;",
        "if new.status in ('succeeded', 'canceled', 'dead_letter') then",
        "    new.finished_at := new.updated_at;",
        "    new.retain_until := new.updated_at + new.retain_for;",
        "else",
        "    new.finished_at := null;",
        "    new.retain_until := null;",
        "end if;",
    ),
)
