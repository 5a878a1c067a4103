"""The outbox as SQLAlchemy metadata, for drift checks only."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Identity,
    Index,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from duly.db.metadata import metadata

NOW = text("duly.clock()")

outbox = Table(
    "outbox",
    metadata,
    Column(
        "id",
        Uuid,
        nullable=False,
        server_default=text("gen_random_uuid()"),
        comment="The name of the message for every transport, at every try.",
    ),
    Column("channel", Text, nullable=False),
    Column("recipient", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("payload", JSONB, nullable=False),
    Column(
        "dedupe_key",
        Text,
        comment="A transaction that is tried again writes one message; free again once retention took it.",
    ),
    Column("status", Text, nullable=False, server_default="pending"),
    Column("due_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    Column(
        "called_at",
        DateTime(timezone=True),
        comment="Written just before the transport is called: a lease that lapses later leaves the outcome uncertain.",
    ),
    Column("sent_at", DateTime(timezone=True)),
    Column("starts", BigInteger, nullable=False, server_default="0"),
    Column("last_error", Text),
    Column("receipt", Text, comment="What the transport called it."),
    Column("lease_owner", Text),
    Column("lease_expires_at", DateTime(timezone=True)),
    Column("settled_by", Text),
    Column("revision", BigInteger, nullable=False, server_default="0"),
    Column("moved_from", Text),
    Column(
        "seq",
        BigInteger,
        Identity(always=True),
        nullable=False,
        comment="The order in which messages were written: one recipient gets them in this order.",
    ),
    Column(
        "is_in_line",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="It was due, and waits behind an earlier message to the same recipient.",
    ),
    PrimaryKeyConstraint("id"),
    UniqueConstraint("dedupe_key"),
    Index(None, "channel", "due_at", "id", postgresql_where=text("status = 'pending'")),
    Index(None, "channel", "recipient", "seq", postgresql_where=text("status IN ('pending', 'sending')")),
    Index(None, "seq"),
    Index("idx_outbox__seq_failed", "seq", postgresql_where=text("status = 'failed'")),
    Index("idx_outbox__seq_uncertain", "seq", postgresql_where=text("status = 'uncertain'")),
    Index(None, "id", postgresql_where=text("status = 'sending'")),
    comment="What is to be said to somebody outside: written with what it tells of, sent by whoever leases it.",
    schema="duly",
)
