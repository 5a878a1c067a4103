"""Posts: one per author and day, released six hours later."""

from duly.db.migrations.run import drop_functions, run_file

revision = "posts_0001"
down_revision = None
branch_labels = ("posts",)
depends_on = "engine_0001"


def upgrade() -> None:
    """Create its tables."""
    run_file("posts_0001.up.sql")


def downgrade() -> None:
    """Drop its tables and functions."""
    drop_functions("posts")
    run_file("posts_0001.down.sql")
    drop_functions("posts")
