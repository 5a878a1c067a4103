"""Ingest: photographed day schedules, their versions, events and notifications."""

from duly.db.migrations.run import drop_functions, run_file

revision = "ingest_0001"
down_revision = None
branch_labels = ("ingest",)
depends_on = "engine_0001"


def upgrade() -> None:
    """Create its tables."""
    run_file("ingest_0001.up.sql")


def downgrade() -> None:
    """Drop its tables and functions."""
    drop_functions("ingest")
    run_file("ingest_0001.down.sql")
    drop_functions("ingest")
