"""Other voices: where else a person is reached, what signs the links they answer by, and which promises are broken."""

from duly.db.migrations import run_file

revision = "0009_voices"
down_revision = "0008_telegram"


def upgrade() -> None:
    """Build it."""
    run_file("0009_voices.up.sql")


def downgrade() -> None:
    """Take it down."""
    run_file("0009_voices.down.sql")
