"""Lease tables of messages.

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

DEFAULT_INGEST_SCHEMA = "schedule_ingest"
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


def notification_table(schema: str = DEFAULT_INGEST_SCHEMA) -> MessageTable:
    """Return the table of an ingest schema's notifications."""
    return message_table(schema, "schedule_notification", key="notification_id", key_type="text", state="delivery")
