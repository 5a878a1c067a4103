"""The engine: tenants, people, keys, workers, the outbox and the ledger."""

from duly.db.migrations.run import drop_functions, run_after_functions, run_base_functions, run_file

revision = "engine_0001"
down_revision = None
branch_labels = ("engine",)


def upgrade() -> None:
    """Create its tables."""
    run_base_functions()  # defaults and checks of the tables call them
    run_file("engine_0001.up.sql")
    run_after_functions("engine_0001.data.sql")


def downgrade() -> None:
    """Drop its tables and functions."""
    drop_functions("engine")
    run_file("engine_0001.down.sql")
    drop_functions("engine")
