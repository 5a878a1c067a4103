"""The scheduler: schedules and their runs month by month, answers, and what is booked for them."""

from duly.db.migrations import run_file

revision = "0006_scheduler"
down_revision = "0005_ingest"


def upgrade() -> None:
    """Build it."""
    run_file("0006_scheduler.up.sql")


def downgrade() -> None:
    """Take it down."""
    run_file("0006_scheduler.down.sql")
