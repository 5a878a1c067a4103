"""Ingest: sessions and their images, days with their versions, events and snapshots, and what people are told."""

from duly.db.migrations import run_file

revision = "0005_ingest"
down_revision = "0004_posts"


def upgrade() -> None:
    """Build it."""
    run_file("0005_ingest.up.sql")


def downgrade() -> None:
    """Take it down."""
    run_file("0005_ingest.down.sql")
