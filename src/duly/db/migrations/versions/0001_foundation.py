"""The foundation: the clocks, tenants, people, keys, workers, and the log of transitions."""

from duly.db.migrations import run_file

revision = "0001_foundation"
down_revision = None


def upgrade() -> None:
    """Build it."""
    run_file("0001_foundation.up.sql")


def downgrade() -> None:
    """Take it down."""
    run_file("0001_foundation.down.sql")
