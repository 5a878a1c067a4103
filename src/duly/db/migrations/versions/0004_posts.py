"""Posts: one per author and day, their locks, their requests, the images that came for them, and how they fared."""

from duly.db.migrations import run_file

revision = "0004_posts"
down_revision = "0003_ledger"


def upgrade() -> None:
    """Build it."""
    run_file("0004_posts.up.sql")


def downgrade() -> None:
    """Take it down."""
    run_file("0004_posts.down.sql")
