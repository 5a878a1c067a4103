"""The log of transitions and the keys of signed links as SQLAlchemy metadata, for drift checks only."""

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Identity,
    Index,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from duly.db.metadata import metadata

transition = Table(
    "transition",
    metadata,
    Column("machine", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("ts", DateTime(timezone=True), nullable=False, server_default=text("duly.clock()")),
    Column("prev_status", Text),
    Column("next_status", Text, nullable=False),
    Column("actor", Text),
    Column("detail_json", JSONB),
    PrimaryKeyConstraint("machine", "key", "seq"),
    Index(None, "ts"),
    comment="One row per transition of posts, captures and runs, in order, written by their triggers.",
    schema="duly",
)

link_keys = Table(
    "link_keys",
    metadata,
    Column("id", BigInteger, Identity(always=True), nullable=False),
    Column(
        "secret",
        LargeBinary,
        nullable=False,
        server_default=text("sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))"),
    ),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("duly.clock()")),
    PrimaryKeyConstraint("id"),
    comment="What signs the links in messages: the newest signs, every one that is here is honoured.",
    schema="duly",
)
