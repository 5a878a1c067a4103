"""Lease tables and state machines of messages.

Messages are stored in two tables: `duly.outbox`, where every application writes its messages, and the ingest contract's
`schedule_notification`, which is delivered in place. Both are leased in the same way; the second keeps its delivery
state in `delivery`, because the contract allows only pending, sent and failed in `status`.

`called_at` is written, fenced by the owner, just before the transport is called, and a pending message must not have
it. So when a lease expires, the row itself tells what is known: without `called_at` nothing was sent and the message
becomes pending again; with it the outcome is unknown, and the message becomes uncertain. The sender's own sweep decides
this in one statement, row by row, and fails messages that were started too often.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from duly.db.queries import load_queries
from duly.lease.operations import LeaseTable
from duly.lease.state_machine import StateMachine

DEFAULT_INGEST_SCHEMA = "schedule_ingest"
TRANSITIONS = {
    "pending": ("sending", "failed"),
    "sending": ("sent", "pending", "failed", "uncertain"),
    "uncertain": ("sent", "pending", "failed"),
    "failed": ("pending",),
}


SQL = load_queries(__file__, "lease.sql")


@dataclass(frozen=True)
class MessageTable(LeaseTable):
    """A lease table of messages: the outbox, or the notifications of an ingest schema.

    In the outbox a recipient is a uid. In notifications it is a Telegram id, and the schema may belong to a backend
    that delivers them itself.
    """

    names: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)  # for the braces in our SQL
    is_outbox: bool = False

    @property
    def state(self) -> str:
        """The column of the state."""
        return self.names["state"]


def message_table(schema: str, table: str, key: str, key_type: str, state: str) -> MessageTable:
    """Return a lease table of messages, whose key and state have these names."""
    names = {"schema": schema, "table": table, "key": key, "key_type": key_type, "state": state}
    return MessageTable((schema, table), SQL.using(**names), key=key, names=names, is_outbox=table == "outbox")


OUTBOX = message_table("duly", "outbox", key="id", key_type="uuid", state="status")

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


def notification_table(schema: str = DEFAULT_INGEST_SCHEMA) -> MessageTable:
    """Return the table of an ingest schema's notifications."""
    return message_table(schema, "schedule_notification", key="notification_id", key_type="text", state="delivery")


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
