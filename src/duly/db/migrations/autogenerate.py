"""`alembic revision --autogenerate`: writes the differences as the two SQL files that a revision runs.

Alembic sees tables, columns, constraints and indexes. Functions, triggers, policies and grants are added by hand.
"""

import io
from collections.abc import Iterable, Iterator
from typing import Any, cast

from alembic import command, context
from alembic.operations import Operations
from alembic.operations.ops import MigrateOperation, MigrationScript, OpContainer
from alembic.runtime.migration import MigrationContext

from duly.db.migrations import DIRECTORY

HEADING = (
    "-- {message}. Written by `alembic revision --autogenerate`, which sees tables only: read it, and add the rest.\n\n"
)


def write_files(_context: Any, _revision: Any, scripts: Iterable[MigrationScript]) -> None:
    """Write the files of a new revision; `alembic check`, which calls this too, writes none."""
    if getattr(context.config.cmd_opts, "cmd", (None,))[0] is not command.revision:
        return
    for script in scripts:
        heading = HEADING.format(message=script.message or "A change of tables")
        for direction, found in (("up", script.upgrade_ops), ("down", script.downgrade_ops)):
            file = DIRECTORY / "sql" / f"{script.rev_id}.{direction}.sql"
            file.write_text(heading + to_sql(cast("OpContainer", found).ops))


def to_sql(operations: Iterable[MigrateOperation]) -> str:
    """Convert operations to statements of PostgreSQL."""
    written = io.StringIO()
    offline = MigrationContext.configure(
        dialect_name="postgresql", opts={"as_sql": True, "output_buffer": written, "version_table_schema": "duly"}
    )
    invoke = Operations(offline).invoke
    for operation in flatten(operations):
        invoke(operation)
    return written.getvalue().rstrip() + "\n"


def flatten(operations: Iterable[MigrateOperation]) -> Iterator[MigrateOperation]:
    """Yield single operations from those that Alembic groups by table."""
    for operation in operations:
        if isinstance(operation, OpContainer):
            yield from flatten(operation.ops)
        else:
            yield operation
