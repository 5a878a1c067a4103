"""Migrations: each revision runs a file of plain SQL, up or down, in one transaction, as the owner of what it makes.

Alembic keeps the order and the book of what was applied. In the files, `{worker}` stands for a role's name, quoted, and
`{'worker'}` for the same name as a text value: the names come from the settings; `{ingest}` is DB_SCHEMA.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from alembic import context, op
from psycopg import sql
from sqlalchemy import text

from duly.settings import Settings

__all__ = ["DIRECTORY", "MIGRATION_LOCK", "Names", "fill", "names_of", "prelude", "run_file"]

DIRECTORY = Path(__file__).parent
MIGRATION_LOCK = 0x64756C79_6D696772  # "duly" "migr"
PLACE = re.compile(r"\{(')?([a-z]+)(?(1)')\}")


@dataclass(frozen=True)
class Names:
    """The names that differ between installations: of the four roles, and of the schema of the ingest tables."""

    owner: str = "duly_owner"
    worker: str = "duly_worker"
    api: str = "duly_api"
    readonly: str = "duly_readonly"
    ingest: str = "schedule_ingest"


def names_of(settings: Settings) -> Names:
    """The names in these settings."""
    return Names(
        settings.owner_role, settings.worker_role, settings.api_role, settings.readonly_role, settings.db_schema
    )


def fill(statements: str, values: Mapping[str, str]) -> str:
    """The statements with names and values in their places."""

    def put(place: re.Match[str]) -> str:
        value = values[place[2]]
        return sql.Literal(value).as_string(None) if place[1] else sql.Identifier(value).as_string(None)

    return PLACE.sub(put, statements)


def prelude(roles: Names) -> str:
    """What every migration begins with."""
    values = {**asdict(roles), "lock": str(MIGRATION_LOCK)}
    return fill((DIRECTORY / "prelude.sql").read_text().rstrip(";\n"), values)


def run_file(name: str) -> None:
    """Run one file of the `sql` directory in the migration that is under way."""
    roles: Names = context.config.attributes["roles"]
    statements = fill((DIRECTORY / "sql" / name).read_text().rstrip(";\n"), asdict(roles))
    op.execute(text(statements.replace(":", r"\:")))  # a colon is SQL's here, not a parameter's
