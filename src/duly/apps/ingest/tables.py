"""The ingest tables as SQLAlchemy metadata, for drift checks only."""

from typing import cast

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Computed,
    Date,
    DateTime,
    Double,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ENUM, JSONB
from sqlalchemy.types import TypeEngine

from duly.db.metadata import metadata

SCHEMA = "schedule_ingest"
NOW = text("duly.clock()")
NEW_ID = text("duly.new_id()")
TIME = DateTime(timezone=True)


def session_reference(column: str) -> ForeignKeyConstraint:
    """Return the foreign key to the session that wrote a row."""
    return ForeignKeyConstraint([column], [f"{SCHEMA}.capture_session.id"], ondelete="RESTRICT")


STATE = cast(
    "TypeEngine[str]",
    ENUM("pending", "processing", "done", "failed", name="capture_session_state", schema=SCHEMA, create_type=False),
)

capture_session = Table(
    "capture_session",
    metadata,
    Column("id", Uuid, nullable=False, server_default=NEW_ID),
    Column("user_id", BigInteger, nullable=False, comment="The person's Telegram id."),
    Column("state", STATE, nullable=False, server_default="pending"),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("error", Text),
    Column("locked_at", TIME),
    Column("locked_by", Text),
    Column("closed_at", TIME, comment="When it was complete: no image comes after that."),
    Column("given_at", TIME, comment="When that was given."),
    Column("payload", JSONB, comment="What it shows, where it was given as data and needs no reading."),
    Column("result", JSONB, comment="What came of it: changed or not, from which input, which version."),
    Column(
        "lease_seconds",
        Double,
        comment="How long its holder may be silent; a holder that writes none has LEASE_TIMEOUT_SECONDS.",
    ),
    Column(
        "starts",
        BigInteger,
        nullable=False,
        server_default="0",
        comment="Claims that count; a hand-back gives its own back.",
    ),
    Column("settled_by", Text),
    Column("revision", BigInteger, nullable=False, server_default="0"),
    Column("moved_from", Text),
    PrimaryKeyConstraint("id"),
    Index(None, "created_at", "id", postgresql_where=text("state = 'pending'")),
    Index(None, "closed_at", "id", postgresql_where=text("state = 'pending'")),
    Index(None, "given_at", "id", postgresql_where=text("state = 'pending' and given_at is not null")),
    Index(None, "id", postgresql_where=text("state = 'processing'")),
    Index("idx_capture_session__user_id_created_at_id", "user_id", text("created_at desc"), text("id desc")),
    comment="A capture of one day: whose, where it is, who holds it, and what came of it.",
    schema=SCHEMA,
)

capture_image = Table(
    "capture_image",
    metadata,
    Column("id", Uuid, nullable=False, server_default=NEW_ID),
    Column("session_id", Uuid, nullable=False),
    Column("sequence", Integer, nullable=False),
    Column("r2_key", Text, nullable=False),
    Column("telegram_message_id", BigInteger),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    PrimaryKeyConstraint("id"),
    UniqueConstraint("r2_key"),
    UniqueConstraint("session_id", "sequence"),
    session_reference("session_id"),
    Index(
        "uq_capture_image__session_id_telegram_message_id",
        "session_id",
        "telegram_message_id",
        unique=True,
        postgresql_where=text("telegram_message_id is not null"),
    ),
    comment="A photograph of a session; the image itself lies in the store under r2_key.",
    schema=SCHEMA,
)

day_schedule = Table(
    "day_schedule",
    metadata,
    Column("user_id", BigInteger, nullable=False, autoincrement=False),
    Column("schedule_date", Date, nullable=False),
    Column("current_version", Integer, nullable=False),
    PrimaryKeyConstraint("user_id", "schedule_date"),
    comment="The version that a person's day has; written by the trigger of the versions alone.",
    schema=SCHEMA,
)

schedule_version = Table(
    "schedule_version",
    metadata,
    Column("user_id", BigInteger, nullable=False, autoincrement=False),
    Column("schedule_date", Date, nullable=False),
    Column("version", Integer, nullable=False, autoincrement=False),
    Column("session_id", Uuid, nullable=False),
    Column("payload", JSONB, nullable=False),
    Column("payload_hash", Text, nullable=False),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column(
        "canonicalizer",
        Integer,
        comment="Which canonicaliser gave it this form; unknown when another program did.",
    ),
    PrimaryKeyConstraint("user_id", "schedule_date", "version"),
    UniqueConstraint("session_id"),
    session_reference("session_id"),
    comment="A person's day as it was, in canonical form: 1, 2, 3, without a gap and for ever.",
    schema=SCHEMA,
)

