"""Migrations: each revision runs files of plain SQL, up or down, in one transaction, as the owner of what it creates.

    prelude: one migrator at a time, roles, schemas
    -> revisions: types, tables, indexes      (sql/<branch>_<number>.up.sql)
    -> functions, guards, policies, grants    (functions.sql and guards.sql of each package; only what changed)
    -> what is written once with them         (sql/<branch>_<number>.data.sql)

Alembic keeps the order of the revisions, and which were applied. It is imported by `run` and `env` alone, and with it
SQLAlchemy: what only names roles and schemas needs neither.
"""

from collections.abc import Sequence
from dataclasses import asdict

from duly.db.migrations.branches import APPLICATIONS, BRANCHES, list_schemas
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
    "fill",
    "names_from_settings",
    "prelude",
    "read_file",
    "split_statements",
]

BASE_FUNCTIONS = DIRECTORY.parent / "functions.sql"
CREATE_SCHEMA = "create schema if not exists {schema} authorization {owner};\n"


def prelude(names: Names, branches: Sequence[str]) -> str:
    """Return the statements that every migration begins with; the schemas of these branches are created."""
    shared = [schema for branch in branches for schema in BRANCHES[branch].shared_schemas]
    schemas = [*list_schemas(branches, names), *shared]
    values = {**asdict(names), "lock": str(MIGRATION_LOCK), "schemas": to_array(schemas)}
    opening = fill(read_file("prelude.sql"), values)
    created = "".join(fill(CREATE_SCHEMA, {**values, "schema": schema}) for schema in schemas)
    return opening + "\n" + created + fill(read_file("become_owner.sql"), values)
