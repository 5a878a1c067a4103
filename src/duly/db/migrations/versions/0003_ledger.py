"""The ledger: jobs, their log, pauses and limits, and the functions that any language may call."""

from duly.db.migrations import run_file

revision = "0003_ledger"
down_revision = "0002_outbox"


def upgrade() -> None:
    """Build it."""
    run_file("0003_ledger.up.sql")


def downgrade() -> None:
    """Take it down."""
    run_file("0003_ledger.down.sql")
