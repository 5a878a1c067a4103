"""Alembic's entry point: `duly migrate` passes a connection; under `alembic` it opens one itself."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from alembic import context
from sqlalchemy import Connection, text

from duly.db.location import open_database
from duly.db.metadata import tables_for_installation
from duly.db.migrate import direct_dsn, list_tables, migration_transaction
from duly.db.migrations import Names, fill, names_from_settings, prelude, run_script
from duly.db.migrations.autogenerate import write_files
from duly.settings import load_settings

SHOW_REVISION = "grant select on duly.alembic_version to {worker}, {api}, {readonly}"  # `duly doctor` reads it
OPTIONS: dict[str, Any] = {
    "version_table_schema": "duly",
    "include_schemas": True,
    "transaction_per_migration": False,
    "compare_type": True,
    "process_revision_directives": write_files,
}


def run(connection: Connection, roles: Names) -> None:
    """Migrate through this connection, in the one transaction it has open; commands that only read change nothing."""
    tables = list_tables(connection.connection.driver_connection, roles)  # pyright: ignore[reportArgumentType]
    default = connection.dialect.default_schema_name
    is_compared = roles.ingest != default and tables.get((roles.ingest, "capture_session"), True)
    context.configure(
        connection=connection,
        target_metadata=tables_for_installation(roles.ingest if is_compared else None),
        include_name=include_own_tables(tables),
        **OPTIONS,
    )
    if context.get_context().opts.get("dont_mutate"):  # `alembic current`
        context.run_migrations()
        return
    run_script(prelude(roles))
    with context.begin_transaction():
        context.run_migrations()
        context.execute(text(fill(SHOW_REVISION, asdict(roles))))


def include_own_tables(tables: Mapping[tuple[str, str], bool]) -> Callable[..., bool]:
    """Build the filter of the tables to compare: those of duly's owner, not others in the same schemas.

    The default schema, which has no name here, is not compared either, even where DB_SCHEMA names it.
    """
    owned = {table for table, is_owned in tables.items() if is_owned}
    schemas = {schema for schema, _ in owned}

    def is_compared(name: str | None, object_type: str, parents: Mapping[str, str | None]) -> bool:
        if object_type == "schema":
            return name in schemas
        return object_type != "table" or (parents["schema_name"], name) in owned

    return is_compared


def print_sql(roles: Names) -> None:
    """Print the SQL of a migration instead of running it."""
    context.configure(
        dialect_name="postgresql", dialect_opts={"paramstyle": "named"}, output_buffer=sys.stdout, **OPTIONS
    )
    with context.begin_transaction():
        run_script(prelude(roles))
        context.run_migrations()
        context.execute(text(fill(SHOW_REVISION, asdict(roles))))


attributes = context.config.attributes
roles: Names = attributes.setdefault("roles", names_from_settings(load_settings()))
if context.is_offline_mode():
    print_sql(roles)
elif given_connection := attributes.get("connection"):
    run(given_connection, roles)
else:
    settings = load_settings()
    with open_database(settings) as database, migration_transaction(direct_dsn(settings, database)) as connection:
        run(connection, roles)
