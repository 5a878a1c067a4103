"""The state machines of messages: of the outbox, and of an ingest schema's notifications."""

from duly.outbox.states import DEFAULT_INGEST_SCHEMA
from tools.state_machines.model import StateMachine

TRANSITIONS = {
    "pending": ("sending", "failed"),
    "sending": ("sent", "pending", "failed", "uncertain"),
    "uncertain": ("sent", "pending", "failed"),
    "failed": ("pending",),
}

OUTBOX_MACHINE = StateMachine(
    name="outbox",
    table=("duly", "outbox"),
    state="status",
    initial=("pending",),
    edges=TRANSITIONS,
    leased_state="sending",
    owner="lease_owner",
    actor="case when status = 'sending' then lease_owner when transition_from = 'sending' then settled_by end",
    detail=(
        "jsonb_strip_nulls(jsonb_build_object('starts', starts, 'called_at', called_at,"
        " 'error', case when status in ('pending', 'failed', 'uncertain') then last_error end))"
    ),
)


def notification_machine(schema: str = DEFAULT_INGEST_SCHEMA) -> StateMachine:
    """Return the state machine of an ingest schema's notifications; another program may send them and set `status`."""
    return StateMachine(
        name="notification",
        table=(schema, "schedule_notification"),
        state="delivery",
        key="notification_id",
        initial=("pending",),
        edges=TRANSITIONS | {"pending": ("sending", "sent", "failed"), "failed": ("pending", "sent")},
        leased_state="sending",
        owner="lease_owner",
        immutable=("user_id", "schedule_date", "source_session_id", "notification_type", "message", "event_ids"),
        actor="case when delivery = 'sending' then lease_owner when transition_from = 'sending' then settled_by end",
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
        at_transition=(
            "new.status := case when new.delivery in ('sent', 'failed') then new.delivery else 'pending' end;",
            "if new.delivery <> 'sent' then",
            "    new.sent_at := null;",
            "elsif old.delivery = 'uncertain' and old.called_at is not null then",
            "    new.sent_at := old.called_at;",
            "elsif new.sent_at is null then",  # a program that writes sent_at needs no right on duly.clock
            "    new.sent_at := duly.clock();",
            "end if;",
        ),
    )


NOTIFICATION_MACHINE = notification_machine()
