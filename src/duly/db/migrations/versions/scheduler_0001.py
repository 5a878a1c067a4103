"""The scheduler: recurring reminders, their runs, answers and expenses."""

from duly.db.migrations.run import drop_functions, run_after_functions, run_file

revision = "scheduler_0001"
down_revision = None
branch_labels = ("scheduler",)
depends_on = "engine_0001"


def upgrade() -> None:
    """Create its tables."""
    run_file("scheduler_0001.up.sql")
    run_after_functions("scheduler_0001.data.sql")


def downgrade() -> None:
    """Drop its tables and functions."""
    drop_functions("scheduler")
    run_file("scheduler_0001.down.sql")
    drop_functions("scheduler")
