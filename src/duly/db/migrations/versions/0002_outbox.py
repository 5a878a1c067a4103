"""The outbox, wake-ups for workers, logs that only grow on every partition, and retention."""

from duly.db.migrations import run_file

revision = "0002_outbox"
down_revision = "0001_foundation"


def upgrade() -> None:
    """Build it."""
    run_file("0002_outbox.up.sql")


def downgrade() -> None:
    """Take it down."""
    run_file("0002_outbox.down.sql")
