"""Delivery: the order of messages to one person, where webhooks go, and notifications that are leased in place."""

from duly.db.migrations import run_file

revision = "0007_delivery"
down_revision = "0006_scheduler"


def upgrade() -> None:
    """Build it."""
    run_file("0007_delivery.up.sql")


def downgrade() -> None:
    """Take it down."""
    run_file("0007_delivery.down.sql")
