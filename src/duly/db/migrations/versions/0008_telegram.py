"""Telegram: whom the bot meets, whom a link binds, and sessions under a name of the bot's own."""

from duly.db.migrations import run_file

revision = "0008_telegram"
down_revision = "0007_delivery"


def upgrade() -> None:
    """Build it."""
    run_file("0008_telegram.up.sql")


def downgrade() -> None:
    """Take it down."""
    run_file("0008_telegram.down.sql")
