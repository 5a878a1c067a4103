"""The posts schema as SQLAlchemy metadata, for drift checks only."""

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from duly.db.metadata import metadata

NOW = text("duly.clock()")
TIME = DateTime(timezone=True)

posts = Table(
    "posts",
    metadata,
    Column("id", Uuid, nullable=False, server_default=text("duly.new_id()")),
    Column("author_id", Text, nullable=False),
    Column("status", Text, nullable=False, server_default="PENDING"),
    Column("release_time", TIME),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("updated_at", TIME, nullable=False, server_default=NOW),
    Column("daily_key", Text),
    Column(
        "version",
        BigInteger,
        nullable=False,
        server_default="1",
        comment="Counts every change of the row, 1, 2, 3; written by the guard.",
    ),
    Column("request_id", Uuid),
    Column("lease_owner", Text),
    Column("lease_expires_at", TIME),
    Column(
        "process_attempts",
        BigInteger,
        nullable=False,
        server_default="0",
        comment="Claims that count; a hand-back gives its own back.",
    ),
    Column("ai", JSONB),
    Column("ai_error", Text, comment="Why there is a fallback, where there is one."),
    Column("caption", Text, nullable=False, server_default=""),
    Column("image_url", Text, comment="The name of the image where images are kept."),
    Column(
        "processing_since",
        TIME,
        comment="When it was taken; a lease ends ten minutes later however often renewed.",
    ),
    Column("released_at", TIME, comment="When it appeared; the lag is this less release_time."),
    Column("legacy", JSONB, comment="The document of the first version that it was imported from, as it was."),
    Column("settled_by", Text),
    Column("revision", BigInteger, nullable=False, server_default="0"),
    Column("moved_from", Text),
    PrimaryKeyConstraint("id"),
    ForeignKeyConstraint(["author_id"], ["user.users.uid"], ondelete="RESTRICT"),
    Index(None, "release_time", "id", postgresql_where=text("status = 'PENDING'")),
    Index(None, "id", postgresql_where=text("status = 'PROCESSING'")),
    Index(
        "idx_posts__created_at_id",
        text("created_at desc"),
        text("id desc"),
        postgresql_where=text("status = 'RELEASED'"),
    ),
    Index("idx_posts__author_id_created_at_id", "author_id", text("created_at desc"), text("id desc")),
    Index(None, "released_at", postgresql_where=text("released_at IS NOT NULL")),
    comment="A post: whose, what of it, when it appears, who prepares it, and how it was read.",
    schema="posts",
)

daily_locks = Table(
    "daily_locks",
    metadata,
    Column("id", Text, nullable=False),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("post_id", Uuid, nullable=False),
    PrimaryKeyConstraint("id"),
    ForeignKeyConstraint(["post_id"], ["posts.posts.id"], deferrable=True, initially="DEFERRED"),
    Index(None, "post_id"),
    comment="Who has posted on which UTC day; the row is there before the post is.",
    schema="posts",
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("author_id", Text, nullable=False),
    Column("request_id", Uuid, nullable=False),
    Column("request_digest", LargeBinary, nullable=False),
    Column("post_id", Uuid, nullable=False),
    Column("answer", JSONB, nullable=False),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("expires_at", TIME, nullable=False),
    PrimaryKeyConstraint("author_id", "request_id"),
    ForeignKeyConstraint(["post_id"], ["posts.posts.id"], deferrable=True, initially="DEFERRED"),
    Index(None, "expires_at"),
    Index(None, "post_id"),
    comment="What a request was answered, for whoever asks again because the answer was lost.",
    schema="posts",
)

uploads = Table(
    "uploads",
    metadata,
    Column("name", Text, nullable=False),
    Column("author_id", Text, nullable=False),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    PrimaryKeyConstraint("name"),
    ForeignKeyConstraint(["author_id"], ["user.users.uid"], ondelete="RESTRICT"),
    Index(None, "created_at"),
    Index(None, "author_id"),
    comment=(
        "Whose an uploaded image is; the row is there before the image and leaves with it, so that no image is left "
        "behind."
    ),
    schema="posts",
)

intent_minutes = Table(
    "intent_minutes",
    metadata,
    Column("minute", TIME, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("intents", BigInteger, nullable=False),
    PrimaryKeyConstraint("minute", "outcome"),
    comment=(
        "How many requests for a post came in each minute and how they ended, refusals and failures of ours included."
    ),
    schema="posts",
)

objectives = Table(
    "objectives",
    metadata,
    Column("name", Text, nullable=False),
    Column("looked_at", TIME, nullable=False, server_default="-infinity"),
    Column("breached_at", TIME, comment="Since when it is broken; null while it is kept."),
    Column("breaches", BigInteger, nullable=False, server_default="0", comment="How often it was broken so far."),
    PrimaryKeyConstraint("name"),
    comment="One row a promise: whoever holds it looks how it stands; "
    "a breach begins here, once, and is told under its number.",
    schema="posts",
)
