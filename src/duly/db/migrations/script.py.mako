"""${message}."""

from duly.db.migrations.run import run_file

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}


def upgrade() -> None:
    """Run the SQL of this revision; then functions, guards and grants are brought up to date."""
    run_file("${up_revision}.up.sql")


def downgrade() -> None:
    """Take it back."""
    run_file("${up_revision}.down.sql")
