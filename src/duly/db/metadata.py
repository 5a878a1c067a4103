"""SQLAlchemy metadata of all tables: for drift checks, never for running statements.

Names follow the ledger contract: `pk_job`, `fk_job_event_job_job_id`, `idx_job__status_created_at`, `uq_users__uid`,
`ck_job__status_finished_at_consistency`, so that a domain can translate a violated constraint by its name.
"""

import importlib
import importlib.util
import pkgutil
from pathlib import Path

from sqlalchemy import MetaData
from sqlalchemy.dialects.postgresql import ENUM

import duly

INGEST = "schedule_ingest"  # the schema in which the ingest tables are declared

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s_%(column_0_N_name)s",
        "ix": "idx_%(table_name)s__%(column_0_N_name)s",
        "uq": "uq_%(table_name)s__%(column_0_N_name)s",
        "ck": "ck_%(table_name)s__%(constraint_name)s",
    }
)


def load_all_tables() -> MetaData:
    """Import the `tables.py` of every package and application, which adds its tables to the metadata."""
    applications = [str(Path(path) / "apps") for path in duly.__path__]
    packages = [*pkgutil.iter_modules(duly.__path__, "duly."), *pkgutil.iter_modules(applications, "duly.apps.")]
    for package in packages:
        if package.ispkg and importlib.util.find_spec(f"{package.name}.tables"):
            importlib.import_module(f"{package.name}.tables")
    return metadata


def tables_for_installation(ingest: str | None) -> MetaData:
    """Copy all tables as an installation names them: those of ingest in this schema; None leaves them out."""

    def installed_schema(schema: str | None) -> str:
        assert schema, "every table of duly has a schema"
        return ingest if ingest and schema == INGEST else schema

    named = MetaData(naming_convention=metadata.naming_convention)
    for table in load_all_tables().sorted_tables:
        if table.schema != INGEST or ingest:
            copy = table.to_metadata(
                named,
                schema=installed_schema(table.schema),
                referred_schema_fn=lambda _table, _to, _constraint, referred: installed_schema(referred),
            )
            for column in copy.columns:
                if isinstance(enum := column.type, ENUM):  # to_metadata keeps the schema an enum was declared in
                    column.type = ENUM(*enum.enums, name=enum.name, schema=copy.schema, create_type=False)
    return named
