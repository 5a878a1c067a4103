"""How a message is held, and how it may move.

Messages lie in two tables: `duly.outbox`, where every domain writes what it has to say, and the ingest contract's
`schedule_notification`, which is delivered in place. They are held alike; the second keeps what became of a message in
`delivery`, because the contract knows only pending, sent and failed, and says so in `status`.

`called_at` is written, fenced by the owner, just before the transport is called, and a message that waits must not have
it. So when a lease lapses, the row itself says what is known: without `called_at` nothing left the house and it may
wait again; with it nobody can know, and the message is uncertain. The sender's own sweep decides so in one statement,
row by row, and sets aside what was started too often. The kernel's sweep knows nothing of calls: it would be refused by
that constraint, and so never sends anything twice.
"""

from duly.lease.operations import LeaseTable
from duly.lease.state_machine import Machine

__all__ = ["NOTIFICATION_MACHINE", "OUTBOX", "OUTBOX_MACHINE", "notification", "notification_machine"]

INGEST = "schedule_ingest"
EDGES = {
    "pending": ("sending", "failed"),
    "sending": ("sent", "pending", "failed", "uncertain"),
    "uncertain": ("sent", "pending", "failed"),
    "failed": ("pending",),
}

OUTBOX = LeaseTable(
    qualified_name=("duly", "outbox"),
    state="status",
    ready="pending",
    held="sending",
    owner="lease_owner",
    until="lease_expires_at",
    due="due_at",
    expired="returned",
)

OUTBOX_MACHINE = Machine(
    name="outbox",
    table=("duly", "outbox"),
    state="status",
    initial=("pending",),
    edges=EDGES,
    held="sending",
    owner="lease_owner",
    actor="case when status = 'sending' then lease_owner when moved_from = 'sending' then settled_by end",
    detail=(
        "jsonb_strip_nulls(jsonb_build_object('starts', starts, 'called_at', called_at,"
        " 'error', case when status in ('pending', 'failed', 'uncertain') then last_error end))"
    ),
)


def notification(schema: str = INGEST) -> LeaseTable:
    """The messages of an ingest schema."""
    return LeaseTable(
        qualified_name=(schema, "schedule_notification"),
        state="delivery",
        ready="pending",
        held="sending",
        owner="lease_owner",
        until="lease_expires_at",
        due="due_at",
        expired="returned",
        key="notification_id",
        key_type="text",
    )


def notification_machine(schema: str = INGEST) -> Machine:
    """The moves of a message of an ingest schema. A program of somebody else's may send it and say so in `status`."""
    return Machine(
        name="notification",
        table=(schema, "schedule_notification"),
        state="delivery",
        key="notification_id",
        initial=("pending",),
        edges=EDGES | {"pending": ("sending", "sent", "failed"), "failed": ("pending", "sent")},
        held="sending",
        owner="lease_owner",
        fixed=("user_id", "schedule_date", "source_session_id", "notification_type", "message", "event_ids"),
        actor="case when delivery = 'sending' then lease_owner when moved_from = 'sending' then settled_by end",
        detail=(
            "jsonb_strip_nulls(jsonb_build_object('starts', starts, 'called_at', called_at,"
            " 'error', case when delivery in ('pending', 'failed', 'uncertain') then last_error end))"
        ),
        rules={
            "ck_schedule_notification__delivery": (
                "new.delivery in ('pending', 'sending', 'sent', 'failed', 'uncertain')"
            ),
            "ck_schedule_notification__lease": (
                "num_nonnulls(new.lease_owner, new.lease_expires_at)"
                " = case when new.delivery = 'sending' then 2 else 0 end"
            ),
            "ck_schedule_notification__called_at": (
                "case new.delivery when 'pending' then new.called_at is null"
                " when 'uncertain' then new.called_at is not null else true end"
            ),
            "ck_schedule_notification__last_error": "char_length(new.last_error) between 1 and 2048",
            "ck_schedule_notification__receipt": "char_length(new.receipt) <= 2048",
            "ck_schedule_notification__owners": (
                "char_length(new.lease_owner) between 1 and 300 and char_length(new.settled_by) <= 300"
            ),
        },
        at_move=(
            "new.status := case when new.delivery in ('sent', 'failed') then new.delivery else 'pending' end;",
            "if new.delivery <> 'sent' then",
            "    new.sent_at := null;",
            "elsif old.delivery = 'uncertain' and old.called_at is not null then",
            "    new.sent_at := old.called_at;",
            "elsif new.sent_at is null then",  # a statement of its own: who writes sent_at needs no right to our clock
            "    new.sent_at := duly.clock();",
            "end if;",
        ),
    )


NOTIFICATION_MACHINE = notification_machine()
