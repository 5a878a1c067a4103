"""The registry of workers as SQLAlchemy sees it: for drift checks only."""

from sqlalchemy import ARRAY, BigInteger, Column, DateTime, Index, PrimaryKeyConstraint, Table, Text, Uuid, text
from sqlalchemy.dialects.postgresql import JSONB

from duly.db.metadata import metadata

NOW = text("duly.clock()")

workers = Table(
    "workers",
    metadata,
    Column("id", Uuid, nullable=False),
    Column("worker_id", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("version", Text, nullable=False),
    Column("kinds", ARRAY(Text), nullable=False),
    Column("slots", JSONB, nullable=False, comment="How many rows of each kind of work it takes at once."),
    Column("started_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    Column("seen_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    Column(
        "stopping_at",
        DateTime(timezone=True),
        comment="From then on it takes nothing new, and only finishes what it has.",
    ),
    Column("stopped_at", DateTime(timezone=True)),
    PrimaryKeyConstraint("id"),
    Index(None, "started_at"),
    comment="Worker processes, living and lately gone: for people and `explain`; no decision rests on it.",
    schema="duly",
)
