"""The log of transitions as SQLAlchemy sees it: for drift checks only."""

from sqlalchemy import BigInteger, Column, DateTime, Index, PrimaryKeyConstraint, Table, Text, text
from sqlalchemy.dialects.postgresql import JSONB

from duly.db.metadata import metadata

__all__ = ["transition"]

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