day_snapshot = Table(
    "day_snapshot",
    metadata,
    Column("user_id", BigInteger, nullable=False, autoincrement=False),
    Column("schedule_date", Date, nullable=False),
    Column("snapshot_payload", JSONB, nullable=False),
    Column("source_session_id", Uuid, nullable=False),
    Column("updated_at", TIME, nullable=False, server_default=NOW),
    Column("canonicalizer", Integer),
    Column("events", BigInteger, nullable=False, server_default="0", comment="How many events led here."),
    PrimaryKeyConstraint("user_id", "schedule_date"),
    session_reference("source_session_id"),
    comment="A person's day as it is known now: canonical shifts, the baseline of the next diff.",
    schema=SCHEMA,
)

schedule_event = Table(
    "schedule_event",
    metadata,
    Column("event_id", Uuid, nullable=False),
    Column("user_id", BigInteger, nullable=False),
    Column("schedule_date", Date, nullable=False),
    Column("event_type", Text, nullable=False),
    Column("location_fingerprint", Text, nullable=False),
    Column("customer_fingerprint", Text, nullable=False),
    Column("old_value_hash", Text, nullable=False),
    Column("new_value_hash", Text, nullable=False),
    Column("old_value", JSONB),
    Column("new_value", JSONB),
    Column("detected_at", TIME, nullable=False, server_default=NOW),
    Column("source_session_id", Uuid, nullable=False),
    Column("seq", BigInteger, comment="Its place among the events of its day: 1, 2, 3."),
    PrimaryKeyConstraint("event_id"),
    UniqueConstraint(
        "user_id",
        "schedule_date",
        "location_fingerprint",
        "event_type",
        "old_value_hash",
        "new_value_hash",
        "source_session_id",
        name="uq_schedule_event__dedupe",
    ),
    UniqueConstraint("user_id", "schedule_date", "seq"),
    session_reference("source_session_id"),
    comment="What changed in a day, shift by shift: replayed from the first they rebuild the snapshot.",
    schema=SCHEMA,
)

schedule_notification = Table(
    "schedule_notification",
    metadata,
    Column("notification_id", Text, nullable=False),
    Column("user_id", BigInteger, nullable=False),
    Column("schedule_date", Date, nullable=False),
    Column("source_session_id", Uuid, nullable=False),
    Column("status", Text, nullable=False, server_default="pending"),
    Column("notification_type", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("event_ids", JSONB, nullable=False),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("sent_at", TIME),
    Column("channel", Text, nullable=False, server_default="telegram"),
    Column("recipient", Text, Computed("(user_id)::text", persisted=True), nullable=False),
    Column("kind", Text, Computed("'schedule.'::text || notification_type", persisted=True), nullable=False),
    Column(
        "delivery",
        Text,
        nullable=False,
        server_default="pending",
        comment="What became of it, in full; the contract's status says pending, sent or failed.",
    ),
    Column("due_at", TIME, nullable=False, server_default=NOW),
    Column("called_at", TIME),
    Column("starts", BigInteger, nullable=False, server_default="0"),
    Column("last_error", Text),
    Column("receipt", Text),
    Column("lease_owner", Text),
    Column("lease_expires_at", TIME),
    Column("settled_by", Text),
    Column("seq", BigInteger, Identity(always=True), nullable=False),
    Column("is_in_line", Boolean, nullable=False, server_default=text("false")),
    Column("revision", BigInteger, nullable=False, server_default="0"),
    Column("moved_from", Text),
    PrimaryKeyConstraint("notification_id"),
    session_reference("source_session_id"),
    Index(None, "created_at", "notification_id", postgresql_where=text("status = 'pending'")),
    Index(
        "idx_schedule_notification__channel_due_at",
        "channel",
        "due_at",
        "notification_id",
        postgresql_where=text("delivery = 'pending'"),
    ),
    Index(None, "channel", "recipient", "seq", postgresql_where=text("delivery IN ('pending', 'sending')")),
    Index(None, "notification_id", postgresql_where=text("delivery = 'sending'")),
    Index(None, "seq", postgresql_where=text("delivery = 'uncertain'")),
    Index(
        "idx_schedule_notification__user_id_schedule_date",
        "user_id",
        "schedule_date",
        "created_at",
        "notification_id",
    ),
    comment="Messages about a day, waiting for delivery in the order of created_at.",
    schema=SCHEMA,
)
