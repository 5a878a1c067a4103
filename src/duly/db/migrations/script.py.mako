"""${message}."""

from duly.db.migrations import run_file

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    """Build it."""
    run_file("${up_revision}.up.sql")


def downgrade() -> None:
    """Take it down."""
    run_file("${up_revision}.down.sql")
