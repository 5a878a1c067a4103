"""Migrations: each revision runs files of plain SQL, up or down, in one transaction, as the owner of what it creates.

    prelude: one migrator at a time, roles, schemas
    -> revisions: types, tables, indexes      (sql/<branch>_<number>.up.sql)
    -> functions, guards, policies, grants    (functions.sql and guards.sql of each package; only what changed)
    -> what is written once with them         (sql/<branch>_<number>.data.sql)

Alembic keeps the order of the revisions, and which were applied.
"""

from collections.abc import Iterable
from dataclasses import asdict

from alembic import context
from sqlalchemy import text

from duly.db.migrations.branches import APPLICATIONS, BRANCHES, list_schemas
from duly.db.migrations.objects import GRANTS, name_object, schema_values
from duly.db.migrations.script import (
    DIRECTORY,
    MIGRATION_LOCK,
    Names,
    fill,
    names_from_settings,
    read_file,
    split_statements,
    to_array,
)

__all__ = [
    "APPLICATIONS",
    "BASE_FUNCTIONS",
    "BRANCHES",
    "DIRECTORY",
    "Names",
    "drop_functions",
    "fill",
    "names_from_settings",
    "prelude",
    "read_file",
    "run_after_functions",
    "run_base_functions",
    "run_file",
    "run_script",
    "split_statements",
]

BASE_FUNCTIONS = DIRECTORY.parent / "functions.sql"
CREATE_SCHEMA = "create schema if not exists {schema} authorization {owner};\n"


def prelude(names: Names, branches: Iterable[str]) -> str:
    """Return the statements that every migration begins with; the schemas of these branches are created."""
    schemas = list_schemas(branches, names)
    values = {**asdict(names), "lock": str(MIGRATION_LOCK), "schemas": to_array(schemas)}
    opening = fill(read_file("prelude.sql"), values)
    created = "".join(fill(CREATE_SCHEMA, {**values, "schema": schema}) for schema in schemas)
    return opening + "\n" + created + fill(read_file("become_owner.sql"), values)


def run_file(name: str) -> None:
    """Run one file of the `sql` directory in the current migration."""
    names: Names = context.config.attributes["names"]
    run_script(fill(read_file(name), asdict(names)))


def run_after_functions(name: str) -> None:
    """Run one file of the `sql` directory at the end of the migration, when functions and guards are there."""
    context.config.attributes.setdefault("after_functions", []).append(name)


def run_base_functions() -> None:
    """Create the functions that defaults and checks of tables call."""
    names: Names = context.config.attributes["names"]
    for statement in split_statements(fill(BASE_FUNCTIONS.read_text(), asdict(names))):
        if name_object(statement) != GRANTS:
            run_script(statement)


def drop_functions(branch: str) -> None:
    """Drop the functions of a branch that nothing depends on."""
    names: Names = context.config.attributes["names"]
    run_script(fill(read_file("drop_functions.sql"), schema_values(names, [branch])))


def run_script(script: str) -> None:
    """Run a script in the current migration, or print it; an error names the statement that failed."""
    for statement in split_statements(script):
        if context.is_offline_mode():
            context.execute(text(statement.replace(":", r"\:")))  # a colon is part of the SQL here, not a parameter
        else:
            context.get_bind().exec_driver_sql(statement, execution_options={"no_parameters": True})
