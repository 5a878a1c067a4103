"""Alembic's entry: under `duly migrate` it finds a connection waiting, under `alembic` it opens one itself."""

import re
import sys
from dataclasses import asdict
from typing import Any

from alembic import context
from sqlalchemy import Connection, text

from duly.db.location import open_database
from duly.db.metadata import every_table
from duly.db.migrate import connected, direct_dsn
from duly.db.migrations import Names, fill, names_of, prelude, run_script
from duly.settings import load_settings

PARTITION = re.compile(r"_(\d{4}_\d{2}|default)$")
SHOW_REVISION = "grant select on duly.alembic_version to {worker}, {api}, {readonly}"  # `duly doctor` reads it


def is_compared(name: str | None, kind: str, parents: Any) -> bool:  # noqa: ARG001
    """Whole tables are; their partitions come and go with the months."""
    return not (kind == "table" and name and PARTITION.search(name))


OPTIONS: dict[str, Any] = {
    "target_metadata": every_table(),
    "version_table_schema": "duly",
    "include_schemas": True,
    "transaction_per_migration": False,
    "compare_type": True,
    "include_name": is_compared,
}


def run(connection: Connection, roles: Names) -> None:
    """Migrate through this connection, in the one transaction it has open."""
    context.configure(connection=connection, **OPTIONS)
    run_script(prelude(roles))
    with context.begin_transaction():
        context.run_migrations()
        context.execute(text(fill(SHOW_REVISION, asdict(roles))))


def print_sql(roles: Names) -> None:
    """Write the SQL of a migration instead of running it."""
    context.configure(
        dialect_name="postgresql", dialect_opts={"paramstyle": "named"}, output_buffer=sys.stdout, **OPTIONS
    )
    with context.begin_transaction():
        run_script(prelude(roles))
        context.run_migrations()
        context.execute(text(fill(SHOW_REVISION, asdict(roles))))


attributes = context.config.attributes
roles: Names = attributes.setdefault("roles", names_of(load_settings()))
if context.is_offline_mode():
    print_sql(roles)
elif waiting := attributes.get("connection"):
    run(waiting, roles)
else:
    settings = load_settings()
    with open_database(settings) as database, connected(direct_dsn(settings, database)) as connection:
        run(connection, roles)
